"""Both roles from start to end: the first failure ends the run, and no process survives it.

  launcher ── torchrun ── ranks     trainer       each torchrun in a session of its own
          └── torchrun ── ranks     inferencer

* A rank dies: torchrun says which, the role's other ranks have seconds to end; then the other role gets
  SIGTERM, so that the Trainer saves, and after ``grace_seconds``, or a signal here, SIGKILL.
* SIGINT, SIGTERM or SIGHUP here: the ranks themselves get SIGTERM, so that the Trainer saves; after
  ``grace_seconds``, or a second signal, SIGKILL.
* The launcher is killed: its lock on the run folder falls, every rank sees that (dance.stopping)
  and torchrun ends with its ranks.
* A role that exits with 0 is done, whenever that is.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from dance.paths import Role, RunPaths, newest

from . import processes
from .plan import FAILED_ROLE_SECONDS, RolePlan
from .postmortem import Failure, clean_stop, ends_its_ranks, examine

DONE, FAILED = 0, 1
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Outcome:
    """How a run ended: 0 done, 1 failed, 128 + N stopped by signal N after saving."""

    code: int
    message: str = ""


@dataclass
class Asked:
    """Signals that this process got, in order."""

    numbers: list[int] = field(default_factory=list)

    def note(self, number: int, frame: FrameType | None) -> None:
        self.numbers.append(number)


def supervise(
    plans: Sequence[RolePlan],
    paths: RunPaths,
    lock: Path,
    grace_seconds: float,
    on_tick: Callable[[], None] = lambda: None,
    on_message: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Start the roles and wait for their end. ``lock`` is held by this process.

    ``on_tick()`` is called ten times a second, ``on_message(text)`` when a person should know.
    """
    processes.end(lock)  # of an earlier launcher that was killed a moment ago
    with _listening() as asked:
        try:
            running = {plan.role: (plan, processes.start(plan, lock)) for plan in plans}
            return _watch(_Run(running, paths, lock, grace_seconds, asked, on_tick, on_message))
        finally:
            processes.end(lock)


@dataclass(frozen=True)
class _Run:
    roles: dict[Role, tuple[RolePlan, subprocess.Popen[bytes]]]
    paths: RunPaths
    lock: Path
    grace_seconds: float
    asked: Asked
    on_tick: Callable[[], None]
    on_message: Callable[[str], None]

    def codes(self) -> dict[Role, int | None]:
        return {role: process.poll() for role, (_, process) in self.roles.items()}


def _watch(run: _Run) -> Outcome:
    lookouts = {role: _Lookout() for role in run.roles}
    while None in (codes := run.codes()).values() and not any(codes.values()):
        if run.asked.numbers:
            return _stop(run)
        run.on_tick()
        _hasten(run, lookouts)
        time.sleep(_POLL_SECONDS)
    run.on_tick()
    for role, code in codes.items():
        if code:
            return _failed(run, role, code)
    return Outcome(DONE)


@dataclass
class _Lookout:
    """What is known of one role's torchrun output."""

    size: int = 0  # bytes read
    since: float | None = None  # when it was seen to end its ranks


def _hasten(run: _Run, lookouts: dict[Role, _Lookout]) -> None:
    """torchrun gives the other ranks of a failed one half a minute, whatever it is told; we give them seconds."""
    for role, (plan, process) in run.roles.items():
        lookout = lookouts[role]
        size = plan.output.stat().st_size if plan.output.exists() else 0
        if lookout.since is None and size > lookout.size:
            lookout.size = size
            lookout.since = time.monotonic() if ends_its_ranks(plan) else None
        late = lookout.since is not None and time.monotonic() - lookout.since > FAILED_ROLE_SECONDS
        if late and process.poll() is None:
            processes.kill_ranks(run.lock, role)


def _failed(run: _Run, role: Role, code: int) -> Outcome:
    """Examine first: the failing role's files are complete, those of the other are not needed."""
    failure: Failure = examine(run.roles[role][0], code, run.paths)
    run.on_message(
        f"{role} failed: the other role saves and leaves (at most {run.grace_seconds:.0f} s; Ctrl-C to kill it at once)"
    )
    late = _end(run, len(run.asked.numbers))
    killed = f"killed before it had saved: {' and '.join(late)}; " if late else ""
    return Outcome(FAILED, f"{failure}\n  {killed}{_saved(run.paths)}")


def _stop(run: _Run) -> Outcome:
    number = signal.Signals(run.asked.numbers[0])
    run.on_message(
        f"{number.name}: the Trainer saves and both roles leave (at most {run.grace_seconds:.0f} s; "
        "once more to kill them at once)"
    )
    late = _end(run, 1)
    if late:
        return Outcome(FAILED, f"killed before it had ended by itself: {' and '.join(late)}; {_saved(run.paths)}")
    for role, code in run.codes().items():
        if not clean_stop(run.roles[role][0], code or 0):
            return Outcome(FAILED, str(examine(run.roles[role][0], code or 0, run.paths)))
    return Outcome(128 + number, f"stopped by {number.name}; {_saved(run.paths)}")


def _end(run: _Run, signals: int) -> list[Role]:
    """Ask all to leave and see to it that they do; returns the roles that did not by themselves.

    With more than ``signals`` here their time is over.
    """
    for role in run.roles:
        processes.ask_to_end(run.lock, role)
    deadline = time.monotonic() + run.grace_seconds
    while _unended(run) and time.monotonic() < deadline and len(run.asked.numbers) <= signals:
        run.on_tick()
        time.sleep(_POLL_SECONDS)
    late = [role for role, code in run.codes().items() if code is None]
    processes.end(run.lock)
    return late


def _unended(run: _Run) -> bool:
    """Ranks whose torchrun was killed are waited for too, and torchruns that leave and have no code yet."""
    return None in run.codes().values() or bool(processes.family(run.lock))


def _saved(paths: RunPaths) -> str:
    """Where a resume would go on."""
    step, where = newest(paths.checkpoints), shlex.quote(str(paths.whole))
    if step is None:
        return f"no checkpoint was saved yet; begin again with: dance run resume=true run_dir={where}"
    return f"checkpoint of step {step} is whole; go on with: dance run resume=true run_dir={where}"


@contextmanager
def _listening() -> Iterator[Asked]:
    asked = Asked()
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, asked.note) for number in wanted}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
