"""Uniform draws that depend on what is drawn from, and on nothing else.

Every candidate gets a pseudo-random priority hashed from (seed, step, query, document); the
smallest priorities win. The draw is uniform without replacement, needs no generator state, and
does not change with the order of the candidates, the number of processes or the other queries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_NEVER = np.uint64(np.iinfo(np.uint64).max)


def draw(
    candidates: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    queries: NDArray[np.int64],
    sample: int,
    seed: int,
    step: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of up to ``sample`` allowed candidates per query, in random order.

    candidates, allowed: [queries, top-k]; queries: [queries] rows.
    Returns (positions [queries, sample] into top-k, counts [queries]); positions past the count
    mean nothing.
    """
    priority = _priorities(seed, step, queries[:, None], candidates)  # [queries, top-k]
    priority[~allowed] = _NEVER
    sample = min(sample, candidates.shape[1])
    order = np.argsort(priority, axis=1, kind="stable")[:, :sample]  # [queries, sample]
    counts = np.minimum(allowed.sum(axis=1), sample)
    return order, counts.astype(np.int64)


def permutation(count: int, *key: int) -> NDArray[np.int64]:
    """A uniform order of 0 … count-1, fixed by the key alone."""
    rng = np.random.Generator(np.random.PCG64(list(key)))
    return rng.permutation(count)


def _priorities(seed: int, step: int, queries: NDArray[np.int64], documents: NDArray[np.int64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        key = _mix(_mix(np.uint64(seed)) ^ np.uint64(step))
        key = _mix(key ^ queries.astype(np.uint64))
        # One bit less, so that no allowed candidate can look like a refused one.
        return _mix(key ^ documents.astype(np.uint64)) >> np.uint64(1)


def _mix(x: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every input bit moves every output bit."""
    x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
