"""The nearest documents of each query: scores and corpus rows, side by side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NONE = -1  # row of a place that no document fills; its score is -inf
_LAST = np.iinfo(np.int64).max  # sorts behind every row


class Neighbours(NamedTuple):
    """Best first: score descending, then row ascending; unfilled places last."""

    scores: NDArray[np.float32]  # [queries, k]
    rows: NDArray[np.int64]  # [queries, k]


def best(scores: NDArray[np.float32], rows: NDArray[np.int64], k: int, repeats: bool = False) -> Neighbours:
    """The k best of the candidates [queries, any], in the order of Neighbours, filled up to k.

    ``repeats``: a row may be there more than once, and counts once, by its best score.
    """
    rows = _once(scores, rows) if repeats else rows
    found = rows != NONE
    scores = np.where(found, scores, -np.inf).astype(np.float32)
    last = np.where(found, rows, _LAST)  # a filler never wins, whatever it ties with
    order = np.lexsort((last, -scores), axis=-1)[:, :k]
    kept = Neighbours(np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1))
    short = k - order.shape[1]
    return kept if short <= 0 else Neighbours(_widen(kept.scores, short, -np.inf), _widen(kept.rows, short, NONE))


def empty(queries: int, k: int) -> Neighbours:
    """No document in any place."""
    return Neighbours(np.full((queries, k), -np.inf, np.float32), np.full((queries, k), NONE, np.int64))


def _once(scores: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows with every place but the best of each made a filler. [queries, any]"""
    order = np.lexsort((-scores, rows), axis=-1)
    ordered = np.take_along_axis(rows, order, 1)
    again = np.zeros(rows.shape, dtype=bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    kept = np.empty_like(rows)
    np.put_along_axis(kept, order, np.where(again, NONE, ordered), axis=1)
    return kept


def _widen(array: NDArray, columns: int, value: float) -> NDArray:
    return np.pad(array, ((0, 0), (0, columns)), constant_values=value)
