"""Scalars of a role: one JSON line per record, and TensorBoard. Silent off rank 0."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .artefact import replace_file

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

log = logging.getLogger(__name__)


class Tracker:
    """A sink that cannot be opened stops the start; one that fails later only warns, once until it works again."""

    def __init__(self, path: Path, tensorboard: Path, active: bool) -> None:
        self._path = path
        self._writer: SummaryWriter | None = None
        self._active, self._failed = active, False
        if active:
            from torch.utils.tensorboard import SummaryWriter

            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("ab").close()
            self._writer = SummaryWriter(str(tensorboard / path.stem))

    def record(self, scalars: dict[str, Any]) -> None:
        """``scalars`` holds "step"; None values are kept out, lists out of TensorBoard."""
        if not self._active:
            return
        scalars = {key: value for key, value in scalars.items() if value is not None}
        try:
            append_line(self._path, scalars)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("metrics of step %s could not be written, later ones are tried: %s", scalars["step"], error)
            self._failed = True
        self._add_scalars(scalars)

    def close(self) -> None:
        """Never raises: what is missing then is missing in TensorBoard alone."""
        try:
            if self._writer is not None:
                self._writer.close()
        except OSError as error:
            log.warning("TensorBoard's file is not whole: %s", error)

    def _add_scalars(self, scalars: dict[str, Any]) -> None:
        """To TensorBoard, whose writer is dead for good after its first failure."""
        try:
            for key, value in scalars.items():
                if key != "step" and self._writer is not None and not isinstance(value, list):
                    self._writer.add_scalar(key, value, scalars["step"])
        except OSError as error:
            log.warning("nothing is written for TensorBoard any more: %s", error)
            self._writer = None


def append_line(path: Path, record: dict[str, Any]) -> None:
    """One JSON line, in one write, so that a kill leaves whole lines. Raises OSError, and takes back a part."""
    line = msgspec.json.encode(record) + b"\n"
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        if file.write(line) != len(line):
            file.truncate(before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def note(path: Path, record: dict[str, Any]) -> None:
    """A line that nothing depends on: a full disk costs the line, not the run."""
    try:
        append_line(path, record)
    except OSError as error:
        log.warning("not noted: %s (%s)", record, error)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole records; [] where there is no file."""
    return whole(path.read_bytes().splitlines()) if path.is_file() else []


def whole(lines: Iterable[bytes | str]) -> list[dict[str, Any]]:
    """The records of these lines, without what a kill or a lost power supply cut short."""
    records = []
    for line in lines:
        try:
            records.append(msgspec.json.decode(line, type=dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return records


def forget_after(path: Path, step: int, key: str = "step") -> None:
    """Drop the records of steps, counted by ``key``, that a resume will repeat, and lines that are not whole."""
    kept = b"".join(msgspec.json.encode(record) + b"\n" for record in read_lines(path) if record[key] <= step)
    if path.is_file() and path.read_bytes() != kept:
        replace_file(path, kept)
