"""The files of a collection: kept rows under new numbers, in the order of the source."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import arrays
from . import answers, own
from .drops import Drops
from .extras import Extras
from .limits import Kept
from .qrels import Qrels, Rows
from .relevance import twins
from .strings import StringTable, write_strings
from .teacher import TeacherScores

# White space, and what has no width at all.
_BLANK = re.compile(r"[\s\u200b-\u200f\u2060\ufeff]*")


class Raw(NamedTuple):
    """Everything that the source has, in its order."""

    tables: dict[str, StringTable]  # the ids first
    lines: array[int]
    contents: Rows  # [rows] where the text of each is taken from: itself, or a later row of its id

    @property
    def ids(self) -> StringTable:
        return next(iter(self.tables.values()))


@dataclass(frozen=True)
class Joined:
    """In raw rows."""

    kept: Kept
    splits: Mapping[str, Qrels]  # of the kept queries
    extras: Extras
    same_ids: Rows  # [queries] document with the id of each query, -1 without one
    own_document: str  # data.own_document


class _Renumbered(NamedTuple):
    """New row of every raw row, -1 where it is not kept."""

    queries: Rows
    documents: Rows


def write(folder: Path, joined: Joined, documents: Raw, queries: Raw, noticed: Drops) -> dict[str, Any]:
    """All but the manifest; returns what it says of them. Rows without a word are counted in ``noticed``."""
    extras = joined.extras
    query_rows = np.unique(np.concatenate([*joined.kept.queries.values(), *extras.asked.values()]))
    for part, raw, rows in (("documents", documents, joined.kept.documents), ("queries", queries, query_rows)):
        for name, table in raw.tables.items():
            write_strings(folder / name, (table[row] for row in raw.contents[rows].tolist()))
        _notice_blank(part, [StringTable(folder / name) for name in raw.tables], noticed)
    arrays.save(folder / "twins.npy", twins(StringTable(folder / "texts")))
    arrays.save(folder / "query_twins.npy", twins(StringTable(folder / "query_texts")))
    new = _Renumbered(_renumber(query_rows, len(queries.ids)), _renumber(joined.kept.documents, len(documents.ids)))
    facts: dict[str, Any] = {"documents": len(joined.kept.documents), "queries": len(query_rows)}
    read = {"read": {"documents": len(documents.ids), "queries": len(queries.ids)}}
    splits = {split: _renumbered(qrels, new) for split, qrels in joined.splits.items()}
    same_ids = joined.same_ids[query_rows]
    same_ids = np.where(same_ids >= 0, new.documents[same_ids], own.NONE)
    owned, noted = own.own_documents(folder, same_ids, splits.values(), joined.own_document)
    arrays.save(folder / own.FILE, owned)
    facts |= {"own_documents": noted}
    return facts | read | _write_splits(folder, splits) | _write_extras(folder, joined, query_rows, new)


def _write_splits(folder: Path, splits: Mapping[str, Qrels]) -> dict[str, Any]:
    counts = {}
    for split, kept in splits.items():
        kept.save(folder / f"qrels-{split}")
        judged, _, _ = kept.judged()
        counts[split] = {"queries": len(kept), "relevant": len(kept.documents), "judged": len(judged)}
    return {"splits": counts}


def _write_extras(folder: Path, joined: Joined, query_rows: Rows, new: _Renumbered) -> dict[str, Any]:
    extras = joined.extras
    facts: dict[str, Any] = {"given": {}, "teacher": {}, "asked": {}, "answers": None}
    for split, qrels in extras.given.items():
        given = _renumbered(qrels.subset(joined.kept.queries[split]), new)
        given.save(folder / f"given-{split}")
        facts["given"][split] = len(given.documents)
    for split, scores in extras.teacher.items():
        queries, documents = scores.pairs()
        there = np.isin(queries, joined.kept.queries[split]) & (new.documents[documents] >= 0)
        kept = TeacherScores.of(new.queries[queries[there]], new.documents[documents[there]], scores.scores[there])
        kept.save(folder / f"teacher-{split}")
        facts["teacher"][split] = len(kept)
    for split, rows in extras.asked.items():
        arrays.save(folder / f"asked-{split}.npy", new.queries[rows])
        facts["asked"][split] = len(rows)
    if extras.answers:
        kept_rows = query_rows.tolist()
        answers.save(folder, extras.answers, extras.patterns, kept_rows)
        counts = {"queries": extras.answers, "patterns": extras.patterns}
        facts["answers"] = {kind: sum(row in these for row in kept_rows) for kind, these in counts.items()}
    return facts


def _renumbered(qrels: Qrels, new: _Renumbered) -> Qrels:
    """Of documents that are kept."""
    queries, documents, grades = qrels.judged()
    there = new.documents[documents] >= 0
    return Qrels.of(new.queries[queries][there], new.documents[documents][there], grades[there], qrels.least)


def _renumber(kept: Rows, length: int) -> Rows:
    new = np.full(length, -1, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    return new


def _notice_blank(part: str, tables: list[StringTable], noticed: Drops) -> None:
    ids, *texts = tables
    for row in range(len(ids)):
        if all(_BLANK.fullmatch(text[row]) for text in texts):
            noticed.add(f"{part} without a word", ids[row])
