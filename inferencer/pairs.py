"""Queries and what answers them, to be put together to groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dance.corpus.relevance import Relevance

from .corpus import Rows


@dataclass(frozen=True, eq=False)
class Pairs:
    """Queries, each with a document that answers it. A pair is named by its place."""

    relevance: Relevance
    queries: Rows  # [pairs] rows, ascending
    positives: Rows  # [pairs] rows
    by_queries: bool  # whether texts are queries, else they are positives

    def opposes(self, one: Rows, other: Rows) -> NDArray[np.bool_]:
        """Whether neither query is answered by the positive of the other; the two broadcast."""
        return ~(self._answers(one, other) | self._answers(other, one))

    def _answers(self, one: Rows, other: Rows) -> NDArray[np.bool_]:
        asking = self.queries[one]
        return (asking == self.queries[other]) | self.relevance.covers(asking, self.positives[other])

    @cached_property
    def _texts(self) -> tuple[Rows, Rows]:
        """(text of each pair [pairs], its first pair [texts]); that of a query or positive, copies having one."""
        rows = self.queries if self.by_queries else self.positives
        twins = self.relevance.query_twins if self.by_queries else self.relevance.twins
        _, first, text = np.unique(rows if twins is None else twins[rows], return_index=True, return_inverse=True)
        return text, first

    @property
    def firsts(self) -> Rows:
        """The first pair of each text: texts are searched once, lest one of many pairs be all that is found. [texts]"""
        return self._texts[1]

    def having(self, texts: Rows, asking: Rows) -> Rows:
        """For each pair that asks a pair of each text. [asking, k] -> same; asking: [asking, 1]

        Of several with one text another for every pair that asks, so that none is everybody's neighbour.
        """
        order, starts, turns = self._by_text
        return order[starts[texts] + turns[asking] % np.diff(starts)[texts]]

    @cached_property
    def _by_text(self) -> tuple[Rows, Rows, Rows]:
        """(pairs by text [pairs], where each text starts [texts + 1], which turn each pair has [pairs]).

        Turns are told apart by a pair's place within its text, and by the text, of which most have one pair.
        """
        own = self._texts[0]
        order = np.argsort(own, kind="stable")
        starts = np.searchsorted(own[order], np.arange(len(self.firsts) + 1))
        within = np.empty_like(order)
        within[order] = np.arange(len(order)) - starts[own[order]]  # place among the pairs of the same text
        return order, starts, within + own
