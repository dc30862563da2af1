"""Answers of queries (OpenQA): a passage that contains one of them answers the query."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import arrays
from .qrels import Rows
from .strings import StringTable, write_strings

_STRINGS = "answers"
_OFFSETS = "answer_offsets.npy"
_PATTERNS = "answer_patterns.npy"


@dataclass(frozen=True)
class Answers:
    _strings: StringTable  # of all queries, in sequence
    _offsets: Rows  # [queries + 1]
    _patterns: NDArray[np.bool_]  # [queries]

    def of(self, query: int) -> list[str]:
        """Of a query row; empty where none is known."""
        return [self._strings[row] for row in range(self._offsets[query], self._offsets[query + 1])]

    def regex(self, query: int) -> bool:
        """Whether those of a query row are regular expressions, not strings."""
        return bool(self._patterns[query])

    @classmethod
    def load(cls, folder: Path) -> Answers:
        offsets, patterns = (np.asarray(arrays.load(folder / name)) for name in (_OFFSETS, _PATTERNS))
        return cls(StringTable(folder / _STRINGS), offsets, patterns)


def save(folder: Path, answers: Mapping[int, Sequence[str]], patterns: Collection[int], queries: Sequence[int]) -> None:
    """Of these queries, which become rows 0, 1, ...; a query without answers has none.

    ``patterns``: queries whose answers are regular expressions.
    """
    each = [answers.get(query, ()) for query in queries]
    write_strings(folder / _STRINGS, (answer for some in each for answer in some))
    lengths = np.array([0, *map(len, each)], dtype=np.int64)
    arrays.save(folder / _OFFSETS, np.cumsum(lengths))
    arrays.save(folder / _PATTERNS, np.array([query in patterns for query in queries], dtype=bool))
