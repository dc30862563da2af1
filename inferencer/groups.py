"""Pairs of a refresh's queries and their relevant documents, put together to groups that are close to each other."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from dance.mining.groups import REACH, form_groups
from dance.mining.table import Groups
from dance.search.flat import inner_products, search
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
    work = partial(_grouped, context, asking, which, vectors, queries[place], positives, step)
    return context.together(lambda: work() if context.world.leads else None)


def _grouped(
    context: Context, asking: Vectors, which: Rows, vectors: Vectors, queries: Rows, positives: Rows, step: int
) -> Groups:
    """asking: [pairs, width]; queries, positives: [pairs] rows."""

    def answers(one: Rows, other: Rows) -> NDArray[np.bool_]:
        same = queries[one][:, None] == queries[other][None, :]
        return same | context.relevance.covers(queries[one][:, None], positives[other][None, :])

    config, near = context.config, _nearest(context, asking, best_chunks(asking, which, vectors))
    found = form_groups(near, config.batches.group_size, answers, config.seed, step)
    return Groups(*(np.where(found == NONE, NONE, column[found]) for column in (queries, positives)))


def _nearest(context: Context, queries: Vectors, positives: Vectors) -> Rows:
    """Places of the positives nearest to each query; both [pairs, width]. [pairs, neighbours]"""
    places, k = np.arange(len(positives)), min(len(queries), REACH * context.config.batches.group_size)
    near = [np.empty((0, k), np.int64)]
    for start in range(0, len(queries), size := context.config.encode.queries_per_search):
        part = queries[start : start + size]
        near.append(search(positives, places, part, k, context.world.device).rows)
        context.tell(start + len(part))
    return np.concatenate(near)


def best_chunks(queries: Vectors, which: Rows, vectors: Vectors) -> Vectors:
    """Of several chunks the one nearest to the pair's own query stands for its document. [pairs, width]

    queries: [pairs, width]; which: [vectors] ascending, the pair that each of ``vectors`` [vectors, width] is of.
    """
    starts = np.searchsorted(which, np.arange(len(queries) + 1))  # [pairs + 1]
    places = starts[:-1, None] + np.arange(np.diff(starts).max(initial=1))  # [pairs, most]
    places = np.where(places < starts[1:, None], places, NONE)
    best = inner_products(queries, vectors, places).argmax(axis=1)
    return vectors[places[np.arange(len(queries)), best]]
