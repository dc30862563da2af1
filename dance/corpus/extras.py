"""What data may bring beside judgements: negatives, a teacher's scores, answers. By name to by row.

Pairs are read in blocks, so that files of hundreds of millions of lines (MS MARCO's triples) pass through
memory a block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from .drops import Drops
from .ids import IdIndex
from .joining import UNKNOWN_QUERY, drop_unknown
from .qrels import Qrels, Rows, pair_keys, pairs_of
from .reading import Judgement, Scored, Source
from .teacher import TeacherScores

MOST_GIVEN = 100  # negatives of one query that are kept, the first ones: as deep as the papers' BM25 lists
_BLOCK = 1 << 20  # pairs in memory at a time
Item = TypeVar("Item", Judgement, Scored)


@dataclass(frozen=True)
class Extras:
    """In the rows of the two indexes."""

    given: Mapping[str, Qrels]
    teacher: Mapping[str, TeacherScores]
    answers: Mapping[int, tuple[str, ...]]  # by query row
    patterns: frozenset[int]  # query rows whose answers are regular expressions
    asked: Mapping[str, Rows]  # queries of splits that have answers and no judgements


class Names(NamedTuple):
    queries: IdIndex
    documents: IdIndex


def join_extras(source: Source, names: Names, splits: Mapping[str, Qrels], drops: Drops) -> Extras:
    """Raises ValueError where a pair has two scores, a query two sets of answers, or a split no judgements."""
    given, teacher = source.given(), source.teacher()
    for split, part in [*((s, f"negatives/{s}") for s in given), *((s, f"teacher/{s}") for s in teacher)]:
        if split not in splits:
            raise ValueError(f"{source.place(part, 0)}: no judgements of split {split!r} ({source.place(split, 0)})")
    answers, patterns, asked = _answers(source, names, splits, drops)
    return Extras(
        given={split: _given(source, split, pairs, names, splits[split], drops) for split, pairs in given.items()},
        teacher={split: _teacher(source, split, pairs, names, drops) for split, pairs in teacher.items()},
        answers=answers,
        patterns=patterns,
        asked=asked,
    )


def _given(source: Source, split: str, pairs: Iterator[Judgement], names: Names, qrels: Qrels, drops: Drops) -> Qrels:
    """Negatives of queries that have something relevant, each pair once, none of them relevant."""
    kept = [np.empty(0, dtype=np.int64)]
    for keys, _ in _blocks(source, f"negatives/{split}", "negatives", _first_ones(split, pairs, drops), names, drops):
        queries, documents = pairs_of(keys)
        answerable, relevant = np.isin(queries, qrels.queries), qrels.contains(queries, documents)
        _count(drops, f"{split} negatives of a query without a relevant document", ~answerable)
        _count(drops, f"{split} negatives that are judged relevant", relevant)
        kept.append(keys[answerable & ~relevant])
    queries, documents = pairs_of(np.unique(np.concatenate(kept)))
    return Qrels.of(queries, documents, np.ones_like(queries))


def _first_ones(split: str, pairs: Iterator[Judgement], drops: Drops) -> Iterator[Judgement]:
    """Before anything is looked up, which takes most of the time of a long list."""
    said: dict[str, int] = {}
    more = 0
    for pair in pairs:
        before = said.get(pair.query_id, 0)
        if before < MOST_GIVEN:
            said[pair.query_id] = before + 1
            yield pair
        else:
            more += 1
    if more:
        drops.add(f"{split} negatives beyond the first {MOST_GIVEN} of their query", f"{more} pairs", more)


def _teacher(source: Source, split: str, pairs: Iterator[Scored], names: Names, drops: Drops) -> TeacherScores:
    keys, scores = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.float32)]
    for block, items in _blocks(source, f"teacher/{split}", "teacher's scores", pairs, names, drops):
        keys.append(block)
        scores.append(np.array([item.score for item in items], dtype=np.float32))
    all_keys, all_scores = np.concatenate(keys), np.concatenate(scores)
    unique, first, which = np.unique(all_keys, return_index=True, return_inverse=True)
    differing = np.flatnonzero(all_scores != all_scores[first][which])
    if len(differing):
        query, document = (int(rows[0]) for rows in pairs_of(all_keys[differing[:1]]))
        raise ValueError(
            f"{source.place(f'teacher/{split}', 0)}: query {names.queries.ids[query]!r} and document "
            f"{names.documents.ids[document]!r} have two scores; keep one of them"
        )
    if len(all_keys) > len(unique):
        drops.add(f"{split} teacher's scores said twice", "the same score", len(all_keys) - len(unique))
    return TeacherScores(unique, all_scores[first])


def _answers(
    source: Source, names: Names, splits: Mapping[str, Qrels], drops: Drops
) -> tuple[dict[int, tuple[str, ...]], frozenset[int], dict[str, Rows]]:
    """(answers by query row, rows of which they are regular expressions, query rows by split without judgements)"""
    answers: dict[int, tuple[str, ...]] = {}
    kinds: dict[int, bool] = {}
    asked: dict[str, list[int]] = {}
    for item in source.answers():
        (row,) = names.queries.rows([item.query_id]).tolist()
        if row < 0:
            drops.add(f"answers {UNKNOWN_QUERY}", f"{item.query_id!r} ({source.place('answers', item.line)})")
            continue
        if answers.setdefault(row, item.answers) != item.answers or kinds.setdefault(row, item.regex) != item.regex:
            raise ValueError(
                f"{source.place('answers', item.line)}: query {item.query_id!r} came before with other answers; "
                "keep one of them"
            )
        if item.split is not None and item.split not in splits:
            asked.setdefault(item.split, []).append(row)
    patterns = frozenset(row for row, regex in kinds.items() if regex)
    return answers, patterns, {split: np.unique(rows) for split, rows in asked.items()}


def _blocks(
    source: Source, part: str, kind: str, pairs: Iterator[Item], names: Names, drops: Drops
) -> Iterator[tuple[Rows, list[Item]]]:
    """(keys of known pairs, the pairs themselves), in their order; the unknown ones are counted."""
    while block := list(islice(pairs, _BLOCK)):
        queries = names.queries.rows([item.query_id for item in block])
        documents = names.documents.rows([item.document_id for item in block])
        known = (queries >= 0) & (documents >= 0)
        for at in np.flatnonzero(~known):
            drop_unknown(source, part, kind, block[at], bool(queries[at] >= 0), drops)
        rows = np.flatnonzero(known)
        yield pair_keys(queries[rows], documents[rows]), [block[at] for at in rows]


def _count(drops: Drops, reason: str, which: np.ndarray) -> None:
    if which.any():
        drops.add(reason, f"{int(which.sum())} pairs", int(which.sum()))
