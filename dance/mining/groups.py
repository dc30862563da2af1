"""Groups of pairs that are close to each other, so that a batch made of them opposes like with like.

    pair 0: q0 d0      nearest positives of q0 among unused pairs: d7, d3, d9 -> group (0, 7, 3, 9)
    pair 1: q1 d1      ...

Every pair is in one group. Seeds come in a seeded order and take the nearest unused pairs by their query
against the others' positives, so that early groups are tighter than late ones. (Related: topic-aware
batches of TAS-B, NGAME.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..search.neighbours import NONE
from .draw import permutation

Rows = NDArray[np.int64]
# [a], [b] -> [a, b]: whether the query of the one is answered by the positive of the other
Answers = Callable[[Rows, Rows], NDArray[np.bool_]]
REACH = 16  # neighbours looked at per member of a group; beyond them any unused pair is as good
_AHEAD = 16  # pairs of the order looked at at first, per free one that is looked for


def form_groups(near: Rows, size: int, answers: Answers, seed: int, step: int) -> Rows:
    """Places of the pairs, [groups, size], -1 after the last; only the last group can be short.

    near: [pairs, neighbours] places of the pairs whose positives are nearest to each one's query, REACH of
    them per member. Pairs that ``answers`` says would not oppose each other are kept apart as long as there
    are others. Raises ValueError for a size under 2.
    """
    if size < 2:
        raise ValueError(f"a group of {size} pair opposes nothing: at least 2")
    order = permutation(len(near), seed, step)
    free = np.ones(len(near), dtype=bool)
    groups = np.full((-(-len(near) // size), size), NONE, dtype=np.int64)
    waiting = 0  # where in ``order`` the first free pair is
    for group in groups:
        while not free[order[waiting]]:
            waiting += 1
        free[order[waiting]] = False
        chosen = _group(order[waiting], near, free, size, answers, order[waiting + 1 :])
        group[: len(chosen)] = chosen
        free[chosen] = False
    return groups


def _group(first: np.int64, near: Rows, free: NDArray[np.bool_], size: int, answers: Answers, order: Rows) -> Rows:
    """The first pair and the nearest free ones; what stands in the way of a member comes last."""
    close = near[first][free[near[first]]]
    chosen, spare = _apart(np.append(first, close), size, answers)
    if len(chosen) < size:  # then any free pair
        rest = _first_free(order, free, len(close) + 2 * size)
        pairs = np.concatenate([[first], close, rest[~np.isin(rest, close)]])
        chosen, spare = _apart(pairs, size, answers)
    return np.concatenate([chosen, spare])[:size]


def _apart(pairs: Rows, size: int, answers: Answers) -> tuple[Rows, Rows]:
    """The first ``size`` of them that oppose each other, and those that they left out on the way."""
    against = answers(pairs, pairs)
    against |= against.T
    chosen: list[int] = []
    for place in range(len(pairs)):
        if len(chosen) < size and not against[place, chosen].any():
            chosen.append(place)
    spare = np.setdiff1d(np.arange(len(pairs)), chosen)
    return pairs[chosen], pairs[spare]


def _first_free(order: Rows, free: NDArray[np.bool_], count: int) -> Rows:
    """At most ``count``; no further along ``order`` than it takes, since most of it is taken in the end."""
    span = _AHEAD * count
    while True:
        found = order[:span][free[order[:span]]]
        if len(found) >= count or span >= len(order):
            return found[:count]
        span *= 2
