"""What may oppose a positive, as one boolean matrix; the same rule in both directions.

Candidates of a batch are laid out as [positives of all examples | negatives of all examples]. For
document retrieval keys are queries and candidates documents; for query retrieval (DANCE section 3)
keys are the positive documents, and candidates their queries and the negative queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Covers = Callable[[Rows, Rows], NDArray[np.bool_]]


@dataclass(frozen=True)
class Candidates:
    target: Rows  # [keys] column of the key's own positive
    allowed: NDArray[np.bool_]  # [keys, candidates] the target and what may oppose it
    masked: int  # candidates left out because they are relevant to the key

    @property
    def idle(self) -> int:
        """Keys without any opponent, whose loss is 0."""
        return int((self.allowed.sum(axis=1) == 1).sum())


def layout(positives: Rows, negatives: Rows) -> Rows:
    """Rows to encode; a missing negative stands as row -1. [batch], [batch, k] -> [batch * (1 + k)]"""
    return np.concatenate([positives, negatives.reshape(-1)])


def candidates(keys: Rows, k: int, rows: Rows, offset: int, covers: Covers, in_batch: bool) -> Candidates:
    """Opponents of each positive: its own ``k`` negatives, and with ``in_batch`` every other candidate.

    keys: [batch]; rows: [candidates], the layouts of one or several ranks joined; ``offset`` is where
    this rank's begins. Known positives of a key and copies of them never oppose: ``covers`` tells them,
    for keys [batch, 1] and candidates [1, n].
    """
    batch = len(keys)
    target = offset + np.arange(batch)  # [batch]
    opposing = np.full((batch, len(rows)), in_batch)
    own_negatives = offset + batch + np.arange(batch * k).reshape(batch, k)  # [batch, k]
    np.put_along_axis(opposing, own_negatives, True, axis=1)
    opposing[np.arange(batch), target] = False
    positive = covers(keys[:, None], rows[None, :])  # [batch, candidates]
    allowed = opposing & ~positive & (rows >= 0)
    allowed[np.arange(batch), target] = True
    return Candidates(target, allowed, int((opposing & positive).sum()))
