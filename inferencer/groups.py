"""Pairs of a refresh's queries and their relevant documents, put together to groups that are close to each other."""

from __future__ import annotations

import numpy as np

from dance.mining.groups import REACH, form_groups
from dance.mining.table import Groups
from dance.search.flat import inner_products, search
from dance.search.neighbours import NONE, Neighbours, best, empty
from dance.world import World

from .context import Context
from .corpus import Corpus, Rows, Vectors
from .pairs import Pairs
from .sources import pairs_of
from .vectors import Queries

_LOOKS = (REACH + 16, 1024)  # texts among which a pair's neighbours are: at first, and where too few of those oppose it


def group(context: Context, corpus: Corpus, asked: Queries, queries: Rows, step: int) -> Groups | None:
    """A collective; the groups are at rank 0, None elsewhere. ``queries`` [queries] rows, ascending.

    All ranks look for neighbours, which is quadratic in the pairs; rank 0 alone forms the groups of them, in two
    seconds for 20,000 pairs in groups of 8, five in groups of 32. Raises embed.Interrupted.
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

    queries, vectors: [pairs, width] of each pair's query and text. The ranks meet after every round of blocks, so
    that none waits for longer than another searches one.
    """
    world, texts = context.world, vectors[pairs.firsts]  # [texts, width]
    here, near = empty(0, REACH), [empty(0, REACH)]
    for to, part in context.blocks(len(queries)):
        if world.rank == to:
            here = _opposing(pairs, part, queries, texts, world)
        if to == world.size - 1 or part.stop == len(queries):  # the round is through; by rank is by place
            near += map(Neighbours, world.gather_ragged(here.scores, 0), world.gather_ragged(here.rows, 0))
            here = empty(0, REACH)
            context.all_tell(part.stop)
    return Neighbours(*map(np.concatenate, zip(*near)))


def _opposing(pairs: Pairs, part: slice, queries: Vectors, texts: Vectors, world: World) -> Neighbours:
    """Of each pair of a block the REACH nearest that oppose it, or fewer. queries [pairs, width], texts [texts, width]

    The texts nearest to a pair may be of pairs that do not oppose it: other positives of its query or, by queries,
    other queries of its positive. Where that leaves too few, further ones are looked at.
    """
    near = empty(part.stop - part.start, REACH)
    short = np.arange(part.start, part.stop)
    for look in _LOOKS:
        found = search(texts, np.arange(len(texts)), queries[short], min(look, len(texts)), world.device)
        which = pairs.having(found.rows, short[:, None])  # [short, look]
        kept = best(found.scores, np.where(pairs.opposes(short[:, None], which), which, NONE), REACH)
        near.scores[short - part.start], near.rows[short - part.start] = kept
        short = short[kept.rows[:, -1] == NONE]
        if not len(short) or look >= len(texts):
            break
    return near


def best_chunks(queries: Vectors, which: Rows, vectors: Vectors) -> Vectors:
    """Of several chunks the one nearest to the pair's own query stands for its document. [pairs, width]

    queries: [pairs, width]; which: [vectors] ascending, the pair that each of ``vectors`` [vectors, width] is of.
    """
    starts = np.searchsorted(which, np.arange(len(queries) + 1))  # [pairs + 1]
    places = starts[:-1, None] + np.arange(np.diff(starts).max(initial=1))  # [pairs, most]
    places = np.where(places < starts[1:, None], places, NONE)
    best = inner_products(queries, vectors, places).argmax(axis=1)
    return vectors[places[np.arange(len(queries)), best]]
