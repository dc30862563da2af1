"""Which documents must never oppose a query: its positives, and every copy of their text."""

from __future__ import annotations

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
    _qrels: Qrels  # of first documents

    @classmethod
    def of(cls, qrels: Qrels, twins: Rows) -> Relevance:
        queries, documents = qrels.pairs()
        pairs = np.unique(np.stack([queries, twins[documents]]), axis=1)  # [2, pairs]
        return cls(twins, Qrels.of(pairs[0], pairs[1], np.ones_like(pairs[0])))

    def covers(self, queries: Rows, documents: Rows) -> NDArray[np.bool_]:
        """Whether each pair is relevant or a copy of it; the two broadcast, row -1 is never covered."""
        first = np.where(documents >= 0, self.twins[np.maximum(documents, 0)], -1)
        return self._qrels.contains(queries, first)


def twins(texts: Iterable[str]) -> Rows:
    """Row of the first document with the same text, case and white space aside. [documents]

    A document without text is nobody's copy. Texts are told apart by 64 bits of a hash, which 10
    million documents confuse with a chance of about one in 400,000.
    """
    hashes = np.fromiter((_hash(row, text) for row, text in enumerate(texts)), dtype=np.uint64)
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    return first[group].astype(np.int64)


def _hash(row: int, text: str) -> int:
    words = " ".join(text.casefold().split()) or f"\0{row}"
    return int.from_bytes(blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
