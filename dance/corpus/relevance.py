"""Which documents must never oppose a query: its positives, and every copy of their text."""

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
    """Judgements widened by text: relevant is what shares its text with something judged relevant."""

    twins: Rows  # [documents] row of the first document with the same text
    _widened: Qrels  # of first documents
    _plain: Qrels

    @classmethod
    def of(cls, qrels: Qrels, twins: Rows, copies: bool = True) -> Relevance:
        """``copies`` false takes the judgements as they are, whatever the texts say."""
        first = twins if copies else np.arange(len(twins))
        queries, documents = qrels.pairs()
        pairs = np.unique(np.stack([queries, first[documents]]), axis=1)  # [2, pairs]
        return cls(first, Qrels.of(pairs[0], pairs[1], np.ones_like(pairs[0])), qrels)

    def covers(self, queries: Rows, documents: Rows) -> NDArray[np.bool_]:
        """Whether each pair is relevant or a copy of it; the two broadcast, row -1 is never covered."""
        first = np.where(documents >= 0, self.twins[np.maximum(documents, 0)], -1)
        return self._widened.contains(queries, first)

    def judged(self, queries: Rows, documents: Rows) -> NDArray[np.bool_]:
        """Whether each pair is judged relevant itself; otherwise as ``covers``."""
        return self._plain.contains(queries, documents)

    def distinct(self) -> tuple[Rows, Rows]:
        """(query, document) rows of every relevant pair, copies of a document counted once. [pairs] each"""
        return self._widened.pairs()


def twins(texts: Iterable[str]) -> Rows:
    """Row of the first document with the same text by ``normal``. [documents]

    A document without text is nobody's copy. Texts are told apart by 64 bits of a hash, which 10
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
