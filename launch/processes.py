"""The processes of one launch: found by a mark that all of them inherit, so that none is missed.

A process may lose its parent, its session or its group; what it was started with stays in its
environment. Zombies have none left, so that they count as gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil

from dance.paths import Role
from dance.stopping import LAUNCHER_LOCK

from .plan import RolePlan

_ROLE = "DANCE_ROLE"


def start(plan: RolePlan, lock: Path) -> subprocess.Popen[bytes]:
    """In a session of its own, so that the terminal's Ctrl-C reaches the launcher alone."""
    plan.output.parent.mkdir(parents=True, exist_ok=True)
    _set_aside(plan.output)
    mark = {LAUNCHER_LOCK: str(lock), _ROLE: plan.role}
    with plan.output.open("wb") as output:
        return subprocess.Popen(
            plan.argv,
            env=os.environ | plan.environment | mark,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def family(lock: Path, role: Role | None = None) -> dict[int, dict[str, str]]:
    """pid -> environment of everything alive that was started under ``lock``, but for this process."""
    mark = str(lock)
    found = {}
    for pid in psutil.pids():
        environment = _environment(pid) if pid != os.getpid() else {}
        if environment.get(LAUNCHER_LOCK) == mark and role in (None, environment.get(_ROLE)):
            found[pid] = environment
    return found


def ask_to_end(lock: Path, role: Role) -> None:
    """SIGTERM to the ranks themselves: torchrun would cut their time to save short."""
    alive = family(lock, role)
    ranks = [pid for pid, environment in alive.items() if "LOCAL_RANK" in environment]
    for pid in ranks or alive:
        _send(pid, signal.SIGTERM)


def kill_ranks(lock: Path, role: Role) -> None:
    """SIGKILL to the ranks, not to torchrun, which then makes its report."""
    for pid, environment in family(lock, role).items():
        if "LOCAL_RANK" in environment:
            _send(pid, signal.SIGKILL)


def end(lock: Path) -> None:
    """SIGKILL until nothing is left."""
    while alive := family(lock):
        for pid in alive:
            _send(pid, signal.SIGKILL)
        time.sleep(0.05)


def _set_aside(output: Path) -> None:
    """An earlier start's output keeps its text under a numbered name, so that reports are not mixed."""
    if output.exists():
        number = 1
        while (aside := output.with_suffix(f".{number}.log")).exists():
            number += 1
        output.rename(aside)


def _environment(pid: int) -> dict[str, str]:
    try:
        return psutil.Process(pid).environ()
    except (psutil.Error, OSError):  # gone, a zombie, or another user's
        return {}


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
