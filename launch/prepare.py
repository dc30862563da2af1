"""From settings to a run folder that the roles can start on, and the `prepare` verb."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import msgspec

from dance import config as schema
from dance.config import Config
from dance.paths import RunPaths
from dance.stopping import LAUNCHER_LOCK, hold_lock

from . import machine, plan, preflight, terminal
from .compose import compose, compose_stages, differences
from .plan import RolePlan
from .preparing import Answer, Request

_GENTLE_SECONDS = 5.0  # for an interrupted child to clear up


@dataclass(frozen=True)
class Ready:
    """A run folder that is claimed, locked and filled."""

    config: Config
    paths: RunPaths
    lock: Path
    plans: tuple[RolePlan, ...]
    text: Answer


class Refused(Exception):
    """The preparing process has said why already; carries the exit code."""


@contextmanager
def ready(config: Config, run: bool, later: Sequence[Config] = ()) -> Iterator[Ready]:
    """The run folder, with the launcher's lock held until the block ends.

    ``run``: both roles will start on this machine. ``later``: stages to come, whose encoders are checked
    now. Raises ValueError for bad input and Refused where preparing failed; a folder that was made for
    nothing is gone then.
    """
    paths = RunPaths(Path(config.run_dir or ""))
    plans = plan.plan(config, paths, machine.find())
    preflight.check(config, paths, both_here=run)
    lock = paths.lock("launcher")
    with claimed(paths, paths.config.exists):
        terminal.say(f"run folder: {paths.root}")
        _tell_changes(config, paths)
        text = _prepare(Request(config, plans[1].processes, run, tuple(later)), lock)
        config = msgspec.structs.replace(config, prepared=text.prepared)
        schema.write(config, paths.config)
        terminal.say(
            f"text: {text.documents:,} documents, {text.train_queries:,} training and {text.dev_queries:,} "
            f"held-out queries, in {text.prepared}"
        )
        yield Ready(config, paths, lock, plans, text)


def main(arguments: Sequence[str]) -> int:
    """`dance prepare`: the folder, and how to start the roles in it by hand."""
    if stages := compose_stages(arguments):
        raise ValueError(
            f"an experiment in stages ({', '.join(stages)}) is gone through by `dance run`; to start the roles of one "
            "stage by hand, choose it by stage=NAME, with model.path=ENCODER of the stage before"
        )
    with ready(compose(arguments), run=False) as made:
        terminal.show("start the roles by hand with")
        for line in plan.by_hand(made.config, made.plans):
            terminal.show(f"  {line}")
        terminal.show(
            f"on another machine: `dance prepare` there with run_id={made.config.run_id}, the same settings, and "
            "exchange.encoders and exchange.negatives as tcp://HOST:PORT"
        )
    return 0


def _tell_changes(config: Config, paths: RunPaths) -> None:
    if config.resume:
        for key, (old, new) in differences(schema.read(paths.config), config).items():
            if key != "resume":
                terminal.say(f"changed on resume: {key} from {old} to {new}")


@contextmanager
def claimed(paths: RunPaths, filled: Callable[[], bool]) -> Iterator[None]:
    """This process holds the folder; where it is not ``filled()`` at the end, it was made for nothing."""
    made = [folder for folder in (paths.root, *paths.root.parents) if not folder.exists()]
    lock = paths.lock("launcher")
    handle = hold_lock(lock)
    try:
        yield
    finally:
        os.close(handle)
        if not filled():
            lock.unlink(missing_ok=True)
            paths.stages.unlink(missing_ok=True)
            for folder in made:
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()


def _prepare(request: Request, lock: Path) -> Answer:
    child = subprocess.Popen(
        [sys.executable, "-m", "launch.preparing"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {LAUNCHER_LOCK: str(lock)},
    )
    try:
        with terminable():
            answer, _ = child.communicate(msgspec.json.encode(request))
    finally:
        _end(child)
    if child.returncode:
        if child.returncode < 0:
            terminal.fail(f"preparing was killed by {signal.Signals(-child.returncode).name}")
        raise Refused(2 if child.returncode == 2 else 1)
    return msgspec.json.decode(answer, type=Answer)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Gently first, so that it takes its half-written folders with it."""
    child.terminate()
    try:
        child.wait(_GENTLE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM unwinds as Ctrl-C does, so that nothing is left behind."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
