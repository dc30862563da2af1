"""The held-out queries over the full corpus, and the documents that answer them over all queries."""

from __future__ import annotations

import numpy as np

from dance.evaluation.coverage import NO_ANSWERS, first_answers
from dance.evaluation.held_out import Evaluation
from dance.search.neighbours import Neighbours, empty

from .context import Context
from .corpus import Corpus, Rows
from .queries import asking
from .vectors import Queries


def evaluate(context: Context, corpus: Corpus, asked: Queries) -> Evaluation | None:
    """At rank 0, None elsewhere. ``asked`` holds the held-out queries and, with evaluate.d2q, all others too."""
    found = _documents(context, corpus, asked)
    firsts = None if context.prepared.collection.answers is None else _first_answers(context, found.rows)
    queries = _queries(context, corpus, asked) if context.config.evaluate.d2q else None
    return context.held_out.evaluate(found, queries, firsts) if context.world.leads else None


def _documents(context: Context, corpus: Corpus, asked: Queries) -> Neighbours:
    """[held-out queries, depth] at rank 0, no queries elsewhere."""
    held_out, depth = context.held_out, context.config.evaluate.depth
    vectors = asked.of(held_out.queries)
    context.reporter.begin("evaluate", len(vectors), "queries")
    blocks = []
    for _, part in context.blocks(len(vectors)):
        blocks.append(corpus.search(vectors[part], depth, to=0))
        context.all_tell(part.stop)
    return _joined([block for block in blocks if block is not None], min(depth, corpus.documents))


def _first_answers(context: Context, rows: Rows) -> Rows:
    """See ``coverage``; each rank reads its share of the passages. rows: those of rank 0. [held-out queries]"""
    world, queries = context.world, context.held_out.queries
    rows = world.from_rank(rows.ravel(), 0).reshape(len(queries), -1)
    firsts = np.full(len(queries), NO_ANSWERS, dtype=np.int64)
    share = slice(world.rank, None, world.size)
    firsts[share] = first_answers(context.prepared.collection, queries[share], rows[share])
    return world.maximum(firsts)


def _queries(context: Context, corpus: Corpus, asked: Queries) -> Neighbours:
    """[askers, d2q_depth] at rank 0; elsewhere what that rank searched."""
    held_out, world = context.held_out, context.world
    context.reporter.begin("evaluate", len(held_out.documents), "documents")
    parts, found = [], []
    for block in asking(context, corpus, held_out.documents):
        found.append(block.search(asked, held_out.d2q_depth, context))
        parts.append(np.arange(block.part.start, block.part.stop))
        context.reporter.update(block.part.stop)
    place = np.concatenate([np.empty(0, np.int64), *parts])
    mine = _joined(found, held_out.d2q_depth)
    order = np.argsort(np.concatenate([place[:0], *world.gather_ragged(place, 0)]))
    scores = np.concatenate([mine.scores[:0], *world.gather_ragged(mine.scores, 0)])
    rows = np.concatenate([mine.rows[:0], *world.gather_ragged(mine.rows, 0)])
    return Neighbours(scores[order], rows[order])


def _joined(blocks: list[Neighbours], k: int) -> Neighbours:
    return Neighbours(*(np.concatenate(columns) for columns in zip(empty(0, k), *blocks)))
