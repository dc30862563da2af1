"""Ranking metrics, computed by ir-measures; ties fall as in trec_eval for all of them.

trec_eval orders by score, then by document id as text, both descending. A cut-off reciprocal rank
is the plain one over the list cut in that order, so that one order serves all metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ir_measures
import numpy as np
from ir_measures import RR, R, nDCG
from numpy.typing import NDArray

from ..corpus.collection import Collection
from ..corpus.qrels import Qrels
from ..search.neighbours import Neighbours

DEPTH = 100  # documents ranked per query
Ranking = dict[str, dict[str, float]]  # query id -> document id -> score
Judgements = dict[str, dict[str, int]]  # query id -> document id -> grade


def measure(judgements: Judgements, ranking: Ranking) -> dict[str, float]:
    """Means over all judged queries; one that the ranking lacks counts 0 (FIELD_BUGS V02)."""
    ranking = {query: ranking.get(query, {}) for query in judgements}
    whole = ir_measures.calc_aggregate([nDCG @ 10, R @ 100], judgements, ranking)
    first = ir_measures.calc_aggregate([RR], judgements, _cut(ranking, 10))
    return {"ndcg@10": whole[nDCG @ 10], "mrr@10": first[RR], "recall@100": whole[R @ 100]}


def judgements(collection: Collection, qrels: Qrels) -> Judgements:
    """By external ids, for the queries that have something relevant."""
    wanted = set(qrels.queries.tolist())
    named: Judgements = {collection.query_ids[row]: {} for row in qrels.queries.tolist()}
    for query, document, grade in zip(*(column.tolist() for column in qrels.judged())):
        if query in wanted:
            named[collection.query_ids[query]][collection.document_ids[document]] = grade
    return named


def ranking(collection: Collection, queries: NDArray[np.int64], neighbours: Neighbours) -> Ranking:
    """By external ids; padding of short lists is left out. queries: [queries] rows."""
    return {
        collection.query_ids[query]: _named(collection, neighbours.rows[i], neighbours.scores[i])
        for i, query in enumerate(queries.tolist())
    }


def _named(collection: Collection, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> dict[str, float]:
    found = rows >= 0
    ids: Sequence[str] = [collection.document_ids[row] for row in rows[found].tolist()]
    return dict(zip(ids, scores[found].tolist()))


def _cut(ranking: Mapping[str, dict[str, float]], depth: int) -> Ranking:
    return {
        query: dict(sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)[:depth])
        for query, scores in ranking.items()
    }
