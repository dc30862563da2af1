"""Judgements by name become judgements by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .drops import Drops
from .ids import IdIndex
from .qrels import Qrels, Rows
from .reading import Judgement, Scored, Source

UNKNOWN_DOCUMENT = "of a document that the corpus lacks"
UNKNOWN_QUERY = "of a query that is not there"
REPEATED = "judgements said twice"
NOTHING_RELEVANT = "queries without a relevant document"


class Split(NamedTuple):
    qrels: Qrels
    judged: int  # queries that the judgements know something relevant of, whether it and they are there or not


def join(source: Source, queries: IdIndex, documents: IdIndex, least: int, drops: Drops) -> dict[str, Split]:
    """By split, in rows of the two indexes; relevant is a grade of ``least`` or more.

    Raises ValueError where a pair has two grades.
    """
    return {
        split: _join_split(source, split, list(judgements), queries, documents, least, drops)
        for split, judgements in source.judgements().items()
    }


def _join_split(
    source: Source,
    split: str,
    named: list[Judgement],
    queries: IdIndex,
    documents: IdIndex,
    least: int,
    drops: Drops,
) -> Split:
    query_rows = queries.rows([judgement.query_id for judgement in named])
    document_rows = documents.rows([judgement.document_id for judgement in named])
    for at in np.flatnonzero((query_rows < 0) | (document_rows < 0)):
        drop_unknown(source, split, "judgements", named[at], bool(query_rows[at] >= 0), drops)
    known = np.flatnonzero((query_rows >= 0) & (document_rows >= 0))
    grades = np.array([judgement.grade for judgement in named], dtype=np.int64)
    once = _each_pair_once(source, split, named, known, query_rows, document_rows, drops)
    qrels = Qrels.of(query_rows[once], document_rows[once], grades[once], least)
    _drop_unanswered(split, named, query_rows, qrels, drops)
    judged = {judgement.query_id for judgement in named if judgement.grade >= least}
    return Split(qrels.subset(qrels.queries), len(judged))


def drop_unknown(
    source: Source, part: str, kind: str, item: Judgement | Scored, known_query: bool, drops: Drops
) -> None:
    """Count one pair whose query or document is not there."""
    reason = UNKNOWN_DOCUMENT if known_query else UNKNOWN_QUERY
    name = item.document_id if known_query else item.query_id
    drops.add(f"{part.split('/')[-1]} {kind} {reason}", f"{name!r} ({source.place(part, item.line)})")


def _each_pair_once(
    source: Source,
    split: str,
    named: list[Judgement],
    known: Rows,
    query_rows: Rows,
    document_rows: Rows,
    drops: Drops,
) -> Rows:
    """Positions in ``named``, one per pair."""
    order = known[np.lexsort((known, document_rows[known], query_rows[known]))]
    again = np.zeros(len(order), dtype=bool)
    again[1:] = (np.diff(query_rows[order]) == 0) & (np.diff(document_rows[order]) == 0)
    for at in np.flatnonzero(again):
        earlier, later = named[order[at - 1]], named[order[at]]
        if earlier.grade != later.grade:
            raise ValueError(
                f"{source.place(split, later.line)}: query {later.query_id!r} and document "
                f"{later.document_id!r} have grade {later.grade} here and {earlier.grade} in "
                f"{source.place(split, earlier.line)}; keep one of them"
            )
        drops.add(f"{split} {REPEATED}", later.query_id)
    return order[~again]


def _drop_unanswered(split: str, named: list[Judgement], query_rows: Rows, qrels: Qrels, drops: Drops) -> None:
    judged, first = np.unique(query_rows, return_index=True)
    for row, at in zip(judged, first):
        if row >= 0 and not len(qrels.relevant(int(row))):
            drops.add(f"{split} {NOTHING_RELEVANT}", named[at].query_id)
