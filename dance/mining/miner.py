"""From a query's neighbours to its negatives (ANCE section 3: uniform from the top K, relevant ones out)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..config import Negatives
from ..corpus.relevance import Relevance
from ..search.neighbours import Neighbours
from .draw import draw, permutation


@dataclass(frozen=True)
class Mined:
    """Negatives of a block of queries, in random order per query."""

    queries: NDArray[np.int64]  # [queries] rows
    counts: NDArray[np.int64]  # [queries] negatives of each
    documents: NDArray[np.int64]  # [negatives] rows
    scores: NDArray[np.float32]  # [negatives]
    relevant_dropped: int  # candidates that are positives, or the same text as one
    missing: int  # candidates that a corpus smaller than top-k could not give
    short: int  # queries with fewer negatives than were to be drawn


def mine(
    neighbours: Neighbours,
    queries: NDArray[np.int64],
    relevance: Relevance,
    negatives: Negatives,
    seed: int,
    step: int,
) -> Mined:
    """Drop every positive and every copy of one, draw ``negatives.sample`` of the rest.

    neighbours: [queries, top-k]; queries: [queries] rows.
    """
    real = neighbours.rows >= 0  # [queries, top-k]
    positive = relevance.covers(queries[:, None], neighbours.rows)
    allowed = real & ~positive
    chosen, counts = draw(neighbours.rows, allowed, queries, negatives.sample, seed, step)
    kept = np.arange(chosen.shape[1])[None, :] < counts[:, None]  # [queries, sample]
    return Mined(
        queries=queries,
        counts=counts,
        documents=np.take_along_axis(neighbours.rows, chosen, axis=1)[kept],
        scores=np.take_along_axis(neighbours.scores, chosen, axis=1)[kept],
        relevant_dropped=int(positive.sum()),
        short=int((counts < negatives.sample).sum()),
        missing=negatives.topk * len(queries) - int(real.sum()),
    )


def rotation(queries: NDArray[np.int64], share: float, turn: int, seed: int) -> NDArray[np.int64]:
    """The query rows of one refresh: slice ``turn`` of a seeded order that visits all in about 1/share turns.

    Ascending. Every query is visited once before any is visited again.
    """
    parts = max(1, round(1 / share))
    parts = min(parts, len(queries))
    order = permutation(len(queries), seed, turn // parts)
    return np.sort(queries[np.array_split(order, parts)[turn % parts]])
