"""KEY=VALUE arguments: every key known, every value of its kind, before Hydra sees them."""

from __future__ import annotations

import difflib
import functools
import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dance.config import Config, Section

CONF = Path(__file__).resolve().parent.parent / "conf"
EXPERIMENT, NEGATIVES, BATCHES, STAGE, STAGES = "experiment", "negatives", "batches", "stage", "stages"
# Not of one stage.
OF_THE_WHOLE = (EXPERIMENT, "run_dir", "run_id", "resume", "prepared")
GROUPS = (EXPERIMENT, NEGATIVES, BATCHES)  # folders of conf/, of which one file is chosen by KEY=NAME


@functools.cache
def fields(section: type[Section] = Config, prefix: str = "") -> dict[str, Any]:
    """Type of every setting by its dotted key."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(section):
        if isinstance(field.type, type) and issubclass(field.type, Section):
            found |= fields(field.type, f"{prefix}{field.name}.")
        else:
            found[prefix + field.name] = field.type
    return found


def experiments() -> list[str]:
    return choices(EXPERIMENT)


def choices(group: str) -> list[str]:
    """Names that KEY=NAME may have."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def read_arguments(arguments: Iterable[str]) -> dict[str, str]:
    """{key: value as typed}; the last of equal keys wins. Raises ValueError that names the key meant."""
    given: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise ValueError(f"{argument!r} is no setting: write KEY=VALUE{_meant(key)}")
        stage, own = _split(key)
        if own != STAGE or stage:
            refuse_unknown(own)
        if stage and own in OF_THE_WHOLE:
            raise ValueError(f"{key}: {own} is of the whole run, not of a stage: write {own}={value}")
        if own in (NEGATIVES, BATCHES):
            _refuse_unknown_choice(own, value)
        given[key] = value
    if STAGE in given and resumes(given):
        raise ValueError(
            f"{STAGE}={given[STAGE]} with resume=true: resume the whole run by its run_dir alone, which goes on in the "
            "stage that was cut off, or give the stage's own folder (RUN/4-dual) as run_dir"
        )
    return given


def resumes(given: Mapping[str, str]) -> bool:
    return given.get("resume", "").lower() == "true"


def of_all(given: Mapping[str, str]) -> dict[str, str]:
    """What holds for every stage."""
    return {key: value for key, value in given.items() if not _split(key)[0] and key != STAGE}


def of_stage(given: Mapping[str, str], stage: str) -> dict[str, str]:
    """What ``stages.STAGE.KEY=VALUE`` says of this one alone, by KEY."""
    return {own: value for key, value in given.items() for of, own in (_split(key),) if of == stage}


def refuse_unknown_stages(given: Mapping[str, str], name: str, stages: Iterable[str]) -> None:
    """Raises ValueError for a stage that the experiment ``name`` has not."""
    known = list(stages)
    named = [of for of, _ in map(_split, given) if of] + ([given[STAGE]] if STAGE in given else [])
    for stage in named:
        if stage not in known:
            there = f"its stages are {', '.join(known)}" if known else "it has no stages"
            close = difflib.get_close_matches(stage, known, n=1)
            raise ValueError(f"no stage {stage!r} in {name}: {there}{f'; did you mean {close[0]}?' if close else ''}")


def refuse_unknown(key: str) -> None:
    """Raises ValueError that names the nearest known key."""
    known = fields()
    if key in known or key in GROUPS:
        return
    if inside := [name for name in known if name.startswith(f"{key}.")]:
        raise ValueError(f"{key} is a group of settings; set one of them: {', '.join(inside)}")
    if key[:1] in "+~":
        raise ValueError(f"{key}: settings are changed by KEY=VALUE, none is added or removed")
    raise ValueError(f"no setting is called {key!r}{_meant(key)}")


def nearest(key: str) -> str | None:
    """The known key that was most likely meant, by its last name first, then by its whole spelling."""
    known = list(fields())
    leaf = key.rpartition(".")[2]
    for same in (name for name in known if name.rpartition(".")[2] == leaf):
        return same
    by_leaf = {name.rpartition(".")[2]: name for name in reversed(known)}
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    close = close or [by_leaf[name] for name in difflib.get_close_matches(leaf, by_leaf, n=1, cutoff=0.6)]
    return close[0] if close else None


def for_hydra(given: Mapping[str, str]) -> list[str]:
    """Overrides in Hydra's grammar, all but text. Raises ValueError for a truth value that is none."""
    known = fields()
    return [f"{key}={_literal(key, value, known.get(key))}" for key, value in given.items() if not _text(key)]


def texts(given: Mapping[str, str]) -> dict[str, str | None]:
    """Values of text settings, as typed: 1e3 is no number there, a comma or = in a path no syntax."""
    return {key: _unquoted(value) for key, value in given.items() if _text(key)}


def experiment(given: Mapping[str, str], default: str = "smoke") -> str:
    """Name of the experiment. Raises ValueError that lists those there are."""
    name = given.get(EXPERIMENT, default)
    _refuse_unknown_choice(EXPERIMENT, name)
    return name


def _refuse_unknown_choice(group: str, name: str) -> None:
    if name not in (known := choices(group)):
        close = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"{group}={name}: there are {', '.join(known)}{meant}")


def _split(key: str) -> tuple[str, str]:
    """("warmup", "train.steps") of stages.warmup.train.steps; ("", KEY) of any other key."""
    first, _, rest = key.partition(".")
    if first != STAGES:
        return "", key
    stage, _, own = rest.partition(".")
    if not own:
        raise ValueError(f"{key}: write stages.NAME.KEY=VALUE for a setting of one stage")
    return stage, own


def _meant(key: str) -> str:
    close = nearest(key)
    return f"; did you mean {close}?" if close else "; `dance settings` shows all of them"


def _kinds(kind: Any) -> tuple[Any, ...]:
    """(int, None) of Annotated[int, ...] | None."""
    if typing.get_origin(kind) is typing.Annotated:
        return (typing.get_args(kind)[0],)
    return tuple(part for each in typing.get_args(kind) for part in _kinds(each)) or (kind,)


def _text(key: str) -> bool:
    return str in _kinds(fields().get(key))


def _literal(key: str, value: str, kind: Any) -> str:
    kinds = _kinds(kind)
    if bool in kinds and value.lower() not in ("true", "false"):
        raise ValueError(f"{key}={value}: write {key}=true or {key}=false")
    if int in kinds and re.fullmatch(r"\d+(\.\d*)?[eE]\+?\d+", value) and float(value).is_integer():
        return str(int(float(value)))  # train.steps=1e6
    return value


def _unquoted(value: str) -> str | None:
    if value == "null":
        return None
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
