"""Draws that depend on what is drawn from, and on nothing else.

Every candidate gets a pseudo-random priority hashed from (seed, step, key, candidate): uniform in
(0, 1), small is early. A draw without replacement by weights w takes the candidates whose waiting
times E / w are shortest, E = -log(1 - priority): the first is drawn with probability w / sum(w), the
next from the rest likewise, and so on (Efraimidis and Spirakis 2006; the same as Gumbel noise on
log w). It needs no generator state, and does not change with the order of the candidates, the
number of processes or the other keys.

The weights, one draw each (settings ``draw``):
    uniform  1                                    ANCE
    top      the best scores, nothing random
    softmax  exp(score / temperature)
    simans   exp(-a (score - positive's - b)^2)   SimANS
A score that is unknown (nan) weighs as little as the least of its key that is known: it is unknown
because the encoder did not rank it high. With no score known, or no positive's, the draw is uniform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..sections import Draw

_UNIFORM = Draw()
_LATE = np.finfo(np.float64).max


def draw(
    candidates: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    keys: NDArray[np.int64],
    sample: int,
    seed: int,
    step: int,
    scores: NDArray[np.float32] | None = None,
    positives: NDArray[np.float32] | None = None,
    how: Draw = _UNIFORM,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of up to ``sample`` allowed candidates per key, in the order in which they were drawn.

    candidates, allowed, scores: [keys, k]; keys: [keys] rows; positives: [keys] score of each key's
    positive. Scores are needed by every draw but the uniform one.
    Returns (positions [keys, sample] into k, counts [keys]); positions past the count mean nothing.
    """
    priority = priorities(seed, step, keys[:, None], candidates)  # [keys, k]
    time = _waiting(priority, how, allowed, scores, positives)  # [keys, k]
    time = np.where(np.isnan(time), _LATE, np.clip(time, -_LATE, _LATE))
    order = np.lexsort((priority, np.where(allowed, time, np.inf)), axis=-1)  # [keys, k]
    sample = min(sample, candidates.shape[1])
    counts = np.minimum(allowed.sum(axis=1), sample)
    return order[:, :sample], counts.astype(np.int64)


def permutation(count: int, *key: int) -> NDArray[np.int64]:
    """A uniform order of 0 … count-1, fixed by the key alone."""
    # The length too, since numpy fills short keys up with zeros.
    rng = np.random.Generator(np.random.PCG64([len(key), *key]))
    return rng.permutation(count)


def priorities(
    seed: int, step: int, keys: NDArray[np.int64], candidates: NDArray[np.int64], purpose: int = 0
) -> NDArray[np.uint64]:
    """63 random bits of each pair; the two broadcast. Other purposes have other bits."""
    with np.errstate(over="ignore"):
        state = _mix(_mix(np.uint64(seed)) ^ np.uint64(step) ^ (np.uint64(purpose) << np.uint64(56)))
        state = _mix(state ^ keys.astype(np.uint64))
        return _mix(state ^ candidates.astype(np.uint64)) >> np.uint64(1)


def _waiting(
    priority: NDArray[np.uint64],
    how: Draw,
    allowed: NDArray[np.bool_],
    scores: NDArray[np.float32] | None,
    positives: NDArray[np.float32] | None,
) -> NDArray[np.float64]:
    """In the order of the waiting times; nan is last. [keys, k]"""
    if how.how == "uniform":
        return priority.astype(np.float64)
    assert scores is not None
    if how.how == "top":
        return -scores.astype(np.float64)
    chance = np.minimum((priority.astype(np.float64) + 0.5) / 2.0**63, 1 - 2.0**-53)  # in (0, 1)
    return np.log(-np.log1p(-chance)) - _log_weights(how, allowed, scores.astype(np.float64), positives)


def _log_weights(
    how: Draw, allowed: NDArray[np.bool_], scores: NDArray[np.float64], positives: NDArray[np.float32] | None
) -> NDArray[np.float64]:
    """[keys, k], finite."""
    if how.how == "softmax":
        weights = scores / how.temperature
    else:
        assert positives is not None
        weights = -how.simans_a * (scores - positives[:, None] - how.simans_b) ** 2
    known = allowed & np.isfinite(weights)
    least = np.where(known, weights, np.inf).min(axis=1, initial=np.inf, keepdims=True)  # [keys, 1]
    return np.where(known, weights, np.where(np.isinf(least), 0.0, least))


def _mix(x: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every input bit moves every output bit."""
    x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
