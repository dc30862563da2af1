"""The `evaluate` verb: any encoder on any split, metrics.json and run.trec.

dance evaluate run=RUN [step=N] [split=test]             an encoder of a run, the best by default
dance evaluate model.path=ENCODER data.path=FOLDER ...    any other; settings as for a run
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dance import config as schema
from dance import paths
from dance.config import Config
from dance.paths import RunPaths, step_name

from . import overrides, stages, terminal
from .compose import compose
from .prepare import terminable
from .preparing import Teller
from .report import best_step

_METRICS = "metrics.json"
_OWN = ("run", "step", "split", "out")


def main(arguments: Sequence[str]) -> int:
    """0 when scored. Raises ValueError for bad input."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    given = dict(argument.partition("=")[::2] for argument in arguments)
    own = {key: value for key, value in given.items() if key in _OWN}
    others = [argument for argument in arguments if argument.partition("=")[0] not in _OWN]
    for argument in others:
        _refuse_mistyped(argument.partition("=")[0])
    if "run" in own and others:
        raise ValueError(f"run={own['run']} brings its own settings: leave out {' '.join(others)}")
    _use_threads(given.get("launch.threads"))
    if "step" in own and "run" not in own:
        raise ValueError(f"step={own['step']} is a step of a run: add run=FOLDER")
    return _of_run(own) if "run" in own else _of_settings(compose([*_whole(others), *others]), own)


def _use_threads(count: str | int | None) -> None:
    """Before torch and Faiss are imported, which read it once; all cores where nobody says."""
    if str(count).isdigit():
        os.environ["OMP_NUM_THREADS"] = str(count)


def _refuse_mistyped(key: str) -> None:
    """Of this verb's own names; those of settings are refused where they are read."""
    close = difflib.get_close_matches(key, _OWN, n=1, cutoff=0.6)
    if close and key not in overrides.fields():
        raise ValueError(f"evaluate takes no {key!r}; did you mean {close[0]}?")


def _of_run(own: dict[str, str]) -> int:
    run = stages.last(RunPaths(Path(own["run"]).expanduser().resolve()))
    config = schema.read(run.config)
    _use_threads(config.launch.threads)
    step = _step(run, own.get("step"))
    folder = run.held("encoders", step)
    if folder is None:
        there = ", ".join(map(str, paths.steps(run.encoders)))
        raise ValueError(f"{run.encoders} holds no encoder of step {step}; there are: {there or 'none'}")
    split = own.get("split", config.data.dev_split)
    out = Path(own["out"]) if "out" in own else run.evaluation / f"{step_name(step)}-{split}"
    return _score(config, folder, Path(config.prepared or ""), split, out)


def _step(run: RunPaths, given: str | None) -> int:
    if given is not None:
        if not given.isdigit():
            raise ValueError(f"step={given}: not a number of steps")
        return int(given)
    if (best := best_step(run)) is not None:
        return best
    newest = paths.newest(run.encoders) or 0
    terminal.say(f"step {newest}, the newest, is scored: {run.best.name}, which the Inferencer writes, is not here")
    return newest


def _whole(arguments: Sequence[str]) -> list[str]:
    """Settings that take the encoder and the text as they are, where nothing else is asked for."""
    from dance.encoder import files
    from dance.location import resolve_model

    given = dict(argument.partition("=")[::2] for argument in arguments)
    wanted: dict[str, object] = dict.fromkeys(
        ("data.max_documents", "data.max_train_queries", "data.max_dev_queries", "model.layers")
    )
    wanted |= {"model.query_max_tokens": 64, "model.document_max_tokens": 512}
    saved = files.read_settings(Path(resolve_model(given["model.path"]))) if "model.path" in given else None
    for name in saved.__struct_fields__ if saved else ():
        if (key := f"model.{name}") in overrides.fields() and name != "layers":  # all that there are
            wanted[key] = getattr(saved, name)
    return [f"{key}={_typed(value)}" for key, value in wanted.items() if key not in given]


def _typed(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _of_settings(config: Config, own: dict[str, str]) -> int:
    from dance.corpus.prepare import prepare

    split = own.get("split", config.data.dev_split)
    name = Path(config.model.path).name
    prepared = prepare(config, [split], Teller())
    out = Path(own["out"]) if "out" in own else _unused(Path(f"evaluation/{name}-{split}"))
    return _score(config, None, prepared, split, out)


def _unused(folder: Path) -> Path:
    """Two encoders may have one name: what was measured before keeps its place."""
    number, found = 1, folder
    while (found / _METRICS).exists():
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found


def _score(config: Config, folder: Path | None, prepared: Path, split: str, out: Path) -> int:
    """``folder`` is an encoder that we saved; None takes the configured one."""
    from dance.corpus.prepare import Prepared
    from dance.evaluation.scoring import open_encoder, score

    encoder = open_encoder(config, folder)
    opened, teller = Prepared.open(prepared), Teller()
    total = len(opened.documents)
    out.mkdir(parents=True, exist_ok=True)
    with terminable():
        found = score(encoder, opened, split, config, out, lambda done: teller("encode documents", done, total))
    facts = {"encoder": str(folder or config.model.path), "split": split, "queries": len(found.documents)}
    facts |= {f"queries_{name}": count for name, count in opened.collection.judged(split).items()}
    if (out / _METRICS).exists():
        terminal.say(f"{out / _METRICS}: of an earlier evaluation, replaced")
    found.write(out, **facts)
    for key, value in {**facts, **found.metrics}.items():
        terminal.show(f"{key:>20}  {value:.4f}" if isinstance(value, float) else f"{key:>20}  {value}")
    for line in opened.collection.told(split):
        terminal.show(line)
    files = [_METRICS, "run.trec", *(["run-d2q.trec"] if found.queries is not None else [])]
    terminal.show(f"{'written':>20}  {', '.join(str(out / name) for name in files)}")
    return 0
