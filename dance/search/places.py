"""Where in a shard the vectors of a document lie: several under MaxP, in any order, or none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Places:
    _rows: NDArray[np.int64]  # [n] document rows, ascending
    _places: NDArray[np.int64]  # [n] of each in the shard

    @classmethod
    def of(cls, rows: NDArray[np.int64]) -> Places:
        """rows: [n] document row of each vector of the shard."""
        order = np.argsort(rows, kind="stable")
        return cls(np.asarray(rows)[order], order)

    def find(self, documents: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(which of ``documents``, place in the shard) of every vector that they own, [found] each.

        The first ascends; a document that is asked for twice is found twice.
        """
        first, last = (np.searchsorted(self._rows, documents, side) for side in ("left", "right"))
        counts = last - first  # [documents]
        which = np.repeat(np.arange(len(documents)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        return which, self._places[np.repeat(first, counts) + within]
