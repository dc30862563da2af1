"""What a role is doing right now: a small file that the live view and `dance status` read.

Written by rank 0 of the role, whole, at most twice a second; absent values do not apply.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from .artefact import replace_file
from .paths import Role

log = logging.getLogger(__name__)


class Progress(msgspec.Struct, kw_only=True):
    role: Role
    # wait, train, save / wait, encode, search, mine, evaluate, publish / finished, stopped, failed
    phase: str
    done: int = 0
    total: int = 0
    unit: str = ""  # of done and total: steps, documents, queries
    per_second: float | None = None
    step: int | None = None  # Trainer: optimizer step. Inferencer: step of the encoder at work.
    total_steps: int | None = None
    loss: float | None = None
    examples_per_second: float | None = None
    negatives_step: int | None = None
    staleness: int | None = None
    message: str = ""
    host: str = ""
    pid: int = 0
    started_at: float = 0.0  # Unix seconds: start of the phase
    updated_at: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        """Of this phase, at its present rate."""
        if not self.per_second or not self.total:
            return None
        return (self.total - self.done) / self.per_second


class Reporter:
    """Keeps a role's status file current; does nothing where ``active`` is false."""

    def __init__(self, role: Role, path: Path, active: bool) -> None:
        self._path = path
        self._active = active
        self._now = Progress(role=role, phase="start", host=socket.gethostname(), pid=os.getpid())
        self._written, self._warned = 0.0, False
        self._first = 0  # done when the phase began
        path.parent.mkdir(parents=True, exist_ok=True)

    def begin(self, phase: str, total: int = 0, unit: str = "", done: int = 0, **facts: Any) -> None:
        """Start a phase, with ``done`` behind it already; facts are fields of Progress."""
        self._now.started_at = time.time()
        self._now.per_second = None
        self._first = done
        self._change(phase=phase, done=done, total=total, unit=unit, **{"message": "", **facts})
        self._write()

    def update(self, done: int, **facts: Any) -> None:
        """Move on inside the phase."""
        elapsed = time.time() - self._now.started_at
        self._now.per_second = (done - self._first) / elapsed if elapsed > 0 else None
        self._change(done=done, **facts)
        if time.time() - self._written > 0.5:
            self._write()

    def _change(self, **facts: Any) -> None:
        for name, value in facts.items():
            setattr(self._now, name, value)

    def _write(self) -> None:
        if not self._active:
            return
        self._now.updated_at = self._written = time.time()
        try:
            replace_file(self._path, msgspec.json.encode(self._now), durable=False)
        except OSError as error:  # a view of the run, which must not cost the run
            if not self._warned:
                log.warning("what this role is doing is not shown any more: %s", error)
            self._warned = True


def read(path: Path) -> Progress | None:
    """None where the role has not started."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Progress)
    except FileNotFoundError:
        return None
