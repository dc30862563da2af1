"""The ranks' mined negatives become one table at rank 0. Small: the drawn ones, not the neighbours."""

from __future__ import annotations

import numpy as np

from dance.mining.miner import Mined
from dance.mining.table import NegativesTable
from dance.world import World


def collect(mined: list[Mined], step: int, world: World) -> NegativesTable | None:
    """The table in query order at rank 0, with counts as its facts; None elsewhere."""
    columns = {
        name: np.concatenate([np.empty(0, kind), *(getattr(m, name) for m in mined)])
        for name, kind in (
            ("queries", np.int64),
            ("counts", np.int64),
            ("documents", np.int64),
            ("scores", np.float32),
        )
    }
    joined = {name: world.gather_ragged(column, 0) for name, column in columns.items()}
    sums = world.gather(
        np.array([[m.relevant_dropped, m.missing, m.short] for m in mined] or [[0, 0, 0]], dtype=np.int64).sum(axis=0),
        0,
    )
    if not world.leads:
        return None
    whole = {name: np.concatenate(parts) for name, parts in joined.items()}
    return _in_query_order(
        whole["queries"],
        whole["counts"],
        whole["documents"],
        whole["scores"],
        step,
        np.sum(sums, axis=0).tolist(),
    )


def _in_query_order(
    queries: np.ndarray,
    counts: np.ndarray,
    documents: np.ndarray,
    scores: np.ndarray,
    step: int,
    sums: list[int],
) -> NegativesTable:
    order = np.argsort(queries)
    starts = np.cumsum(counts) - counts  # [queries] where each one's negatives begin
    sorted_counts = counts[order]
    offsets = np.concatenate([[0], np.cumsum(sorted_counts)]).astype(np.int64)
    # Negative j of the i-th query in order lies at starts[order[i]] + j.
    within = np.arange(len(documents)) - np.repeat(offsets[:-1], sorted_counts)
    take = np.repeat(starts[order], sorted_counts) + within
    facts = {
        "queries_mined": len(queries),
        "negatives": len(documents),
        "queries_without_negatives": int((counts == 0).sum()),
        "short_queries": sums[2],
        "relevant_dropped": sums[0],
        "candidates_missing": sums[1],
    }
    return NegativesTable(step, queries[order], offsets, documents[take], scores[take], facts)
