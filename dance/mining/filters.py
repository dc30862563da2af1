"""Candidates that are left out before the draw. Each filter answers for all candidates: [keys, k] true is dropped.

A candidate that several filters drop is counted with the first of them, in the order of ``NAMES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Covers = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]  # (keys [n, 1], rows [n, k]) -> [n, k]
NAMES = ("positives", "own", "copies", "rank", "margin", "relative_margin")


def rank(own: NDArray[np.bool_], skip: int, topk: int) -> NDArray[np.bool_]:
    """Places before ``skip`` and from ``topk`` on, of a list whose best is first.

    own: [keys, k] what is the key itself, which takes no place.
    """
    place = np.cumsum(~own, axis=1) - 1  # [keys, k]
    return (place < skip) | (place >= topk)


def positives(keys: NDArray[np.int64], rows: NDArray[np.int64], judged: Covers) -> NDArray[np.bool_]:
    """What is judged relevant to the key. keys: [keys]; rows: [keys, k], -1 is nothing's positive."""
    return judged(keys[:, None], rows) & (rows >= 0)


def margin(scores: NDArray[np.float32], positive: NDArray[np.float32], least: float | None) -> NDArray[np.bool_]:
    """Scores over the positive's less ``least``; none where either is unknown (nan, infinite) or ``least`` is None.

    scores: [keys, k]; positive: [keys], of the best-scored positive.
    """
    return _over(scores, positive, None if least is None else np.full(len(positive), least))


def relative_margin(
    scores: NDArray[np.float32], positive: NDArray[np.float32], share: float | None
) -> NDArray[np.bool_]:
    """As ``margin``, with ``share`` of the size of the positive's score: its sign does not matter."""
    return _over(scores, positive, None if share is None else share * np.abs(positive.astype(np.float64)))


def _over(
    scores: NDArray[np.float32], positive: NDArray[np.float32], least: NDArray[np.float64] | None
) -> NDArray[np.bool_]:
    if least is None:
        return np.zeros(scores.shape, dtype=bool)
    known = np.isfinite(positive)
    bound = np.where(known, positive, 0.0).astype(np.float64) - np.where(known, least, 0.0)  # [keys]
    return known[:, None] & np.isfinite(scores) & (scores.astype(np.float64) > bound[:, None])


def apply(
    real: NDArray[np.bool_], dropped: Mapping[str, NDArray[np.bool_]]
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """What passes every filter, and how many candidates each was the first to drop. [keys, k]"""
    allowed, counts = real.copy(), {}
    for name in NAMES:
        if name in dropped:
            counts[name] = int((allowed & dropped[name]).sum())
            allowed &= ~dropped[name]
    return allowed, counts
