"""BM25, the lexical ranking that a dense one is measured against."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import bm25s
import numpy as np
from numpy.typing import NDArray

from .neighbours import Neighbours, best, empty

K1, B = 1.2, 0.75  # Lucene's defaults
_WORD = r"(?u)[^\W_]{2,}"


def bm25(
    documents: Iterable[str],
    queries: Sequence[str],
    k: int,
    on_progress: Callable[[int], None] | None = None,
) -> Neighbours:
    """The k best documents of each query, as Lucene scores them: k1 1.2, b 0.75.

    Words are runs of two or more letters and digits, lower-cased, so that the parts of an identifier
    count as words; Lucene's short list of English stop words is left out; no stemming. A document
    that shares no word with the query is no result. Raises ValueError for k of 0 and for no
    documents. ``on_progress`` is given the number of queries done.
    """
    if k < 1:
        raise ValueError(f"search for k={k} neighbours: at least 1")
    words = bm25s.tokenize(documents, stopwords="en", token_pattern=_WORD, show_progress=False)
    if not words.ids:
        raise ValueError("search in an empty corpus: there are no documents")
    found = empty(len(queries), k)
    if not any(words.ids):  # nothing but stop words: no index can be made
        return found
    index = bm25s.BM25(k1=K1, b=B, method="lucene")
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    index.index(words, show_progress=False)
    for number, terms in enumerate(_terms(queries)):
        scores = index.get_scores(terms) if terms else np.zeros(0, np.float32)
        found.scores[number], found.rows[number] = _top(scores, k)
        if on_progress is not None:
            on_progress(number + 1)
    return found


def _terms(queries: Sequence[str]) -> list[list[str]]:
    return bm25s.tokenize(list(queries), stopwords="en", token_pattern=_WORD, show_progress=False, return_ids=False)


def _top(scores: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Of one query [N]: the k best by score, then row, so that ties at the last place are settled."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > k:
        least = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
        rows = rows[scores[rows] >= least]
    chosen = best(scores[rows][None], rows[None].astype(np.int64), k)
    return chosen.scores[0], chosen.rows[0]
