"""Many strings as two flat files: UTF-8 bytes end to end, and where each one starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from .. import arrays

_FLUSH_AT = 4096  # strings held before they go to disk


class StringTable:
    """Memory-mapped, read-only; a row is decoded when it is asked for."""

    def __init__(self, prefix: Path) -> None:
        # Plain views: slicing an np.memmap costs ten times as much.
        self._bytes = np.asarray(arrays.load(_bytes_path(prefix)))  # uint8 [total bytes]
        self._offsets = np.asarray(arrays.load(_offsets_path(prefix)))  # int64 [strings + 1]

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} strings")
        return self._bytes[self._offsets[row] : self._offsets[row + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return (self[row] for row in range(len(self)))


class StringWriter:
    """Appends strings to a table that does not exist before ``close``."""

    def __init__(self, prefix: Path) -> None:
        self._bytes = arrays.Growing(_bytes_path(prefix), np.uint8)
        self._offsets = arrays.Growing(_offsets_path(prefix), np.int64)
        self._offsets.append([np.zeros(1, dtype=np.int64)])
        self._waiting: list[bytes] = []

    def append(self, string: str) -> None:
        self._waiting.append(string.encode())
        if len(self._waiting) >= _FLUSH_AT:
            self._flush()

    def close(self) -> int:
        """Number of strings written."""
        self._flush()
        self._bytes.close()
        self._offsets.close()
        return self._offsets.length - 1

    def _flush(self) -> None:
        lengths = np.array([len(string) for string in self._waiting], dtype=np.int64)
        self._offsets.append([self._bytes.length + np.cumsum(lengths)])
        self._bytes.append([np.frombuffer(b"".join(self._waiting), dtype=np.uint8)])
        self._waiting.clear()


def write_strings(prefix: Path, strings: Iterable[str]) -> int:
    """Write PREFIX.bytes.npy and PREFIX.offsets.npy; returns the number of strings."""
    writer = StringWriter(prefix)
    for string in strings:
        writer.append(string)
    return writer.close()


def _bytes_path(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.bytes.npy")


def _offsets_path(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.offsets.npy")
