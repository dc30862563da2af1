"""Which example comes when: an endless stream that a single integer can resume.

The stream is a chain of epochs. An epoch is a permutation of all (query, positive) pairs, seeded by
(seed, step of the negatives, epoch), so the examples of one pair are about an epoch apart and those of
one query scattered; in epoch p a pair takes its p-th set of negatives, and for the dual task of negative
queries. An optimizer step takes the next examples of the stream and deals them to micro-batches and
ranks, so that all ranks always have equally many and none are dropped.

With ``batches.how=hard_groups`` micro-batches consist of groups of close pairs, which have epochs of
their own, and of ordinary pairs: see ``grouped``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..corpus.qrels import Qrels
from ..mining.table import Drawn, Groups, NegativesTable
from .chain import Chain, Rows
from .grouped import Grouped, Grouping

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
    grouped: Grouped | None = None

    def __post_init__(self) -> None:
        # The key is offset by one because a seed holds no negative numbers.
        self._epochs = Chain(len(self.queries), (self.seed, self.step + 1))

    @classmethod
    def over(
        cls,
        qrels: Qrels,
        table: NegativesTable | None,
        per_example: int,
        queries_per_example: int,
        seed: int,
        grouping: Grouping | None = None,
    ) -> Stream:
        """The pairs that have something to be contrasted with, in groups if ``grouping`` says so.

        Where examples take no mined negatives at all, a pair is contrasted with its batch, and all serve.
        Raises ValueError where no pair serves, and for a table without the groups that are wanted.
        """
        queries, positives = qrels.pairs()
        if table is None:
            return cls(queries, positives, None, 0, 0, seed)
        usable = _usable(table, queries, positives, per_example, queries_per_example)
        if not usable.any():
            raise ValueError(
                f"the negatives of step {table.step} hold none for any training query; "
                "is the corpus smaller than the positives of a query?"
            )
        made = cls(queries[usable], positives[usable], table, per_example, queries_per_example, seed)
        if grouping is not None:
            made.grouped = made._grouped(_groups(table), grouping)
        return made

    @property
    def step(self) -> int:
        return COLD if self.table is None else self.table.step

    def take(self, start: int, count: int) -> Examples:
        """Examples ``start`` to ``start + count`` of the stream, across epochs."""
        queries, positives, epoch = self._pairs(np.arange(start, start + count))
        negatives = query_negatives = np.empty((count, 0), dtype=np.int64)
        if self.table is not None and self.per_example:
            negatives = self.table.documents.take(queries, epoch, self.per_example)
        if self.table is not None and self.queries_per_example:
            query_negatives = _negative_queries(self.table).take(positives, epoch, self.queries_per_example)
        return Examples(queries, positives, negatives, query_negatives)

    def _pairs(self, places: Rows) -> tuple[Rows, Rows, Rows]:
        """(query, positive, epoch) at each place of the stream. [n] each"""
        if self.grouped is None:
            return self._ordinary(places)
        group, epoch, member, place = self.grouped.locate(places)
        ordinary = group < 0
        queries, positives = self.grouped.queries[group, member], self.grouped.positives[group, member]
        queries[ordinary], positives[ordinary], epoch[ordinary] = self._ordinary(place[ordinary])
        return queries, positives, epoch

    def _ordinary(self, places: Rows) -> tuple[Rows, Rows, Rows]:
        pair, epoch = self._epochs.at(places)
        return self.queries[pair], self.positives[pair], epoch

    def _grouped(self, groups: Groups, grouping: Grouping) -> Grouped | None:
        """None where no group has a pair that serves: then all are ordinary."""
        assert self.table is not None
        queries, positives = groups.queries.ravel(), groups.positives.ravel()
        usable = _usable(self.table, queries, positives, self.per_example, self.queries_per_example) & (queries >= 0)
        if not usable.any():
            return None
        return Grouped(groups, usable.reshape(groups.queries.shape), grouping, self.seed, self.step)


def _usable(table: NegativesTable, queries: Rows, positives: Rows, k: int, k_queries: int) -> NDArray[np.bool_]:
    """Pairs that have negatives of the kind that their examples take. [pairs]"""
    if k:
        return table.documents.counts(queries) > 0
    if k_queries:
        return _negative_queries(table).counts(positives) > 0
    return np.ones(len(queries), dtype=bool)


def _groups(table: NegativesTable) -> Groups:
    if table.groups is None:
        raise ValueError(
            f"the negatives of step {table.step} hold no groups, which batches.how=hard_groups needs: the Inferencer "
            "that mined them has other settings; start both roles with the same ones"
        )
    return table.groups


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
