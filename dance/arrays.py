"""Flat arrays on disk in numpy's own format, memory-mapped and never pickled."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray


def load(path: Path) -> NDArray[Any]:
    """Read-only memory map; an array without elements is read whole, since it cannot be mapped."""
    dtype_shape = header(path)
    if 0 in dtype_shape[1]:
        return np.load(path, allow_pickle=False)
    return np.load(path, mmap_mode="r", allow_pickle=False)


def save(path: Path, array: NDArray[Any]) -> None:
    np.save(path, array, allow_pickle=False)


def header(path: Path) -> tuple[str, tuple[int, ...]]:
    """(dtype, shape) without reading the data."""
    with path.open("rb") as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
    return str(dtype), shape


class Growing:
    """A one-dimensional array of unknown length, appended to on disk; ``close`` fixes its length."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file = path.open("wb")
        self._write_header()

    def append(self, parts: Iterable[NDArray[Any]]) -> None:
        for part in parts:
            self._file.write(np.ascontiguousarray(part, dtype=self.dtype).tobytes())
            self.length += len(part)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        # A fixed-width header: numpy pads it so that the final length fits in place.
        header = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.length,)}
        npy.write_array_header_1_0(self._file, header)
