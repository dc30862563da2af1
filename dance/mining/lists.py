"""Lists of candidates by key, side by side: [keys, k] rows, -1 where a key has no more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..search.neighbours import NONE, Neighbours
from .draw import draw, priorities
from .filters import Covers

_TRIES = 3  # purpose of the hashes below
_SMALL = 4  # a corpus of at most this many times the rows wanted is drawn from whole


def listed(
    keys: NDArray[np.int64], offsets: NDArray[np.int64], rows: NDArray[np.int64], wanted: NDArray[np.int64]
) -> Neighbours:
    """Lists kept by key (``rows[offsets[i]:offsets[i + 1]]`` of ``keys[i]``, keys ascending) for ``wanted`` keys.

    For negatives that the data gives (``qrels.queries, qrels.offsets, qrels.documents``) and for former
    tables (``drawn.keys, drawn.offsets, drawn.rows``). Scores are unknown (nan).
    """
    there = np.isin(wanted, keys)  # [wanted]
    at = np.searchsorted(keys, wanted[there])
    starts, counts = np.zeros((2, len(wanted)), dtype=np.int64)
    starts[there], counts[there] = offsets[at], offsets[at + 1] - offsets[at]
    place = np.arange(counts.max(initial=0))[None, :]  # [1, most]
    real = place < counts[:, None]
    padded = np.full(real.shape, NONE, dtype=np.int64)
    padded[real] = rows[(starts[:, None] + place)[real]]
    return without_scores(padded)


def random_rows(keys: NDArray[np.int64], count: int, corpus: int, covers: Covers, seed: int, step: int) -> Neighbours:
    """``count`` rows of 0 … corpus-1 per key, uniform without repeats and without what ``covers`` says is relevant.

    A key has fewer where the corpus does. What one key gets does not depend on the others.
    """
    if corpus <= _SMALL * count:
        return without_scores(_from_all(keys, count, corpus, covers, seed, step))
    tries = np.arange(2 * count + 32)[None, :]
    rows = (priorities(seed, step, keys[:, None], tries, _TRIES) % np.uint64(corpus)).astype(np.int64)
    chosen = compact(np.where(~repeated(rows) & ~covers(keys[:, None], rows), rows, NONE), count)  # [keys, count]
    short = np.flatnonzero(chosen[:, -1] == NONE)
    for one in short:  # keys that most of the corpus is relevant to, or one in millions
        chosen[one] = _from_all(keys[one : one + 1], count, corpus, covers, seed, step)[0]
    return without_scores(chosen)


def _from_all(
    keys: NDArray[np.int64], count: int, corpus: int, covers: Covers, seed: int, step: int
) -> NDArray[np.int64]:
    rows = np.broadcast_to(np.arange(corpus), (len(keys), corpus))
    at, counts = draw(rows, ~covers(keys[:, None], rows), keys, count, seed, step)
    drawn = np.where(np.arange(at.shape[1]) < counts[:, None], at, NONE)  # a position is the row itself
    return compact(drawn, count)


def without_scores(rows: NDArray[np.int64]) -> Neighbours:
    return Neighbours(np.where(rows == NONE, -np.inf, np.nan).astype(np.float32), rows)


def compact(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Rows moved to the left over missing ones, in their order, the first ``count``. [keys, count]"""
    order = np.argsort(rows == NONE, axis=1, kind="stable")[:, :count]
    rows = np.take_along_axis(rows, order, axis=1)
    return np.pad(rows, ((0, 0), (0, count - rows.shape[1])), constant_values=NONE)


def repeated(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each row was in its key's list before. [keys, k]"""
    order = np.argsort(rows, axis=1, kind="stable")
    ascending = np.take_along_axis(rows, order, axis=1)
    again = np.zeros(rows.shape, dtype=bool)
    np.put_along_axis(again, order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return again


def member(rows: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each of ``rows`` [keys, a] is in the list of its key in ``among`` [keys, b]. [keys, a]"""
    return ~np.isnan(look_up(rows, Neighbours(np.zeros(among.shape, dtype=np.float32), among)))


def look_up(rows: NDArray[np.int64], known: Neighbours) -> NDArray[np.float32]:
    """Scores of ``rows`` [keys, k] in another list of the same keys; nan where it lacks them, and of row -1."""
    found = np.full(rows.shape, np.nan, dtype=np.float32)
    if not known.rows.size or not rows.size:
        return found
    order = np.argsort(known.rows, axis=1, kind="stable")  # of a row that is there twice the first counts
    # Each key's rows lie in a range of their own, so that one search serves all keys.
    span = max(int(known.rows.max()), int(rows.max())) + 2
    base = np.arange(len(rows))[:, None] * span
    flat, wanted = (base + np.take_along_axis(known.rows, order, axis=1)).ravel(), base + rows
    at = np.minimum(np.searchsorted(flat, wanted), len(flat) - 1)
    there = (flat[at] == wanted) & (rows >= 0)
    found[there] = np.take_along_axis(known.scores, order, axis=1).ravel()[at[there]]
    return found
