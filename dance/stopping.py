"""How a process learns that it must end: SIGTERM, SIGINT, or the death of whoever started it.

The first request is for a clean end: the loop sees ``requested`` at its next step. A thread stands
behind it, because a main thread that is stuck in a collective never runs its signal handler: once
the grace is over, the process ends without asking. A second SIGINT ends it at once.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType

LAUNCHER_LOCK = "DANCE_LAUNCHER_LOCK"  # environment: a file that the launcher keeps locked while it lives
STOPPED = 143  # exit code of a run that was asked to end and did so cleanly
_OVERDUE = 1  # exit code of one whose grace ran out, so that nothing was saved


class Stop:
    """Watches for the reasons to end; made once per process, in the main thread."""

    def __init__(self, grace_seconds: float) -> None:
        self.reason: str | None = None
        self._grace = grace_seconds
        self._parent = os.getppid()
        self._lock = os.environ.get(LAUNCHER_LOCK)
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._on_signal)
        threading.Thread(target=self._guard, args=(wake_read,), daemon=True).start()
        threading.Thread(target=self._watch_parents, daemon=True).start()

    @property
    def requested(self) -> bool:
        return self.reason is not None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.reason is not None and number == signal.SIGINT and self._interrupted:
            os._exit(_OVERDUE)
        self._interrupted = number == signal.SIGINT
        self.reason = self.reason or signal.Signals(number).name

    _interrupted = False

    def _guard(self, wake: int) -> None:
        """Runs even while the main thread is stuck outside Python: the signal's byte arrives here."""
        os.read(wake, 1)
        time.sleep(self._grace)
        os._exit(_OVERDUE)

    def _watch_parents(self) -> None:
        while os.getppid() == self._parent and not self._launcher_died():
            time.sleep(0.5)
        self.reason = self.reason or "the launcher died"
        time.sleep(min(self._grace, 5.0))
        os._exit(_OVERDUE)

    def _launcher_died(self) -> bool:
        return self._lock is not None and not is_locked(Path(self._lock))


class Locked(ValueError):
    """Somebody who is alive holds the lock."""


def hold_lock(path: Path) -> int:
    """Lock a file for as long as this process lives; returns its descriptor. Raises Locked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise Locked(f"{path.parent} is in use by a run that is still alive; see `dance status`") from None
    return handle


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
