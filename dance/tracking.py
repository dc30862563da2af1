"""Scalars of a role: one JSON line per record, and TensorBoard. Silent off rank 0."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .artefact import replace_file

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

log = logging.getLogger(__name__)


class Tracker:
    """A sink that cannot be opened stops the start; one that fails later only warns, once."""

    def __init__(self, path: Path, tensorboard: Path, active: bool) -> None:
        self._path = path
        self._writer: SummaryWriter | None = None
        self._active = active
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
            for key, value in scalars.items():
                if key != "step" and self._writer is not None and not isinstance(value, list):
                    self._writer.add_scalar(key, value, scalars["step"])
        except OSError as error:
            log.warning("metrics are no longer written: %s", error)
            self._active = False

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def append_line(path: Path, record: dict[str, Any]) -> None:
    """One JSON line, in one write, so that a kill leaves whole lines."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(record) + b"\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All records; a last line cut short by a kill is left out. [] where there is no file."""
    if not path.is_file():
        return []
    raw = path.read_bytes()
    return [msgspec.json.decode(line) for line in raw[: raw.rfind(b"\n") + 1].splitlines()]


def forget_after(path: Path, step: int, key: str = "step") -> None:
    """Drop the records of steps, counted by ``key``, that a resume will repeat."""
    records = read_lines(path)
    kept = [record for record in records if record[key] <= step]
    if len(kept) != len(records):
        replace_file(path, b"".join(msgspec.json.encode(record) + b"\n" for record in kept))
