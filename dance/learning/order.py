"""Which example comes when: an endless stream that a single integer can resume.

The stream is a chain of passes. A pass is a permutation of all (query, positive) pairs, seeded by
(seed, step of the negatives, pass), so the examples of one pair are about a pass apart and those of
one query scattered; in pass p a pair takes its p-th group of negatives, and for the dual task of
negative queries. An optimizer step takes the next examples of the stream and deals them to
micro-batches and ranks, so that all ranks always have equally many and none are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..corpus.qrels import Qrels
from ..mining.draw import permutation
from ..mining.table import Drawn, NegativesTable

Rows = NDArray[np.int64]
COLD = -1  # stands for the step of the negatives while there are none


@dataclass
class Examples:
    """Rows of examples; -1 where a query or a document has no further negative."""

    queries: Rows  # [examples]
    positives: Rows  # [examples] documents
    negatives: Rows  # [examples, negatives per example] documents
    query_negatives: Rows  # [examples, queries per example]; none without the dual task

    def __getitem__(self, part: slice) -> Examples:
        return Examples(self.queries[part], self.positives[part], self.negatives[part], self.query_negatives[part])


@dataclass
class Stream:
    """All examples of one negatives table, or of none (in-batch cold start)."""

    queries: Rows  # [pairs]
    positives: Rows  # [pairs]
    table: NegativesTable | None
    per_example: int  # negatives of a query
    queries_per_example: int  # negative queries of its positive
    seed: int
    _orders: dict[int, Rows] = field(default_factory=dict, repr=False)

    @classmethod
    def over(
        cls, qrels: Qrels, table: NegativesTable | None, per_example: int, queries_per_example: int, seed: int
    ) -> Stream:
        """The pairs that have something to be contrasted with. Raises ValueError where none has.

        Where examples take no mined negatives at all, a pair is contrasted with its batch, and all serve.
        """
        queries, positives = qrels.pairs()
        if table is None:
            return cls(queries, positives, None, 0, 0, seed)
        usable = np.ones(len(queries), dtype=bool)
        if per_example:
            usable = table.documents.counts(queries) > 0
        elif queries_per_example:
            usable = _negative_queries(table).counts(positives) > 0
        if not usable.any():
            raise ValueError(
                f"the negatives of step {table.step} hold none for any training query; "
                "is the corpus smaller than the positives of a query?"
            )
        return cls(queries[usable], positives[usable], table, per_example, queries_per_example, seed)

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
        queries, positives = self.queries[pair], self.positives[pair]
        negatives = query_negatives = np.empty((count, 0), dtype=np.int64)
        if self.table is not None and self.per_example:
            negatives = self.table.documents.take(queries, turn, self.per_example)
        if self.table is not None and self.queries_per_example:
            query_negatives = _negative_queries(self.table).take(positives, turn, self.queries_per_example)
        return Examples(queries, positives, negatives, query_negatives)

    def _order(self, number: int) -> Rows:
        if number not in self._orders:
            self._orders = {k: v for k, v in self._orders.items() if k == number - 1}
            # The key is offset by one because a seed holds no negative numbers.
            self._orders[number] = permutation(len(self.queries), self.seed, self.step + 1, number)
        return self._orders[number]


def _negative_queries(table: NegativesTable) -> Drawn:
    if table.queries is None:
        raise ValueError(
            f"the negatives of step {table.step} hold no negative queries, which loss.dual_weight needs: they were "
            "mined without the dual task; start a new run, or set negatives.queries_per_example=0"
        )
    return table.queries


def deal(examples: Examples, batch: int, accumulation: int, rank: int, size: int) -> list[Examples]:
    """The micro-batches of one rank from the ``batch * accumulation * size`` examples of a step.

    Micro-batch by micro-batch the ranks lie side by side, so that W ranks with batch B see in each
    micro-batch what one rank with batch W * B would.
    """
    assert len(examples.queries) == batch * accumulation * size
    starts = [(micro * size + rank) * batch for micro in range(accumulation)]
    return [examples[slice(start, start + batch)] for start in starts]
