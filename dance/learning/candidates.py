"""Which documents may oppose a query's positive, as one boolean matrix.

Documents of a batch are laid out as [positives of all examples | negatives of all examples].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..corpus.relevance import Relevance
from .order import Examples


@dataclass(frozen=True)
class Candidates:
    documents: NDArray[np.int64]  # [candidates] rows
    target: NDArray[np.int64]  # [queries] column of the query's own positive
    allowed: NDArray[np.bool_]  # [queries, candidates] the target and what may oppose it
    masked: int  # candidates left out because they are relevant to the query


def layout(examples: Examples) -> NDArray[np.int64]:
    """Rows of the documents to encode; a missing negative stands as row -1. [batch * (1 + k)]"""
    return np.concatenate([examples.positives, examples.negatives.reshape(-1)])


def candidates(
    examples: Examples,
    documents: NDArray[np.int64],
    offset: int,
    relevance: Relevance,
    in_batch: bool,
) -> Candidates:
    """Opponents of each positive: its own negatives, and with ``in_batch`` every other document.

    documents: [candidates], the layouts of one or several ranks joined; ``offset`` is where this
    rank's begins. Known positives of a query and copies of them never oppose it.
    """
    batch, k = examples.negatives.shape
    target = offset + np.arange(batch)  # [batch]
    own = np.zeros((batch, len(documents)), dtype=bool)
    own_negatives = offset + batch + np.arange(batch * k).reshape(batch, k)  # [batch, k]
    np.put_along_axis(own, own_negatives, True, axis=1)
    opposing = np.ones_like(own) if in_batch else own
    positive = relevance.covers(examples.queries[:, None], documents[None, :])  # [batch, candidates]
    allowed = opposing & ~positive & (documents >= 0)
    allowed[np.arange(batch), target] = True
    masked = int((opposing & positive).sum()) - (batch if in_batch else 0)
    return Candidates(documents, target, allowed, masked)
