"""Files of columns: judgements, pairs, scored pairs. No quoting; a header is known by its names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from .lines import read_lines
from .reading import Judgement, Scored

_QUERY_NAMES = {"query-id", "query_id", "queryid", "query", "qid", "topic", "topicid"}
_DOCUMENT_NAMES = {
    "corpus-id", "corpus_id", "corpusid", "doc-id", "doc_id", "docid", "docno", "doc", "did", "pid",
    "document-id", "document_id", "documentid", "document", "passage-id", "passage_id",
}  # fmt: skip
_VALUE_NAMES = {"score", "grade", "relevance", "label", "rel"}
_HIGHEST_GRADE = 1_000_000  # above it is no grade but a slip of columns
JUDGED = ("query id", "document id", "grade")
PAIR = ("query id", "document id")
SCORED = ("query id", "document id", "score")


def judgements(path: Path, trec: bool = False) -> Iterator[Judgement]:
    """Query id, document id, grade, separated by tabs.

    ``trec``: there may be an iteration between the first two, and white space separates where no tab
    does. Raises ValueError with the line where a column is missing or the grade is not a whole number.
    """
    for number, line in read_lines(path):
        fields = _trec(path, number, line) if trec else _tabbed(path, number, line, JUDGED)
        if number > 1 or not _is_header(fields):
            yield Judgement(fields[0], fields[1], _grade(path, number, fields[2]), number)


def pairs(path: Path) -> Iterator[Judgement]:
    """Query id and document id, separated by a tab, as judgements of grade 1. Raises as ``judgements``."""
    for number, line in read_lines(path):
        fields = _tabbed(path, number, line, PAIR)
        if number > 1 or not _is_header(fields):
            yield Judgement(fields[0], fields[1], 1, number)


def scored(path: Path) -> Iterator[Scored]:
    """Query id, document id, score, separated by tabs. Raises as ``judgements``."""
    for number, line in read_lines(path):
        fields = _tabbed(path, number, line, SCORED)
        if number > 1 or not _is_header(fields):
            yield Scored(fields[0], fields[1], _score(path, number, fields[2]), number)


def wrong_columns(path: Path, number: int, line: str, expected: str, count: int) -> ValueError:
    return ValueError(f"{path}:{number}: expected {expected}, found {count}: {line[:80]!r}")


def _tabbed(path: Path, number: int, line: str, names: Sequence[str]) -> list[str]:
    fields = line.split("\t")
    if len(fields) != len(names):
        expected = f"{len(names)} columns ({', '.join(names)}) separated by tabs"
        raise wrong_columns(path, number, line, expected, len(fields))
    return fields


def _trec(path: Path, number: int, line: str) -> list[str]:
    fields = line.split("\t") if "\t" in line else line.split()
    if len(fields) not in (3, 4):
        raise wrong_columns(
            path, number, line, f"3 or 4 columns ({', '.join(JUDGED)}, with or without 0 between the ids)", len(fields)
        )
    return [fields[0], fields[-2], fields[-1]]


def _is_header(fields: Sequence[str]) -> bool:
    """Whether a first line names its columns. Any other word where a number belongs is an error."""
    query, document, *value = (field.strip().lower() for field in fields)
    if value and _number(value[0]) is not None:
        return False
    named = query in _QUERY_NAMES and document in _DOCUMENT_NAMES
    return named or (bool(value) and value[0] in _VALUE_NAMES)


def _grade(path: Path, number: int, field: str) -> int:
    value = _number(field)
    if value is None or not value.is_integer() or abs(value) > _HIGHEST_GRADE:
        header = ", and this is not a header either" if number == 1 else ""
        raise ValueError(
            f"{path}:{number}: grade {field!r} is not a whole number{header}; the columns are {', '.join(JUDGED)}"
        )
    return int(value)


def _score(path: Path, number: int, field: str) -> float:
    value = _number(field)
    if value is None or not math.isfinite(value):
        raise ValueError(f"{path}:{number}: score {field!r} is not a number; the columns are {', '.join(SCORED)}")
    return value


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None
