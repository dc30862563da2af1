"""Which texts a refresh is about: queries to mine for, documents to search, and what else needs a vector.

With refresh.fraction=1 all documents and, for the dual task, all training queries are searched. With less it
is another slice of them each time, until all were: the best m of one slice in n are, nearly, a uniform draw
from the best n m of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dance.mining.miner import rotation

from .context import Context
from .corpus import Rows

# What held-out queries are scored over in a refresh: all documents, a sample of them, or they are not.
Scoring = Literal["all", "sample", "none"]
_DOCUMENTS, _POOL = (1,), (2,)  # purposes of the rotations beside that of the queries mined for


@dataclass(frozen=True, eq=False)
class Window:
    queries: Rows  # training queries that get negatives
    searched: Rows | None  # documents that are encoded and searched; None are all
    beside: Rows  # documents that are encoded for their scores alone
    keys: Rows  # documents that get negatives
    pool: Rows  # training queries that are searched for them
    asked: Rows  # all queries that need a vector, in any order


def window(context: Context, turn: int, scoring: Scoring) -> Window:
    """Of refresh ``turn``."""
    config, qrels = context.config, context.qrels
    queries = rotation(qrels.queries, config.negatives.queries_per_refresh, turn, config.seed)
    searched = _searched(context, turn, scoring)
    relevant = np.unique(qrels.subset(queries).documents)
    beside, keys, pool = relevant[:0], relevant[:0], relevant[:0]
    if searched is not None and context.compares_positives:
        beside = np.setdiff1d(relevant, searched)
    if context.mines_queries:
        keys, pool = relevant, rotation(qrels.queries, config.refresh.fraction, turn, config.seed, _POOL)
    return Window(queries, searched, beside, keys, pool, _asked(context, queries, keys, pool, scoring))


def _searched(context: Context, turn: int, scoring: Scoring) -> Rows | None:
    config, none = context.config, np.empty(0, dtype=np.int64)
    if scoring == "all":
        return None
    if config.parts == 1:
        return None if context.mines_documents else none
    documents = np.arange(len(context.prepared.collection.document_ids))
    covered = rotation(documents, config.refresh.fraction, turn, config.seed, _DOCUMENTS)
    return covered if context.searches_documents else none


def _asked(context: Context, queries: Rows, keys: Rows, pool: Rows, scoring: Scoring) -> Rows:
    if scoring == "all" and context.config.evaluate.d2q:
        return np.arange(len(context.prepared.queries))
    asked = [pool]
    if context.mines_documents or context.groups_pairs:
        asked.append(queries)
    if len(keys):  # a document is compared with what it is relevant to
        pairs = context.qrels.pairs()
        asked.append(pairs[0][np.isin(pairs[1], keys)])
    if scoring != "none":
        asked.append(context.held_out.queries)
    return np.unique(np.concatenate(asked))
