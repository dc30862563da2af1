"""What a teacher gives pairs of a split: margins or softmaxes to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import arrays
from .qrels import Rows, pair_keys, pairs_of


@dataclass(frozen=True, eq=False)
class TeacherScores:
    keys: Rows  # [pairs] ascending, one number per (query row, document row)
    scores: NDArray[np.float32]  # [pairs]

    @classmethod
    def of(cls, queries: Rows, documents: Rows, scores: NDArray[np.floating]) -> TeacherScores:
        """From pairs in any order, each once."""
        keys = pair_keys(queries, documents)
        order = np.argsort(keys)
        return cls(keys[order], scores[order].astype(np.float32))

    def __len__(self) -> int:
        return len(self.keys)

    def pairs(self) -> tuple[Rows, Rows]:
        """(query row, document row) of every pair, [pairs] each."""
        return pairs_of(self.keys)

    def lookup(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Score of each pair; the two broadcast. nan where the teacher has none, as for row -1."""
        queries, documents = np.broadcast_arrays(queries, documents)
        if not len(self.keys):
            return np.full(queries.shape, np.nan, dtype=np.float32)
        wanted = pair_keys(queries, documents)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        known = (self.keys[at] == wanted) & (queries >= 0) & (documents >= 0)
        return np.where(known, self.scores[at], np.float32(np.nan))

    def save(self, prefix: Path) -> None:
        arrays.save(_path(prefix, "keys"), self.keys)
        arrays.save(_path(prefix, "scores"), self.scores)

    @classmethod
    def load(cls, prefix: Path) -> TeacherScores:
        return cls(*(np.asarray(arrays.load(_path(prefix, name))) for name in ("keys", "scores")))


def _path(prefix: Path, name: str) -> Path:
    return prefix.with_name(f"{prefix.name}.{name}.npy")
