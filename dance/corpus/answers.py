"""Answers of queries (OpenQA): a passage that contains one of them answers the query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import arrays
from .qrels import Rows
from .strings import StringTable, write_strings

_STRINGS = "answers"
_OFFSETS = "answer_offsets.npy"


@dataclass(frozen=True)
class Answers:
    regex: bool  # they are regular expressions, not strings
    _strings: StringTable  # of all queries, in sequence
    _offsets: Rows  # [queries + 1]

    def of(self, query: int) -> list[str]:
        """Of a query row; empty where none is known."""
        return [self._strings[row] for row in range(self._offsets[query], self._offsets[query + 1])]

    @classmethod
    def load(cls, folder: Path, regex: bool) -> Answers:
        return cls(regex, StringTable(folder / _STRINGS), np.asarray(arrays.load(folder / _OFFSETS)))


def save(folder: Path, answers: Mapping[int, Sequence[str]], queries: Iterable[int]) -> None:
    """Of these queries, which become rows 0, 1, ...; a query without answers has none."""
    each = [answers.get(query, ()) for query in queries]
    write_strings(folder / _STRINGS, (answer for some in each for answer in some))
    lengths = np.array([0, *map(len, each)], dtype=np.int64)
    arrays.save(folder / _OFFSETS, np.cumsum(lengths))
