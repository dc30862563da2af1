"""Pairs of a refresh's queries and their relevant documents, put together to groups that are close to each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dance.mining.groups import form_groups
from dance.mining.table import Groups
from dance.search.flat import inner_products
from dance.search.neighbours import NONE

from .context import Context
from .corpus import Corpus, Rows, Vectors
from .sources import pairs_of
from .vectors import Queries


def group(context: Context, corpus: Corpus, asked: Queries, queries: Rows, step: int) -> Groups | None:
    """A collective; the groups are at rank 0, None elsewhere. ``queries`` [queries] rows, ascending."""
    place, positives = pairs_of(context.qrels, queries)
    context.reporter.begin("group", len(place), "pairs")
    asking = asked.of(queries)[place]  # [pairs, width]
    which, vectors = corpus.fetch(positives, to=0)
    if not context.world.leads:
        return None
    rows, config = queries[place], context.config

    def answers(one: Rows, other: Rows) -> NDArray[np.bool_]:
        same = rows[one][:, None] == rows[other][None, :]
        return same | context.relevance.covers(rows[one][:, None], positives[other][None, :])

    answering, size = best_chunks(asking, which, vectors), config.batches.group_size
    found = form_groups(asking, answering, size, answers, config.seed, step)
    return Groups(*(np.where(found == NONE, NONE, column[found]) for column in (rows, positives)))


def best_chunks(queries: Vectors, which: Rows, vectors: Vectors) -> Vectors:
    """Of several chunks the one nearest to the pair's own query stands for its document. [pairs, width]

    queries: [pairs, width]; which: [vectors] ascending, the pair that each of ``vectors`` [vectors, width] is of.
    """
    starts = np.searchsorted(which, np.arange(len(queries) + 1))  # [pairs + 1]
    places = starts[:-1, None] + np.arange(np.diff(starts).max(initial=1))  # [pairs, most]
    places = np.where(places < starts[1:, None], places, NONE)
    best = inner_products(queries, vectors, places).argmax(axis=1)
    return vectors[places[np.arange(len(queries)), best]]
