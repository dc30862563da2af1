"""The held-out queries over the full corpus, and the documents that answer them over all queries.

The documents may come in parts: each is searched by ``ranked``, ``judged`` has the last word.
"""

from __future__ import annotations

import numpy as np

from dance.evaluation.coverage import NO_ANSWERS, first_answers
from dance.evaluation.held_out import Evaluation
from dance.mining.draw import permutation
from dance.search.neighbours import Neighbours, empty

from .context import Context
from .corpus import Corpus, Rows
from .queries import asking
from .vectors import Queries

SAMPLED = "sample_"  # before the names of metrics that are not over the full corpus
_SAMPLE = 7  # purpose of the hashes


def evaluate(context: Context, corpus: Corpus, asked: Queries) -> Evaluation | None:
    """At rank 0, None elsewhere. ``asked`` holds the held-out queries and, with evaluate.d2q, all others too."""
    return judged(context, ranked(context, corpus, asked), corpus, asked)


def ranked(context: Context, corpus: Corpus, asked: Queries) -> Neighbours:
    """[held-out queries, depth] at rank 0, no queries elsewhere."""
    held_out, depth = context.held_out, context.held_out.q2d_depth
    vectors = asked.of(held_out.queries)
    context.reporter.begin("evaluate", len(vectors), "queries")
    blocks = []
    for _, part in context.blocks(len(vectors)):
        blocks.append(corpus.search(vectors[part], depth, to=0))
        context.all_tell(part.stop)
    found = _joined([block for block in blocks if block is not None], min(depth, corpus.documents))
    return held_out.without_own(found) if context.world.leads else found


def judged(context: Context, found: Neighbours, askers: Corpus, asked: Queries) -> Evaluation | None:
    """As ``evaluate``, from what was ``ranked`` over the full corpus; ``askers`` holds the relevant documents."""
    firsts = _firsts(context, found)
    queries = _queries(context, askers, asked) if context.config.evaluate.d2q else None
    return context.held_out.evaluate(found, queries, firsts) if context.world.leads else None


def sampled(context: Context, corpus: Corpus, asked: Queries) -> dict[str, float]:
    """Metrics over ``sample`` at rank 0, {} elsewhere: too good, but they tell how training goes."""
    found = ranked(context, corpus, asked)
    firsts = _firsts(context, found)
    metrics = context.held_out.evaluate(found, None, firsts).metrics if context.world.leads else {}
    return {f"{SAMPLED}{name}": value for name, value in metrics.items()}


def sample(context: Context) -> Rows:
    """Rows of the documents that held-out queries are scored on between two full passes, always the same ones."""
    documents, share = len(context.prepared.collection.document_ids), context.config.evaluate.fraction
    assert share is not None
    drawn = permutation(documents, context.config.seed, _SAMPLE)[: round(share * documents)]
    return np.union1d(drawn, context.held_out.qrels.documents)


def _firsts(context: Context, found: Neighbours) -> Rows | None:
    return None if context.prepared.collection.answers is None else _first_answers(context, found.rows)


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
    blocks = list(asking(context, corpus, held_out.documents))

    def work() -> None:
        for block in blocks:
            found.append(block.search(asked, held_out.d2q_depth, context))
            parts.append(np.arange(block.part.start, block.part.stop))
            context.tell(block.part.stop)

    context.together(work)
    place = np.concatenate([np.empty(0, np.int64), *parts])
    mine = _joined(found, held_out.d2q_depth)
    order = np.argsort(np.concatenate([place[:0], *world.gather_ragged(place, 0)]))
    scores = np.concatenate([mine.scores[:0], *world.gather_ragged(mine.scores, 0)])
    rows = np.concatenate([mine.rows[:0], *world.gather_ragged(mine.rows, 0)])
    return Neighbours(scores[order], rows[order])


def _joined(blocks: list[Neighbours], k: int) -> Neighbours:
    return Neighbours(*(np.concatenate(columns) for columns in zip(empty(0, k), *blocks)))
