"""From the names of the outside to rows, without a Python object per name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .strings import StringTable


class IdIndex:
    """Looks ids up by hash, and checks the spelling: 16 bytes per id."""

    def __init__(self, ids: StringTable) -> None:
        self.ids = ids
        hashes = np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))
        self._order = np.argsort(hashes, kind="stable")  # equal hashes: first row first
        self._hashes = hashes[self._order]

    def rows(self, wanted: Sequence[str]) -> np.ndarray:
        """First row of each id, int64; -1 where there is none."""
        hashes = np.fromiter(map(hash, wanted), dtype=np.int64, count=len(wanted))
        starts = np.searchsorted(self._hashes, hashes)
        found = (self._row(name, int(key), int(at)) for name, key, at in zip(wanted, hashes, starts))
        return np.fromiter(found, dtype=np.int64, count=len(wanted))

    def repeated(self) -> Iterator[tuple[int, int]]:
        """(first row, later row) of every id that comes again."""
        equal = np.flatnonzero(self._hashes[1:] == self._hashes[:-1]) + 1
        for later in sorted(self._order[equal].tolist()):
            first = int(self.rows([self.ids[later]])[0])
            if first != later:
                yield first, later

    def _row(self, name: str, key: int, at: int) -> int:
        while at < len(self._hashes) and self._hashes[at] == key:
            if self.ids[int(self._order[at])] == name:
                return int(self._order[at])
            at += 1
        return -1
