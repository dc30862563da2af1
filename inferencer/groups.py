"""Pairs of a refresh's queries and their relevant documents, put together to groups that are close to each other."""

from __future__ import annotations

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
    """A collective; the groups are at rank 0, None elsewhere. ``queries`` [queries] rows, ascending.

    All ranks look for neighbours, which is quadratic in the pairs; rank 0 alone forms the groups of them, in
    about a second for 20,000 pairs. Raises embed.Interrupted.
    """
    place, positives = pairs_of(context.qrels, queries)
    context.reporter.begin("group", len(place), "pairs")
    asking = asked.of(queries)[place]  # [pairs, width]
    near = _nearest(context, asking, _vectors(context, corpus, asking, positives))
    return _formed(context, near, queries[place], positives, step) if context.world.leads else None


def _formed(context: Context, near: Rows, queries: Rows, positives: Rows, step: int) -> Groups:
    """near: [pairs, neighbours] places; queries, positives: [pairs] rows."""

    def answers(one: Rows, other: Rows) -> NDArray[np.bool_]:
        same = queries[one][:, None] == queries[other][None, :]
        return same | context.relevance.covers(queries[one][:, None], positives[other][None, :])

    found = form_groups(near, context.config.batches.group_size, answers, context.config.seed, step)
    return Groups(*(np.where(found == NONE, NONE, column[found]) for column in (queries, positives)))


def _vectors(context: Context, corpus: Corpus, queries: Vectors, positives: Rows) -> Vectors:
    """Of each pair's positive the chunk nearest to its query, at every rank. queries, result: [pairs, width]

    Block by block, since all chunks together may be several times what is kept.
    """
    parts = [queries[:0]]
    for _, part in context.blocks(len(positives)):
        parts.append(best_chunks(queries[part], *corpus.fetch(positives[part])))
    return np.concatenate(parts)


def _nearest(context: Context, queries: Vectors, positives: Vectors) -> Rows:
    """Places of the positives nearest to each query, both [pairs, width]. [pairs, neighbours] at rank 0, none elsewhere

    The ranks meet after every round of blocks, so that none waits for longer than another searches one.
    """
    world, places = context.world, np.arange(len(positives))
    nothing = np.empty((0, min(len(queries), REACH * context.config.batches.group_size)), np.int64)
    here, near = nothing, [nothing]
    for to, part in context.blocks(len(queries)):
        if world.rank == to:
            here = search(positives, places, queries[part], nothing.shape[1], world.device).rows
        if to == world.size - 1 or part.stop == len(queries):  # the round is through; by rank is by place
            near += world.gather_ragged(here, 0)
            here = nothing
            context.all_tell(part.stop)
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
