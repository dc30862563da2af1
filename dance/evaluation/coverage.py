"""Coverage@k of OpenQA: the share of questions with an answer in one of their first k passages.

An answer is matched as DPR does it: question and passage apart, over text in Unicode normal form D,
either as a run of whole words without case, or as a regular expression. Only the passage's text is
looked at, not its title.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import regex
from numpy.typing import NDArray

from ..corpus.collection import Collection

DEPTH = 100  # first passages that are looked at
CUTS = (20, 100)
NO_ANSWERS = -1  # of a question that the data gives no answer to
# DPR's SimpleTokenizer: runs of letters, digits and marks, or single signs.
_FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
_TOKEN = regex.compile(r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])", flags=_FLAGS)


def first_answers(collection: Collection, queries: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of the first passage that holds an answer, DEPTH where none of the first DEPTH does. [queries]

    queries: [queries] rows, rows: [queries, depth] passages, best first, -1 fillers. NO_ANSWERS
    where the question has none to be found.
    """
    answers = collection.answers
    assert answers is not None
    firsts = np.full(len(queries), NO_ANSWERS, dtype=np.int64)
    for number, query in enumerate(queries.tolist()):
        if wanted := answers.of(query):
            holds = matcher(wanted, answers.regex(query))
            passages = (row for row in rows[number, :DEPTH].tolist() if row >= 0)
            hits = (place for place, row in enumerate(passages) if holds(collection.texts[row]))
            firsts[number] = next(hits, DEPTH)
    return firsts


def coverage(firsts: NDArray[np.int64]) -> dict[str, float]:
    """coverage@20 and coverage@100, over the questions that have answers; {} where none has."""
    asked = firsts[firsts != NO_ANSWERS]
    return {f"coverage@{k}": float((asked < k).mean()) for k in CUTS} if len(asked) else {}


def matcher(answers: Sequence[str], is_regex: bool) -> Callable[[str], bool]:
    """Whether a text holds one of the answers. An answer without a word, or no regular expression, is in none."""
    if is_regex:
        patterns = [pattern for answer in answers if (pattern := _compiled(_normal(answer))) is not None]
        return lambda text: any(pattern.search(_normal(text)) for pattern in patterns)
    # Words hold no white space, so that a run of words is a part of the text joined by blanks.
    runs = [f" {' '.join(words)} " for answer in answers if (words := _words(answer))]
    return lambda text: _holds(f" {' '.join(_words(text))} ", runs)


def _holds(text: str, runs: Sequence[str]) -> bool:
    return any(run in text for run in runs)


def _words(text: str) -> list[str]:
    return [match.group().lower() for match in _TOKEN.finditer(_normal(text))]


def _normal(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def _compiled(pattern: str) -> regex.Pattern[str] | None:
    try:
        return regex.compile(pattern, flags=_FLAGS)
    except regex.error:
        return None
