"""Relevance judgements of one split as flat arrays of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import arrays

Rows = NDArray[np.int64]
_DOCUMENT_BITS = 32  # a (query, document) pair is one int64 key


@dataclass(frozen=True, eq=False)
class Qrels:
    """``documents[offsets[i]:offsets[i + 1]]`` are relevant (grade of ``least`` or more) to ``queries[i]``.

    Queries ascend, documents ascend within a query. Pairs of a lower grade are kept apart, for
    metrics: see ``judged``.
    """

    queries: Rows  # [Q] those with at least one relevant document
    offsets: Rows  # [Q + 1]
    documents: Rows  # [R]
    grades: Rows  # [R]
    least: int
    _judged: tuple[Rows, Rows, Rows]

    @classmethod
    def of(cls, queries: Rows, documents: Rows, grades: Rows, least: int = 1) -> Qrels:
        """From judged pairs in any order, each pair once."""
        order = np.lexsort((documents, queries))
        judged = tuple(np.ascontiguousarray(a[order], dtype=np.int64) for a in (queries, documents, grades))
        relevant = judged[2] >= least
        rows, starts = np.unique(judged[0][relevant], return_index=True)
        offsets = np.append(starts, relevant.sum()).astype(np.int64)
        return cls(rows, offsets, judged[1][relevant], judged[2][relevant], least, (judged[0], judged[1], judged[2]))

    def __len__(self) -> int:
        return len(self.queries)

    def relevant(self, query: int) -> Rows:
        """Rows of the documents relevant to a query row; empty where there are none."""
        at = int(np.searchsorted(self.queries, query))
        if at == len(self.queries) or self.queries[at] != query:
            return self.documents[:0]
        return self.documents[self.offsets[at] : self.offsets[at + 1]]

    def pairs(self) -> tuple[Rows, Rows]:
        """(query row, document row) of every relevant pair, [R] each."""
        return np.repeat(self.queries, np.diff(self.offsets)), self.documents

    def judged(self) -> tuple[Rows, Rows, Rows]:
        """(query row, document row, grade) of every judged pair, relevant or not."""
        return self._judged

    def contains(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each pair is relevant; the two broadcast, and row -1 is relevant to nothing."""
        queries, documents = np.broadcast_arrays(queries, documents)
        if not len(self._keys):
            return np.zeros(queries.shape, dtype=bool)
        wanted = pair_keys(queries, documents)
        at = np.searchsorted(self._keys, wanted)
        found = self._keys[np.minimum(at, len(self._keys) - 1)] == wanted
        return found & (queries >= 0) & (documents >= 0)

    def subset(self, queries: Rows) -> Qrels:
        """Judgements of these query rows alone."""
        keep = np.isin(self._judged[0], queries)
        queries, documents, grades = (a[keep] for a in self._judged)
        return Qrels.of(queries, documents, grades, self.least)

    @cached_property
    def _keys(self) -> Rows:
        return pair_keys(*self.pairs())  # [R] ascending

    def save(self, prefix: Path) -> None:
        for name, array in zip(_NAMES, self._judged):
            arrays.save(_path(prefix, name), array)

    @classmethod
    def load(cls, prefix: Path, least: int = 1) -> Qrels:
        queries, documents, grades = (np.array(arrays.load(_path(prefix, name))) for name in _NAMES)
        return cls.of(queries, documents, grades, least)


_NAMES = ("queries", "documents", "grades")


def _path(prefix: Path, name: str) -> Path:
    return prefix.with_name(f"{prefix.name}.{name}.npy")


def pair_keys(queries: NDArray[np.integer], documents: NDArray[np.integer]) -> Rows:
    """One number per (query, document), ascending by query, then document."""
    return (queries.astype(np.int64) << _DOCUMENT_BITS) + documents.astype(np.int64)


def pairs_of(keys: Rows) -> tuple[Rows, Rows]:
    """(query, document) rows of ``pair_keys``."""
    return keys >> _DOCUMENT_BITS, keys & ((1 << _DOCUMENT_BITS) - 1)
