"""Several sources share out the negatives of a key, in whole numbers and without repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..config import Config
from .lists import member

# ann: neighbours by the encoder in training; bm25, random, given: as ``sources`` says; lookahead: neighbours
# of the key's positive; former: the table before (ANCE-Tele section 3).
Source = Literal["ann", "bm25", "random", "given", "lookahead", "former"]
ORDER: tuple[Source, ...] = ("ann", "bm25", "random", "given", "lookahead", "former")


def shares(config: Config) -> dict[Source, float]:
    """Share of a key's negatives that each source gives; they add up to 1. Sources without a share are left out.

    ``draw.momentum`` and ``draw.lookahead`` come first, ``sources`` divide the rest.
    """
    given: dict[Source, float] = {"lookahead": config.draw.lookahead, "former": config.draw.momentum}
    rest = max(0.0, 1 - sum(given.values()))
    plain: dict[Source, float] = {
        "ann": config.sources.ann,
        "bm25": config.sources.bm25,
        "random": config.sources.random,
        "given": config.sources.given,
    }
    total = sum(plain.values())
    shared = {name: rest * weight / total for name, weight in plain.items() if weight and rest}
    return {name: share for name, share in (shared | given).items() if share}


def obtainable(config: Config) -> int:
    """Negatives that a key can have at most: ``negatives.sample``, or what the short lists of a slice hold."""
    names = shares(config).keys()
    if not names or names - {"ann", "lookahead"}:
        return config.negatives.sample
    return min(config.negatives.sample, config.depth * len(names))


def quotas(count: int, weights: Sequence[float]) -> list[int]:
    """``count`` divided by weights, by largest remainder, earlier ones first where remainders are equal."""
    exact = [count * weight / sum(weights) for weight in weights]
    parts = [int(each) for each in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (parts[i] - exact[i], i))
    for i in by_remainder[: count - sum(parts)]:
        parts[i] += 1
    return parts


def mix(lists: Mapping[Source, NDArray[np.int64]], share: Mapping[Source, float], sample: int) -> NDArray[np.int64]:
    """The lists of several sources as one, each row once. [keys, all]

    lists: [keys, any] rows in the order of preference, -1 after the last. The first ``sample`` of the result
    are divided by ``share`` among the sources that are there; where one is short, the next ``sample`` follow,
    divided likewise, and at last all that is left in the order of sources.
    """
    names = [name for name in ORDER if name in lists and share.get(name)]
    parts = quotas(sample, [share[name] for name in names])
    longest = max(lists[name].shape[1] for name in names)
    chosen = np.empty((len(lists[names[0]]), 0), dtype=np.int64)
    for round_of in (parts, parts, [longest] * len(names)):
        for name, quota in zip(names, round_of):
            chosen = np.concatenate([chosen, _next(lists[name], chosen, quota)], axis=1)
    return chosen


def _next(rows: NDArray[np.int64], chosen: NDArray[np.int64], quota: int) -> NDArray[np.int64]:
    """The first ``quota`` rows of each key that are not chosen yet; -1 in place of all others."""
    fresh = (rows >= 0) & ~member(rows, chosen)
    return np.where(fresh & (np.cumsum(fresh, axis=1) <= quota), rows, -1)
