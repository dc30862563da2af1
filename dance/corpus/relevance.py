"""Which documents must never oppose a query, nor it them: its positives, every copy of either text, and itself."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .qrels import Qrels, Rows


@dataclass(frozen=True)
class Relevance:
    """Judgements widened by text: relevant is what shares its text with something judged relevant to the query, or
    to a query of the same words. Beside it stands the document that a query is itself."""

    twins: Rows  # [documents] row of the first document with the same text
    query_twins: Rows | None  # [queries] likewise; None has no copies of queries
    _widened: Qrels  # of first queries and first documents
    _plain: Qrels
    _own: Qrels  # of first queries and first documents

    @classmethod
    def of(
        cls,
        qrels: Qrels,
        twins: Rows,
        copies: bool = True,
        query_twins: Rows | None = None,
        own_documents: Rows | None = None,
    ) -> Relevance:
        """``copies`` false takes the judgements as they are, whatever the texts say.

        own_documents: [queries] the document that each query is itself, -1 without one; None has none.
        """
        first, asking = (twins, query_twins) if copies else (np.arange(len(twins)), None)
        own = np.empty(0, np.int64) if own_documents is None else own_documents
        owning = np.flatnonzero(own >= 0)
        widened, owned = (_firsts(asking, first, *pairs) for pairs in (qrels.pairs(), (owning, own[owning])))
        return cls(first, asking, widened, qrels, owned)

    def covers(self, queries: Rows, documents: Rows) -> NDArray[np.bool_]:
        """Whether each pair is relevant or a copy of it, or ``own``; the two broadcast, row -1 is never covered."""
        asking, first = _first(self.query_twins, queries), _first(self.twins, documents)
        return self._widened.contains(asking, first) | self._own.contains(asking, first)

    def own(self, queries: Rows, documents: Rows) -> NDArray[np.bool_]:
        """Whether each document is the query itself, or a copy of it; otherwise as ``covers``."""
        return self._own.contains(_first(self.query_twins, queries), _first(self.twins, documents))

    def judged(self, queries: Rows, documents: Rows) -> NDArray[np.bool_]:
        """Whether each pair is judged relevant itself; otherwise as ``covers``."""
        return self._plain.contains(queries, documents)

    def distinct(self) -> tuple[Rows, Rows]:
        """(query, document) rows of every relevant pair, copies of either counted once, as the first. [pairs] each"""
        return self._widened.pairs()

    def owned(self) -> tuple[Rows, Rows]:
        """Likewise of every query and the document that it is itself."""
        return self._own.pairs()


def _firsts(query_twins: Rows | None, twins: Rows, queries: Rows, documents: Rows) -> Qrels:
    """Every pair once, as first query and first document."""
    pairs = np.unique(np.stack([_first(query_twins, queries), _first(twins, documents)]), axis=1)  # [2, pairs]
    return Qrels.of(pairs[0], pairs[1], np.ones_like(pairs[0]))


def _first(twins: Rows | None, rows: Rows) -> Rows:
    return rows if twins is None else np.where(rows >= 0, twins[np.maximum(rows, 0)], -1)


def twins(texts: Iterable[str]) -> Rows:
    """Row of the first of these, documents or queries, with the same text by ``normal``. [texts]

    One without text is nobody's copy. Texts are told apart by 64 bits of a hash, which 10
    million documents confuse with a chance of about one in 400,000.
    """
    hashes = np.fromiter((_hash(row, text) for row, text in enumerate(texts)), dtype=np.uint64)
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    return first[group].astype(np.int64)


def normal(text: str) -> str:
    """Letters and digits alone, without case: what is left when layout and punctuation are set aside.

    A text of nothing else, such as a row of symbols, is itself but for white space.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.translate(_WORDS) or "".join(folded.split())


class _Words(dict[int, str | None]):
    """Translation table that drops all but letters, the marks that belong to them, and digits."""

    def __missing__(self, point: int) -> str | None:
        character = chr(point)
        self[point] = character if unicodedata.category(character)[0] in "LMN" else None
        return self[point]


_WORDS = _Words()


def _hash(row: int, text: str) -> int:
    words = normal(text) or f"\0{row}"
    return int.from_bytes(blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
