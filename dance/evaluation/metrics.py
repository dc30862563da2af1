"""Ranking metrics, computed by ir-measures; ties fall as in trec_eval for all of them.

trec_eval orders by score, then by document id as text, both descending. A cut-off reciprocal rank
is the plain one over the list cut in that order, so that one order serves all metrics.
"""

from __future__ import annotations

from collections.abc import Mapping

import ir_measures
import numpy as np
from ir_measures import RR, R, nDCG
from numpy.typing import NDArray

from ..corpus.collection import Collection
from ..corpus.qrels import Qrels
from ..corpus.strings import StringTable
from ..search.neighbours import Neighbours

DEPTH = 100  # documents ranked per query, at least
Ranking = dict[str, dict[str, float]]  # query id -> document id -> score
Judgements = dict[str, dict[str, int]]  # query id -> document id -> grade


def measure(judgements: Judgements, ranking: Ranking, depth: int = DEPTH, least: int = 1) -> dict[str, float]:
    """Means over all judged queries; one that the ranking lacks counts 0 (FIELD_BUGS V02).

    ``recall@1000`` is there where ``depth``, the number ranked, reaches it. A grade of ``least`` or more is
    relevant to recall and reciprocal rank; nDCG gains by the grade itself, nothing by a negative one (V06).
    """
    ranking = {query: ranking.get(query, {}) for query in judgements}
    recalls = [R(rel=least) @ k for k in (100, 1000) if k == 100 or depth >= k]
    first = RR(rel=least)
    whole = ir_measures.calc_aggregate([nDCG @ 10, *recalls], judgements, ranking)
    firsts = {k: ir_measures.calc_aggregate([first], judgements, _cut(ranking, k))[first] for k in (10, 100)}
    return {
        "ndcg@10": whole[nDCG @ 10],
        **{f"mrr@{k}": value for k, value in firsts.items()},
        **{f"recall@{recall['cutoff']}": whole[recall] for recall in recalls},
    }


def judgements(collection: Collection, qrels: Qrels) -> Judgements:
    """By external ids, for the queries that have something relevant."""
    wanted = set(qrels.queries.tolist())
    named: Judgements = {collection.query_ids[row]: {} for row in qrels.queries.tolist()}
    for query, document, grade in zip(*(column.tolist() for column in qrels.judged())):
        if query in wanted:
            named[collection.query_ids[query]][collection.document_ids[document]] = grade
    return named


def reversed_judgements(collection: Collection, qrels: Qrels) -> Judgements:
    """The same pairs asked the other way: document id -> query id -> grade, for documents relevant to something."""
    wanted = set(qrels.documents.tolist())
    named: Judgements = {collection.document_ids[row]: {} for row in sorted(wanted)}
    for query, document, grade in zip(*(column.tolist() for column in qrels.judged())):
        if document in wanted:
            named[collection.document_ids[document]][collection.query_ids[query]] = grade
    return named


def ranking(collection: Collection, queries: NDArray[np.int64], neighbours: Neighbours) -> Ranking:
    """By external ids; padding of short lists is left out. queries: [queries] rows."""
    return _named(collection.query_ids, queries, collection.document_ids, neighbours)


def reversed_ranking(collection: Collection, documents: NDArray[np.int64], neighbours: Neighbours) -> Ranking:
    """Queries ranked for documents [documents] rows, by external ids: document id -> query id -> score."""
    return _named(collection.document_ids, documents, collection.query_ids, neighbours)


def _named(askers: StringTable, rows: NDArray[np.int64], names: StringTable, neighbours: Neighbours) -> Ranking:
    named: Ranking = {}
    for row, scores, found in zip(rows.tolist(), neighbours.scores, neighbours.rows):
        real = found >= 0
        named[askers[row]] = dict(zip([names[place] for place in found[real].tolist()], scores[real].tolist()))
    return named


def _cut(ranking: Mapping[str, dict[str, float]], depth: int) -> Ranking:
    return {
        query: dict(sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)[:depth])
        for query, scores in ranking.items()
    }
