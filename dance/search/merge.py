"""Several lists of neighbours to one: of the shards of a corpus, of the vectors of one asker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .neighbours import Neighbours, best, empty


def merge(parts: Sequence[Neighbours], k: int) -> Neighbours:
    """The k best over all shards: score descending, then row ascending; fillers last.

    Every part holds the same queries. A row whose vectors lie in several shards comes out once, by
    its best. The order of the parts does not matter.
    """
    assert parts, "nothing to merge"
    scores = np.concatenate([part.scores for part in parts], axis=1)  # [queries, sum of k]
    rows = np.concatenate([part.rows for part in parts], axis=1)
    return best(scores, rows, k, repeats=len(parts) > 1)


def fold(found: Neighbours, owners: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], Neighbours]:
    """What several vectors of one asker found as one list each (DANCE: a document's chunks ask for queries).

    found: [asks, k or more], owners: [asks] ascending, the asker of each. Returns (askers [n]
    ascending, neighbours [n, k]): a row counts by the best of the asks that found it, which is exact
    as long as every ask was searched k deep.
    """
    keys, starts, counts = np.unique(owners, return_index=True, return_counts=True)
    folded = empty(len(keys), k)
    for turn in range(counts.max(initial=0)):  # one ask of each asker at a time: one may have hundreds
        has = np.flatnonzero(counts > turn)
        asks = starts[has] + turn
        part = merge(
            [Neighbours(folded.scores[has], folded.rows[has]), Neighbours(found.scores[asks], found.rows[asks])], k
        )
        folded.scores[has], folded.rows[has] = part
    return keys, folded
