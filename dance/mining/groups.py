"""Groups of pairs that are close to each other, so that a batch made of them opposes like with like.

    nearest positives of others to q0:  d7 .62   d3 .51   d9 .40     over the last: 7 .22, 3 .11
    nearest positives of others to q7:  d2 .60   d0 .55   d3 .50     over the last: 2 .10, 0 .05
    group of pair 0:                    0, then 7 (.22 + .05), then 3 (.11), then 2 (.10), ...

Every pair is in one group. A group starts with a pair of a seeded order and takes, one after another, the free
pair that its members pull most together: by their queries against its positive and by its query against
theirs. A pull is what a score is over that of the last neighbour given, so that a crowded place, where all
scores are high, pulls no more than another. (Related: topic-aware batches of TAS-B, NGAME.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..search.neighbours import NONE, Neighbours
from .draw import permutation

Rows = NDArray[np.int64]
Opposes = Callable[[Rows, Rows], NDArray[np.bool_]]
REACH = 32  # neighbours looked at per pair; what is beyond them does not pull
_TOGETHER = 8  # pairs that are held against the members in one go
_AHEAD = 16  # pairs of the order looked at at first, per free one that is looked for


def form_groups(near: Neighbours, size: int, opposes: Opposes, seed: int, step: int) -> Rows:
    """Places of the pairs, [groups, size], -1 after the last; only the last group can be short.

    near: for each pair's query the places of the pairs whose positives are nearest, REACH of them or fewer. Pairs
    that do not oppose each other (``opposes`` of two broadcast places) are kept apart as long as there are others
    among those pulled, or among the ``2 * size`` free ones that come next. Raises ValueError for a size under 2.
    """
    if size < 2:
        raise ValueError(f"a group of {size} pair opposes nothing: at least 2")
    pairs = len(near.rows)
    order, pulls = permutation(pairs, seed, step), _Pulls(near)
    free = np.ones(pairs, dtype=bool)
    groups = np.full((-(-pairs // size), size), NONE, dtype=np.int64)
    waiting = 0  # where in ``order`` the first free pair is
    for group in groups:
        while not free[order[waiting]]:
            waiting += 1
        members = _grow(order[waiting], size, pulls, free, opposes, order[waiting + 1 :])
        group[: len(members)] = members
    return groups


class _Pulls:
    """How much pairs pull each other, the same both ways."""

    def __init__(self, near: Neighbours) -> None:
        count, there = len(near.rows), near.rows != NONE
        least = np.where(there, near.scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)  # [pairs, 1]
        one, other, over = np.nonzero(there)[0], near.rows[there], (near.scores - least)[there]  # [links] each
        keys, at = np.unique(np.concatenate([one * count + other, other * count + one]), return_inverse=True)
        self._weights = np.bincount(at, weights=np.tile(over, 2)).astype(np.float64, copy=False)
        pulling, self._pulled = np.divmod(keys, max(count, 1))
        self._starts = np.searchsorted(pulling, np.arange(count + 1))

    def of(self, pair: np.int64) -> tuple[Rows, NDArray[np.float64]]:
        """The pairs that it pulls, each once, and how much."""
        part = slice(self._starts[pair], self._starts[pair + 1])
        return self._pulled[part], self._weights[part]


def _grow(first: np.int64, size: int, pulls: _Pulls, free: NDArray[np.bool_], opposes: Opposes, order: Rows) -> Rows:
    """The members of the group that starts with a pair; they are free no more."""
    members, within = np.array([first]), np.empty(0, np.int64)
    pull = np.zeros(len(free))
    free[first] = False
    while len(members) < size:
        pulled, by = pulls.of(members[-1])
        pull[pulled] += by
        within = np.unique(np.concatenate([within, pulled]))
        within = within[free[within] & (pull[within] >= 0)]
        within = within[np.argsort(-pull[within], kind="stable")]
        at = _first_apart(within, members, opposes)
        pull[within[:at]] = -np.inf  # they do not oppose a member, whoever comes next
        member = within[at] if at < len(within) else _unpulled(_first_free(order, free, 2 * size), members, opposes)
        if member == NONE:
            break
        members = np.append(members, member)
        free[member] = False
    return members


def _unpulled(free: Rows, members: Rows, opposes: Opposes) -> np.int64:
    """The first that opposes all members, else the first: a group is short only if nothing is left (NONE)."""
    at = _first_apart(free, members, opposes)
    return free[at if at < len(free) else 0] if len(free) else np.int64(NONE)


def _first_apart(pairs: Rows, members: Rows, opposes: Opposes) -> int:
    """Where the first is that opposes all members; their number if none does."""
    for start in range(0, len(pairs), _TOGETHER):
        some = pairs[start : start + _TOGETHER]
        apart = opposes(some[:, None], members[None, :]).all(axis=1)
        if apart.any():
            return start + int(apart.argmax())
    return len(pairs)


def _first_free(order: Rows, free: NDArray[np.bool_], count: int) -> Rows:
    """At most ``count``; no further along ``order`` than it takes, since most of it is taken in the end."""
    span = _AHEAD * count
    while True:
        found = order[:span][free[order[:span]]]
        if len(found) >= count or span >= len(order):
            return found[:count]
        span *= 2
