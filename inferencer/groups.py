"""Pairs of a refresh's queries and their relevant documents, put together to groups that are close to each other."""

from __future__ import annotations

import numpy as np

from dance.mining.groups import REACH, form_groups
from dance.mining.table import Groups
from dance.search.flat import inner_products, search
from dance.search.neighbours import NONE, Neighbours, best, empty

from .context import Context
from .corpus import Corpus, Rows, Vectors
from .pairs import Pairs
from .sources import pairs_of
from .vectors import Queries

_SKIPPED = 224  # at most so many of a query's own pairs are looked behind for its neighbours


def group(context: Context, corpus: Corpus, asked: Queries, queries: Rows, step: int) -> Groups | None:
    """A collective; the groups are at rank 0, None elsewhere. ``queries`` [queries] rows, ascending.

    All ranks look for neighbours, which is quadratic in the pairs; rank 0 alone forms the groups of them, in
    about two seconds for 20,000 pairs. Raises embed.Interrupted.
    """
    batches = context.config.batches
    place, positives = pairs_of(context.qrels, queries)
    pairs = Pairs(context.relevance, queries[place], positives, batches.near == "queries")
    context.reporter.begin("group", len(place), "pairs")
    asking = asked.of(queries)[place]  # [pairs, width]
    vectors = asking if pairs.by_queries else _vectors(context, corpus, asking, positives)
    near = _nearest(context, pairs, asking, vectors)
    if not context.world.leads:
        return None
    found = form_groups(near, batches.group_size, pairs.opposes, context.config.seed, step)
    return Groups(*(np.where(found == NONE, NONE, column[found]) for column in (pairs.queries, pairs.positives)))


def _vectors(context: Context, corpus: Corpus, queries: Vectors, positives: Rows) -> Vectors:
    """Of each pair's positive the chunk nearest to its query, at every rank. queries, result: [pairs, width]

    Block by block, since all chunks together may be several times what is kept.
    """
    parts = [queries[:0]]
    for _, part in context.blocks(len(positives)):
        parts.append(best_chunks(queries[part], *corpus.fetch(positives[part])))
    return np.concatenate(parts)


def _nearest(context: Context, pairs: Pairs, queries: Vectors, vectors: Vectors) -> Neighbours:
    """The pairs that oppose each one and are nearest to its query; at rank 0, none elsewhere.

    queries, vectors: [pairs, width] of each pair's query and text. Texts that several pairs share are searched
    once, lest they be all that is found. The ranks meet after every round of blocks, so that none waits for
    longer than another searches one.
    """
    world, texts = context.world, np.arange(len(pairs.firsts))
    k = min(len(texts), REACH + min(pairs.most, _SKIPPED))
    vectors = vectors[pairs.firsts]  # [texts, width]
    here, near = empty(0, REACH), [empty(0, REACH)]
    for to, part in context.blocks(len(queries)):
        if world.rank == to:
            found = search(vectors, texts, queries[part], k, world.device)
            here = _apart(pairs, np.arange(part.start, part.stop), found)
        if to == world.size - 1 or part.stop == len(queries):  # the round is through; by rank is by place
            near += map(Neighbours, world.gather_ragged(here.scores, 0), world.gather_ragged(here.rows, 0))
            here = empty(0, REACH)
            context.all_tell(part.stop)
    return Neighbours(*map(np.concatenate, zip(*near)))


def _apart(pairs: Pairs, asking: Rows, near: Neighbours) -> Neighbours:
    """Of the texts near to each place that asks [asking] the first that oppose it, as places of pairs."""
    found = pairs.having(near.rows, asking[:, None])  # [asking, k]
    return best(near.scores, np.where(pairs.opposes(asking[:, None], found), found, NONE), REACH)


def best_chunks(queries: Vectors, which: Rows, vectors: Vectors) -> Vectors:
    """Of several chunks the one nearest to the pair's own query stands for its document. [pairs, width]

    queries: [pairs, width]; which: [vectors] ascending, the pair that each of ``vectors`` [vectors, width] is of.
    """
    starts = np.searchsorted(which, np.arange(len(queries) + 1))  # [pairs + 1]
    places = starts[:-1, None] + np.arange(np.diff(starts).max(initial=1))  # [pairs, most]
    places = np.where(places < starts[1:, None], places, NONE)
    best = inner_products(queries, vectors, places).argmax(axis=1)
    return vectors[places[np.arange(len(queries)), best]]
