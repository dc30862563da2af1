"""Several runs one after another, each from the best encoder of the one before.

RUN/ stages.json            what the stages are, and how each begins
     1-warmup/  2-ance/ …   a run folder each: resume, status and evaluate work on it as on any

Whether a stage is finished, begun or to come stands in its folder alone, so that a run which was cut off
anywhere goes on from what it finds. Every stage is composed and checked before the first one starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from dance import config as schema
from dance.artefact import replace_file
from dance.config import Config
from dance.paths import RunPaths, newest

from . import machine, overrides, plan, preflight, terminal
from .compose import changed, compose_stages, sets
from .prepare import claimed
from .report import best_step
from .stage_table import Line, line, show

State = Literal["finished", "begun", "to come"]
# What weights mean, so that it cannot change from one stage to the next; unit length can be added.
_LASTING = ("towers", "pooling", "head", "document_norm", "query_prompt", "document_prompt", "document_template")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_OWN = ("run_dir", "resume")  # arguments of the whole


class Stage(msgspec.Struct, frozen=True):
    name: str
    folder: str  # below the run's
    config: Config  # as composed
    chained: bool  # model.path is to be the best encoder of the stage before


class Staged(msgspec.Struct, frozen=True):
    """What RUN/stages.json holds."""

    stages: tuple[Stage, ...]


class Ended(msgspec.Struct, frozen=True):
    """How one stage went: its exit code, and BM25 on the same text."""

    code: int
    bm25: Mapping[str, float] | None = None


# Run one stage to its end, knowing those that follow.
RunOne = Callable[[Config, Sequence[Config]], Ended]


def asked(arguments: Sequence[str], folder: Path | None = None) -> tuple[RunPaths, Staged] | None:
    """The run in stages that is begun or continued by these arguments; None where it is a plain run.

    Raises ValueError that names the stage, the key and the remedy.
    """
    folder = folder or Path.cwd()
    given = overrides.read_arguments(arguments)
    if overrides.resumes(given):
        root = RunPaths((folder / Path(given.get("run_dir", ".")).expanduser()).resolve())
        return (root, _continued(root, given, folder)) if root.stages.is_file() else None
    configs = compose_stages(arguments, folder)
    if not configs:
        return None
    own = {name for name in configs if sets(arguments, name, "model.path")}
    root = RunPaths(Path(next(iter(configs.values())).run_dir or ""))
    if root.stages.exists():
        raise ValueError(f"{root.root} holds a run already: add resume=true to continue it, or choose another run_dir")
    preflight.refuse_used(next(iter(configs.values())), root)
    return root, lay_out(configs, own)


def lay_out(configs: Mapping[str, Config], own: set[str]) -> Staged:
    """Folders and chain of stages whose settings have the whole's run_dir and run_id; ``own`` bring their encoder.

    Raises ValueError where an encoder cannot pass from one stage to the next.
    """
    laid: list[Stage] = []
    for number, (name, config) in enumerate(configs.items(), start=1):
        if not _NAME.fullmatch(name):
            raise ValueError(f"stage {name!r}: a folder is named after it, use letters, digits, '_' and '-'")
        folder = f"{number}-{name}"
        ours = msgspec.structs.replace(
            config, run_dir=str(Path(config.run_dir or "") / folder), run_id=f"{config.run_id}-{number}"
        )
        laid.append(Stage(name, folder, ours, chained=number > 1 and name not in own))
        if laid[-1].chained:
            _refuse_break(laid[-2], laid[-1])
    return Staged(tuple(laid))


def _refuse_break(before: Stage, after: Stage) -> None:
    for key in _LASTING:
        old, new = getattr(before.config.model, key), getattr(after.config.model, key)
        if old != new:
            raise ValueError(
                f"stage {after.name}: model.{key}={new}, but the encoder comes from stage {before.name} with "
                f"{old}: give both the same, or set stages.{after.name}.model.path"
            )
    if before.config.model.normalize and not after.config.model.normalize:
        raise ValueError(
            f"stage {after.name}: model.normalize=false, but stage {before.name} learns unit vectors; they stay so"
        )


def follow(root: RunPaths, staged: Staged, one: RunOne) -> int:
    """Go through what is not finished. Exit codes as of a run; raises ValueError for bad input."""
    _check(root, staged)
    bm25 = None
    with claimed(root, lambda: any(state(root, stage) != "to come" for stage in staged.stages)):
        replace_file(root.stages, msgspec.json.format(msgspec.json.encode(staged), indent=1))
        for number, stage in enumerate(staged.stages, start=1):
            told = f"stage {number} of {len(staged.stages)}, {stage.name}"
            if state(root, stage) == "finished":
                terminal.say(f"{told}: finished")
                continue
            config = starting(root, staged, number - 1)
            terminal.say(f"\n{told}: from {config.model.path}")
            ended = one(config, [later.config for later in staged.stages[number:]])
            bm25 = ended.bm25 or bm25
            if ended.code:
                return ended.code
        show(lines(root, staged), bm25)
    return 0


def _check(root: RunPaths, staged: Staged) -> None:
    """Everything that can be known of the stages before the first one starts."""
    for stage in staged.stages:
        if state(root, stage) == "finished":
            continue
        paths = RunPaths(root.root / stage.folder)
        try:
            plan.plan(stage.config, paths, machine.find())
            preflight.check(stage.config, paths)
        except ValueError as error:
            raise ValueError(f"stage {stage.name}: {error}") from None


def starting(root: RunPaths, staged: Staged, index: int) -> Config:
    """The settings that a stage starts or goes on with. Raises ValueError where the one before left no encoder."""
    stage = staged.stages[index]
    if not stage.chained or stage.config.resume:
        return stage.config
    before = staged.stages[index - 1]
    encoder = best_encoder(RunPaths(root.root / before.folder), before.config)
    model = msgspec.structs.replace(stage.config.model, path=str(encoder))
    return msgspec.structs.replace(stage.config, model=model)


def best_encoder(paths: RunPaths, config: Config) -> Path:
    """By the held-out queries, or the last where only the first was scored (static)."""
    step = newest(paths.encoders) if config.schedule == "static" else best_step(paths)
    folder = None if step is None else paths.held("encoders", step)
    if folder is None:
        raise ValueError(f"{paths.root} is finished, but its best encoder is not there: the next stage needs it")
    return folder


def state(root: RunPaths, stage: Stage) -> State:
    paths = RunPaths(root.root / stage.folder)
    return "finished" if paths.finished.exists() else "begun" if paths.config.exists() else "to come"


def read(root: RunPaths) -> Staged:
    """Raises ValueError that names the file where it is damaged."""
    try:
        return msgspec.json.decode(root.stages.read_bytes(), type=Staged)
    except msgspec.DecodeError as error:
        raise ValueError(f"{root.stages}: {error}; resume the stages' own folders instead") from None


def last(run: RunPaths) -> RunPaths:
    """Of a run in stages the last one that has a best encoder, or else has begun; any other run itself."""
    if not run.stages.is_file():
        return run
    begun = [RunPaths(run.root / stage.folder) for stage in read(run).stages if state(run, stage) != "to come"]
    if not begun:
        raise ValueError(f"{run.root}: none of its stages has begun; see `dance status {run.root}`")
    return next((paths for paths in reversed(begun) if paths.best.is_file()), begun[-1])


def lines(root: RunPaths, staged: Staged) -> list[Line]:
    """What each stage that has begun gained."""
    begun = [stage for stage in staged.stages if state(root, stage) != "to come"]
    return [line(stage.name, RunPaths(root.root / stage.folder), stage.config) for stage in begun]


def _continued(root: RunPaths, given: Mapping[str, str], folder: Path) -> Staged:
    """The stages of a run, with what the arguments change in those that are not finished."""
    staged, of_all = read(root), overrides.of_all(given)
    overrides.refuse_unknown_stages(given, str(root.root), [stage.name for stage in staged.stages])
    if whole := [key for key in of_all if key in overrides.OF_THE_WHOLE and key not in _OWN]:
        raise ValueError(f"resume continues the whole run: {', '.join(whole)} cannot change for any stage of it")
    if "model.path" in of_all and state(root, staged.stages[0]) != "to come":
        raise ValueError(
            f"model.path is where stage {staged.stages[0].name} starts, and it has begun: set stages.NAME.model.path "
            "for a stage to come"
        )
    stages: list[Stage] = []
    for stage in staged.stages:
        stages.append(_resumed(root, stage, given, folder))
        if stages[-1].chained:
            _refuse_break(stages[-2], stages[-1])
    return Staged(tuple(stages))


def _resumed(root: RunPaths, stage: Stage, given: Mapping[str, str], folder: Path) -> Stage:
    """One that has begun goes on as it was, as any run does; one to come may still become another."""
    paths, own = RunPaths(root.root / stage.folder), overrides.of_stage(given, stage.name)
    now = state(root, stage)
    if now == "finished":
        if own:
            raise ValueError(f"stage {stage.name} is finished: {', '.join(own)} cannot change for it")
        return stage
    begun = now == "begun"
    before = schema.read(paths.config) if begun else stage.config
    asked_for = {key: value for key, value in overrides.of_all(given).items() if key not in _OWN} | own
    try:
        config = changed(before, asked_for, folder, begun)
    except ValueError as error:
        hint = "; settings of a stage to come alone: stages.NAME.KEY=VALUE" if begun else ""
        raise ValueError(f"stage {stage.name}: {error}{hint}") from None
    config = msgspec.structs.replace(config, run_dir=str(paths.root), resume=begun)
    return msgspec.structs.replace(stage, config=config, chained=stage.chained and "model.path" not in own)
