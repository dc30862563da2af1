"""Which example comes when: an endless stream that a single integer can resume.

The stream is a chain of passes. A pass is a permutation of all (query, positive) pairs, seeded by
(seed, step of the negatives, pass), so the examples of one pair are about a pass apart and those of
one query scattered; in pass p a pair takes its p-th group of negatives. An optimizer step takes the
next examples of the stream and deals them to micro-batches and ranks, so that all ranks always have
equally many and none are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..corpus.qrels import Qrels
from ..mining.draw import permutation
from ..mining.table import NegativesTable

COLD = -1  # stands for the step of the negatives while there are none


@dataclass
class Examples:
    """Query, positive and negative rows of examples; -1 where a query has no further negative."""

    queries: NDArray[np.int64]  # [examples]
    positives: NDArray[np.int64]  # [examples]
    negatives: NDArray[np.int64]  # [examples, negatives per example]

    def __getitem__(self, part: slice) -> Examples:
        return Examples(self.queries[part], self.positives[part], self.negatives[part])


@dataclass
class Stream:
    """All examples of one negatives table, or of none (in-batch cold start)."""

    queries: NDArray[np.int64]  # [pairs]
    positives: NDArray[np.int64]  # [pairs]
    table: NegativesTable | None
    per_example: int  # negatives
    seed: int
    _orders: dict[int, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    @classmethod
    def over(cls, qrels: Qrels, table: NegativesTable | None, per_example: int, seed: int) -> Stream:
        """The pairs that have something to be contrasted with. Raises ValueError where none has."""
        queries, positives = qrels.pairs()
        if table is None:
            return cls(queries, positives, None, 0, seed)
        usable = table.counts(queries) > 0 if per_example else np.isin(queries, table.queries)
        if not usable.any():
            raise ValueError(
                f"the negatives of step {table.step} hold none for any training query; "
                "is the corpus smaller than the positives of a query?"
            )
        return cls(queries[usable], positives[usable], table, per_example, seed)

    @property
    def step(self) -> int:
        return COLD if self.table is None else self.table.step

    def take(self, start: int, count: int) -> Examples:
        """Examples ``start`` to ``start + count`` of the stream, across passes."""
        at = np.arange(start, start + count)  # [count]
        turn, place = np.divmod(at, len(self.queries))
        pair = np.empty(count, dtype=np.int64)
        for number in np.unique(turn).tolist():
            here = turn == number
            pair[here] = self._order(number)[place[here]]
        queries = self.queries[pair]
        if self.table is None or self.per_example == 0:
            negatives = np.empty((count, 0), dtype=np.int64)
        else:
            negatives = self.table.take(queries, turn, self.per_example)
        return Examples(queries, self.positives[pair], negatives)

    def _order(self, number: int) -> NDArray[np.int64]:
        if number not in self._orders:
            self._orders = {k: v for k, v in self._orders.items() if k == number - 1}
            # The key is offset by one because a seed holds no negative numbers.
            self._orders[number] = permutation(len(self.queries), self.seed, self.step + 1, number)
        return self._orders[number]


def deal(examples: Examples, batch: int, accumulation: int, rank: int, size: int) -> list[Examples]:
    """The micro-batches of one rank from the ``batch * accumulation * size`` examples of a step.

    Micro-batch by micro-batch the ranks lie side by side, so that W ranks with batch B see in each
    micro-batch what one rank with batch W * B would.
    """
    assert len(examples.queries) == batch * accumulation * size
    starts = [(micro * size + rank) * batch for micro in range(accumulation)]
    return [examples[slice(start, start + batch)] for start in starts]
