"""Settings become checked ``Config``s. Hydra lives here alone.

schema defaults < experiment < delta of a stage < negatives=NAME < batches=NAME < KEY=VALUE < stages.NAME.KEY=VALUE
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from dance import config as schema
from dance.config import Config
from dance.errors import first_line
from dance.location import PACKAGE
from dance.paths import RunPaths

from . import overrides

_PATHS = ("run_dir", "data.path", "data.prepared", "exchange.keys")
# What a resumed run may change: where and how long it runs, what a refresh costs and what is scored, not what is
# learnt nor from which batches.
_RESUMABLE = ("launch.", "exchange.", "encode.", "refresh.", "evaluate.", "train.steps", "train.log_every",
              "handover.keep", "checkpoint.keep", "run_dir", "resume")  # fmt: skip


def compose(arguments: Sequence[str], folder: Path | None = None) -> Config:
    """The settings of a new run, or of the one that resume=true continues, with absolute paths.

    Of an experiment in stages this is the one that stage=NAME names, or else what they have in common.
    Relative paths mean ``folder``, by default the one that the command was given in. Raises
    ValueError that names the key and the remedy.
    """
    folder = folder or Path.cwd()
    given = overrides.read_arguments(arguments)
    if overrides.resumes(given):
        return _resumed(given, folder)
    deltas = _deltas(given)
    return _new(given, folder, given.get(overrides.STAGE), deltas)


def compose_stages(arguments: Sequence[str], folder: Path | None = None) -> dict[str, Config]:
    """Of a new run: stage -> its settings, in order; {} where the experiment has none, or stage=NAME takes one.

    All have the run_dir and run_id of the whole. Raises ValueError as ``compose`` does.
    """
    folder = folder or Path.cwd()
    given = overrides.read_arguments(arguments)
    deltas = _deltas(given)
    if overrides.STAGE in given or not deltas:
        return {}
    whole = _new(given, folder, None, deltas)
    of_all = {"run_dir": whole.run_dir, "run_id": whole.run_id}
    return {name: msgspec.structs.replace(_new(given, folder, name, deltas), **of_all) for name in deltas}


def stage_names(experiment: str) -> list[str]:
    """In order; [] where the experiment has none."""
    return list(_read_deltas(experiment))


def sets(arguments: Sequence[str], stage: str, key: str) -> bool:
    """Whether this stage alone is given a value of its own for ``key``."""
    given = overrides.read_arguments(arguments)
    return key in overrides.of_stage(given, stage) or key in flat(_deltas(given)[stage])


def changed(before: Config, given: Mapping[str, str], folder: Path | None = None, begun: bool = True) -> Config:
    """A run's settings with what a resume may change: of one that has not ``begun``, all. Checked again.

    Raises ValueError for any other key, and for values that do not go together.
    """
    if fixed := [key for key in given if begun and not key.startswith(_RESUMABLE)]:
        raise ValueError(
            f"resume continues the run exactly as it was: {', '.join(fixed)} cannot change; "
            "leave that out, or start a new run"
        )
    # A file of conf/ comes on top of what is there, below single keys.
    given = {f"+{key}" if key in overrides.GROUPS else key: value for key, value in given.items()}
    plain = msgspec.to_builtins(before)
    if given:
        plain = _hydra("resumed", {"resumed": plain}, given)
    _make_absolute(plain, folder or Path.cwd())
    return schema.from_plain(plain)


def differences(before: Config, after: Config) -> dict[str, tuple[Any, Any]]:
    """Dotted key -> (old, new) of every setting that differs."""
    old, new = flat(msgspec.to_builtins(before)), flat(msgspec.to_builtins(after))
    return {key: (old[key], new[key]) for key in old if old[key] != new[key]}


def _new(given: Mapping[str, str], folder: Path, stage: str | None, deltas: Mapping[str, Any]) -> Config:
    own = overrides.of_all(given) | (overrides.of_stage(given, stage) if stage else {})
    delta = deltas[stage] if stage else {}
    plain = _hydra("config", {"base": msgspec.to_builtins(Config()), "stage": delta}, own)
    plain.pop(overrides.STAGES, None)
    for key in flat(plain):
        overrides.refuse_unknown(key)
    _make_absolute(plain, folder)
    plain["run_dir"] = plain["run_dir"] or str(_fresh_folder(folder / "runs", overrides.experiment(given)))
    plain["run_id"] = plain["run_id"] or uuid.uuid4().hex[:12]
    try:
        return schema.from_plain(plain)
    except ValueError as error:
        raise ValueError(f"stage {stage}: {error}" if stage else str(error)) from None


def _deltas(given: Mapping[str, str]) -> dict[str, Any]:
    """What each stage of the experiment changes, in order. Raises ValueError for a stage that there is not."""
    name = overrides.experiment(given)
    deltas = _read_deltas(name)
    overrides.refuse_unknown_stages(given, name, list(deltas))
    return deltas


@functools.cache
def _read_deltas(experiment: str) -> dict[str, Any]:
    nodes: dict[str, Any] = {"base": msgspec.to_builtins(Config()), "stage": {}}
    return _hydra("config", nodes, {overrides.EXPERIMENT: experiment}).get(overrides.STAGES) or {}


def _resumed(given: dict[str, str], folder: Path) -> Config:
    if not given.get("run_dir"):
        raise ValueError("resume=true needs run_dir=FOLDER, the run to continue")
    root = (folder / Path(given["run_dir"]).expanduser()).resolve()
    return changed(schema.read(RunPaths(root).config), given, folder)


def _hydra(primary: str, nodes: Mapping[str, dict[str, Any]], given: Mapping[str, str]) -> dict[str, Any]:
    """The file ``primary`` of conf/, or the node of that name; ``nodes`` are what it and its defaults name."""
    composed = _composed(primary, msgspec.json.encode(nodes), tuple(overrides.for_hydra(given)))
    plain: dict[str, Any] = msgspec.json.decode(composed)
    for key, value in overrides.texts(given).items():
        group, leaf = _place(plain, key)
        group[leaf] = value
    return plain


@functools.lru_cache(maxsize=256)
def _composed(primary: str, nodes: bytes, arguments: tuple[str, ...]) -> bytes:
    """As JSON. Kept, because Hydra takes a tenth of a second and the stages of a run ask alike."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    for name, node in msgspec.json.decode(nodes).items():
        ConfigStore.instance().store(name=name, node=node)
    try:
        with initialize_config_dir(str(overrides.CONF), version_base="1.3"):
            composed = hydra_compose(primary, list(arguments))
        return msgspec.json.encode(OmegaConf.to_container(composed, resolve=True))
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(f"settings: {first_line(error)} (given: {' '.join(arguments)})") from None


def flat(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in plain.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def _place(plain: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    section, _, leaf = key.rpartition(".")
    return (plain[section] if section else plain), leaf


def _make_absolute(plain: dict[str, Any], folder: Path) -> None:
    for key in _PATHS:
        group, leaf = _place(plain, key)
        if group[leaf] is not None:
            group[leaf] = str((folder / Path(group[leaf]).expanduser()).resolve())
    plain["model"]["path"] = _model_path(plain["model"]["path"], folder)


def _model_path(name: str, folder: Path) -> str:
    """A folder made absolute; a package address or hub name as it is."""
    local = folder / Path(name).expanduser()
    if name.startswith(PACKAGE) or not (local.is_dir() or name.startswith((".", "~", "/"))):
        return name
    return str(local.resolve())


def _fresh_folder(runs: Path, name: str) -> Path:
    """Decided once, here; a second start in the same second gets a number."""
    stem = f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    number, folder = 1, runs / stem
    while folder.exists():
        number += 1
        folder = runs / f"{stem}-{number}"
    return folder
