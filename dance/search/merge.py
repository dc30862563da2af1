"""Results of several shards to one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .neighbours import Neighbours, best


def merge(parts: Sequence[Neighbours], k: int) -> Neighbours:
    """The k best over all shards: score descending, then row ascending; fillers last.

    Every part holds the same queries; no document is in two shards. The order of the parts does
    not matter.
    """
    assert parts, "nothing to merge"
    scores = np.concatenate([part.scores for part in parts], axis=1)  # [queries, sum of k]
    rows = np.concatenate([part.rows for part in parts], axis=1)
    return best(scores, rows, k)
