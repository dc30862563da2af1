"""Queries that stand in the corpus as documents, as ArguAna's arguments do: found first, and no answer to themselves.

Equal ids prove nothing, since many data sets number both sides from 1. Texts do: where at least half of the
documents with the id of a query hold its text, ids are of one kind, and the document of a query's id is its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .qrels import Qrels, Rows
from .relevance import normal
from .strings import StringTable

FILE = "own_documents.npy"
NONE = -1  # of a query without an own document
_ENOUGH = 0.5  # share of the same texts


def own_documents(
    folder: Path, same_ids: Rows, splits: Iterable[Qrels], how: str
) -> tuple[Rows, dict[str, int | bool]]:
    """Row of the document that is skipped for each query, NONE without one; and what was counted. [queries]

    same_ids: [queries] the document with each query's id, NONE without one; ``how``: data.own_document. One that
    is judged relevant to the query of its id is an answer, and is not looked at.
    """
    queries = np.flatnonzero(_unjudged(same_ids, splits))
    own = np.full(len(same_ids), NONE, dtype=np.int64)
    alike = _alike(folder, queries, same_ids[queries])
    skip = how == "skip" or (how == "auto" and 0 < alike >= _ENOUGH * len(queries))
    if skip:
        own[queries] = same_ids[queries]
    return own, {"same_id": len(queries), "same_text": alike, "skipped": skip}


def told(facts: dict[str, int | bool]) -> list[str]:
    """For people; nothing where no query has the id of a document."""
    if not facts["same_id"]:
        return []
    done = "not ranked and never a negative of it" if facts["skipped"] else "as any other"
    return [
        f"data.own_document: {facts['same_id']} queries have the id of a document, {facts['same_text']} its text too; "
        f"it is {done}"
    ]


def _unjudged(same_ids: Rows, splits: Iterable[Qrels]) -> NDArray[np.bool_]:
    unjudged = same_ids != NONE
    for qrels in splits:
        unjudged &= ~qrels.contains(np.arange(len(same_ids)), same_ids)
    return unjudged


def _alike(folder: Path, queries: Rows, documents: Rows) -> int:
    """How many of the queries [pairs] are the text of their document [pairs], its title, or both."""
    asked, titles, texts = (StringTable(folder / name) for name in ("query_texts", "titles", "texts"))
    count = 0
    for query, document in zip(queries.tolist(), documents.tolist()):
        title, text, words = titles[document], texts[document], normal(asked[query])
        count += bool(words) and words in (normal(text), normal(title), normal(f"{title} {text}"))
    return count
