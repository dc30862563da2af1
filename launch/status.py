"""`dance status RUN`: both roles, from any shell, also of a run that is dead."""

from __future__ import annotations

import shlex
from pathlib import Path

from dance import config as schema
from dance import tracking
from dance.paths import RunPaths, newest
from dance.stopping import is_locked

from . import picture, stage_table, stages, terminal
from .snapshot import look

ALIVE, FINISHED, STOPPED, DEAD = "running", "finished", "stopped", "dead"


def main(folder: str) -> int:
    """0: running, finished or stopped after saving; 1: dead; raises ValueError where there is no run."""
    paths = RunPaths(Path(folder).expanduser().resolve())
    return _of_stages(paths) if paths.stages.is_file() else _of_run(paths)


def _of_stages(root: RunPaths) -> int:
    """A line per stage, then the first one that is not finished in full."""
    staged = stages.read(root)
    terminal.show(f"{root.root}: {len(staged.stages)} stages")
    current = None
    for stage in staged.stages:
        paths = RunPaths(root.root / stage.folder)
        state = "to come" if stages.state(root, stage) == "to come" else condition(paths)
        gained = stage_table.line(stage.name, paths, stage.config)
        told = stage_table.value(gained.after, "ndcg@10") if state == FINISHED else ""
        terminal.show(f"  {stage.folder}: {state}" + (f", held-out NDCG@10 {told}" if told else ""))
        current = current or (paths if state not in (FINISHED, "to come") else None)
    if current is not None:
        return _of_run(current)
    if all(stages.state(root, stage) == "finished" for stage in staged.stages) or is_locked(root.lock("launcher")):
        return 0
    terminal.show(f"  go on with: dance run resume=true run_dir={shlex.quote(str(root.root))}")
    return 1


def _of_run(paths: RunPaths) -> int:
    schema.read(paths.config)
    seen, state = look(paths), condition(paths)
    terminal.show(f"{paths.root}: {state}")
    for damaged in seen.damaged:
        terminal.show(f"  {damaged}: damaged; the role writes it anew when it runs again")
    for role in (seen.trainer, seen.inferencer):
        if role is not None:
            terminal.show(f"  {role.role} on {role.host}, process {role.pid}, {_age(seen.now, role.updated_at)}")
    for line in picture.one_line(seen).split(" | "):
        terminal.show(f"  {line}")
    terminal.show(f"  {picture.dev_line(seen, None)}")
    adopted = tracking.read_lines(paths.journal)
    terminal.show(f"  negatives adopted: {len(adopted)}; checkpoint: {_step(newest(paths.checkpoints))}")
    if state in (STOPPED, DEAD):
        terminal.show(
            f"  logs: {paths.logs}\n  go on with: dance run resume=true run_dir={shlex.quote(str(paths.whole))}"
        )
    return 1 if state == DEAD else 0


def condition(paths: RunPaths) -> str:
    """Told from locks, which fall with their holders, and from what the roles wrote last."""
    if any(is_locked(paths.lock(holder)) for holder in ("launcher", "trainer", "inferencer")):
        return ALIVE
    if paths.finished.exists():
        return FINISHED
    seen = look(paths)
    phases = {role.phase for role in (seen.trainer, seen.inferencer) if role is not None}
    return STOPPED if phases and phases <= {"stopped", "finished"} else DEAD if phases else "not started"


def _age(now: float, then: float) -> str:
    return f"last sign {picture.clock(now - then)} ago" if then else "no sign yet"


def _step(step: int | None) -> str:
    return "none" if step is None else f"step {step}"
