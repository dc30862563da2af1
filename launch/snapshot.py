"""What the files of a run say at one moment: the roles' status (dance.progress) and the ends of their metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dance import progress, tracking
from dance.paths import RunPaths
from dance.progress import Progress

from .postmortem import tail


@dataclass(frozen=True)
class Snapshot:
    """Everything that is shown, at one moment."""

    trainer: Progress | None
    inferencer: Progress | None
    seconds_per_step: float | None
    refreshes: tuple[Mapping[str, Any], ...]  # records of the Inferencer, oldest first
    now: float  # Unix seconds
    damaged: tuple[Path, ...] = ()  # status files that cannot be read


def look(paths: RunPaths, since: float = 0.0) -> Snapshot:
    """A role that gave its last sign before ``since`` (Unix seconds) is of an earlier start: not shown."""
    damaged: list[Path] = []
    return Snapshot(
        _read(paths.status("trainer"), since, damaged),
        _read(paths.status("inferencer"), since, damaged),
        _seconds_per_step(paths),
        tuple(tracking.read_lines(paths.metrics("inferencer"))),
        time.time(),
        tuple(damaged),
    )


def _read(path: Path, since: float, damaged: list[Path]) -> Progress | None:
    """None where it is not there, too old, or cannot be read, which is noted in ``damaged``."""
    try:
        found = progress.read(path)
    except (msgspec.DecodeError, UnicodeDecodeError):
        damaged.append(path)
        return None
    return found if found is not None and found.updated_at >= since else None


def _seconds_per_step(paths: RunPaths) -> float | None:
    """Wall time per step over the last records, waits included."""
    records = tracking.whole(tail(paths.metrics("trainer"))[-12:])
    if len(records) < 2:
        return None
    steps = records[-1]["step"] - records[0]["step"]
    seconds = sum(record.get("seconds", 0.0) for record in records[1:])
    return seconds / steps if steps > 0 and seconds > 0 else None
