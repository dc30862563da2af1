"""BM25: an index that is built once and lies on disk, memory-mapped, and searches in it.

A dense ranking is measured against it, negatives may come from it. Scores are Lucene's, k1 1.2 and
b 0.75. Words are runs of two or more letters and digits, lower-cased, so that the parts of an
identifier count as words; Lucene's short list of English stop words is left out; no stemming.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s
import numpy as np
from numpy.typing import NDArray

from .. import artefact
from .neighbours import Neighbours, best, empty

K1, B = 1.2, 0.75  # Lucene's defaults
KIND = "bm25"
LONGEST = 256  # first words of a query that count: a whole document may ask
_WORD = r"(?u)[^\W_]{2,}"
OnProgress = Callable[[int], None]


@dataclass(frozen=True)
class Index:
    """The words of a list of texts. Results are positions in that list."""

    words: bm25s.BM25 | None  # None: nothing but stop words, no text is ever found
    texts: int

    @classmethod
    def of(cls, texts: Iterable[str]) -> Index:
        """In memory; while it is made, the words of all texts are. Raises ValueError for no texts."""
        words = bm25s.tokenize(texts, stopwords="en", token_pattern=_WORD, show_progress=False)
        if not words.ids:
            raise ValueError("search in an empty corpus: there are no documents")
        if not any(words.ids):
            return cls(None, len(words.ids))
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        index = bm25s.BM25(k1=K1, b=B, method="lucene")
        index.index(words, show_progress=False)
        return cls(index, len(words.ids))

    @classmethod
    def open(cls, path: Path, source: str) -> Index:
        """Memory-mapped. Raises artefact.Broken where it is absent, cut, or was not made of ``source``."""
        facts = artefact.verify(path).facts
        if facts["source"] != source:
            raise artefact.Broken(f"{path} was made of text {facts['source'][:12]}, not {source[:12]}; remove it")
        if not facts["words"]:
            return cls(None, facts["texts"])
        index = bm25s.BM25.load(path, mmap=True)
        # Plain views: slicing an np.memmap, once per word of a query, costs ten times as much.
        index.scores |= {name: np.asarray(index.scores[name]) for name in ("data", "indices", "indptr")}
        return cls(index, facts["texts"])

    def publish(self, path: Path, source: str) -> None:
        """Whole under its name; ``source`` tells what text it was made of."""
        facts = {"source": source, "texts": self.texts, "words": self.words is not None}
        with artefact.publishing(path, KIND, facts=facts) as folder:
            if self.words is not None:
                self.words.save(folder, show_progress=False)

    def search(self, queries: Sequence[str], k: int, on_progress: OnProgress | None = None) -> Neighbours:
        """The k best texts of each query; one that shares no word with it is no result.

        ``on_progress`` is given the number of queries done. Raises ValueError for k of 0.
        """
        if k < 1:
            raise ValueError(f"search for k={k} neighbours: at least 1")
        found = empty(len(queries), k)
        for number, terms in enumerate(_terms(queries)):
            if self.words is not None and terms:
                found.scores[number], found.rows[number] = _top(self.words.get_scores(terms[:LONGEST]), k)
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
