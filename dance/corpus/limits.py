"""Which documents and queries a limited corpus keeps. Drawn by seed, the same on every machine."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..config import Data
from .drops import Drops
from .qrels import Qrels, Rows


@dataclass(frozen=True)
class Kept:
    documents: Rows  # ascending
    queries: Mapping[str, Rows]  # by split, ascending


def keep(splits: Mapping[str, Qrels], documents: Rows, data: Data, seed: int, drops: Drops) -> Kept:
    """Relevant documents of the kept queries first, then a seeded rest.

    Queries whose relevant documents no longer fit under ``data.max_documents`` are left out, of the
    dev split last. Held-out splits other than dev are limited as dev is.
    """
    drawn = {split: _draw_queries(split, qrels.queries, data, seed, drops) for split, qrels in splits.items()}
    if data.max_documents is None or data.max_documents >= len(documents):
        return Kept(documents, {split: np.sort(rows) for split, rows in drawn.items()})
    relevant = np.zeros(int(documents.max()) + 1, dtype=bool)
    queries = {}
    for split in _by_importance(splits, data):
        fitting = _fitting(drawn[split], splits[split], relevant, data.max_documents)
        _note(drops, split, "data.max_documents", len(drawn[split]) - len(fitting))
        queries[split] = np.sort(fitting)
    rest = documents[~relevant[documents]]
    room = data.max_documents - int(relevant.sum())
    chosen = _random(seed, "documents").choice(rest, size=room, replace=False)
    _note(drops, "corpus", "data.max_documents", len(rest) - room, "documents")
    return Kept(np.sort(np.concatenate([np.flatnonzero(relevant), chosen])), queries)


def keep_asked(asked: Mapping[str, Rows], data: Data, seed: int, drops: Drops) -> dict[str, Rows]:
    """Queries of the splits that have answers and no judgements, which no document limits. Ascending."""
    return {split: np.sort(_draw_queries(split, rows, data, seed, drops)) for split, rows in asked.items()}


def _by_importance(splits: Mapping[str, Qrels], data: Data) -> list[str]:
    ranks = {data.dev_split: 0, data.train_split: 1}
    return sorted(splits, key=lambda split: (ranks.get(split, 2), split))


def _draw_queries(split: str, queries: Rows, data: Data, seed: int, drops: Drops) -> Rows:
    """In an order drawn by seed, so that any beginning of it is a fair sample."""
    key = "max_train_queries" if split == data.train_split else "max_dev_queries"
    limit = getattr(data, key)
    order = _random(seed, split).permutation(queries)
    _note(drops, split, f"data.{key}", len(order) - len(order[:limit]))
    return order[:limit]


def _fitting(queries: Rows, qrels: Qrels, relevant: np.ndarray, limit: int) -> Rows:
    """Those whose relevant documents fit; marks these in ``relevant``."""
    used = int(relevant.sum())
    fitting = []
    for query in queries.tolist():
        rows = qrels.relevant(query)
        more = len(rows) - int(relevant[rows].sum())
        if used + more <= limit:
            relevant[rows] = True
            used += more
            fitting.append(query)
    return np.array(fitting, dtype=np.int64)


def _note(drops: Drops, what: str, limit: str, count: int, kind: str = "queries") -> None:
    if count:
        drops.add(f"{what} {kind} beyond {limit}", f"{count} by seed", count)


def _random(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])
