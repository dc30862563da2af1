"""Documents as vectors, spread over the ranks: each holds a shard, all together search and look up.

Every method here is a collective: all ranks call it with the same arguments, in the same order. What
comes out does not depend on how many ranks there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dance.encoder.store import EmbeddingShard
from dance.search.flat import inner_products, search
from dance.search.merge import merge
from dance.search.neighbours import NONE, Neighbours, empty
from dance.search.places import Places
from dance.world import World

Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]
_PAIRS = 1 << 16  # scored together


@dataclass(frozen=True, eq=False)
class Corpus:
    shard: EmbeddingShard  # this rank's
    documents: int  # in all shards
    chunks: int  # vectors that one document owns at most
    world: World
    beside: Corpus | None = None  # other documents, that are looked up and never found

    def search(self, queries: Vectors, k: int, to: int) -> Neighbours | None:
        """The k nearest documents of each query [queries, width] over all shards, at rank ``to``; None elsewhere.

        A corpus of fewer than k documents gives lists that are as short.
        """
        k, rows = min(k, self.documents), self.shard.rows
        found = empty(len(queries), k)  # a corpus of few batches leaves some ranks without any
        if len(rows):
            found = search(self.shard.vectors, rows, queries, k, self.world.device, per_row=self.chunks)
        scores, numbers = self.world.gather(found.scores, to), self.world.gather(found.rows, to)
        return merge([Neighbours(*part) for part in zip(scores, numbers)], k) if self.world.rank == to else None

    def fetch(self, documents: Rows, to: int | None = None) -> tuple[Rows, Vectors]:
        """(which of ``documents``, its vector) of every vector that they own, at rank ``to`` or, None, at all.

        [vectors] ascending and [vectors, width]; the vectors of one document are in any order.
        """
        which, vectors = self.held(documents)
        if to is None:
            parts = self.world.share_ragged(which), self.world.share_ragged(vectors)
        else:
            parts = self.world.gather_ragged(which, to), self.world.gather_ragged(vectors, to)
        if to is not None and self.world.rank != to:
            return which[:0], vectors[:0]
        owners, found = np.concatenate(parts[0]), np.concatenate(parts[1])
        order = np.argsort(owners, kind="stable")
        return owners[order], found[order]

    def held(self, documents: Rows) -> tuple[Rows, Vectors]:
        """As ``fetch``, of what this rank holds alone: no collective."""
        which, places = self._places.find(documents)
        if self.beside is None:
            return which, self.shard.vectors[places]
        others, vectors = self.beside.held(documents)
        return np.concatenate([which, others]), np.concatenate([self.shard.vectors[places], vectors])

    def scores(self, vectors: Vectors, documents: Rows) -> NDArray[np.float32]:
        """Scores [n, any] of vectors [n, width] with documents [n, any] rows, at every rank.

        nan for a document whose vectors are not here, -inf for row -1.
        """
        return _nan_where_unknown(self.world.maximum(self._here(vectors, documents)), documents)

    def pair_scores(self, vectors: Vectors, places: Rows, documents: Rows) -> NDArray[np.float32]:
        """Scores [pairs] of vectors[places[i]] with documents[i], at every rank; otherwise as ``scores``."""
        parts = [slice(start, start + _PAIRS) for start in range(0, len(documents), _PAIRS)]
        scores = [self._here(vectors[places[part]], documents[part, None])[:, 0] for part in parts]
        return _nan_where_unknown(self.world.maximum(np.concatenate([np.empty(0, np.float32), *scores])), documents)

    def _here(self, vectors: Vectors, documents: Rows) -> NDArray[np.float32]:
        """As ``scores``, by the vectors of this rank alone; -inf where it has none of a document."""
        which, at = self._places.find(documents.ravel())
        slot = np.arange(len(which)) - np.searchsorted(which, which)  # of a document's vectors
        places = np.full((documents.size, self.chunks), NONE, dtype=np.int64)
        places[which, slot] = at
        scores = inner_products(
            vectors, self.shard.vectors, places.reshape(len(vectors), documents.shape[1] * self.chunks)
        )
        best = scores.reshape(*documents.shape, self.chunks).max(axis=2)
        return best if self.beside is None else np.maximum(best, self.beside._here(vectors, documents))

    @cached_property
    def _places(self) -> Places:
        return Places.of(self.shard.rows)


def in_memory(parts: Sequence[tuple[Rows, Vectors]], documents: int, chunks: int, world: World) -> Corpus:
    """What this rank kept, (rows [n], vectors [n, width]) each, as a corpus in memory, for look-ups."""
    rows, vectors = (np.concatenate(column) for column in zip(*parts))
    return Corpus(EmbeddingShard(vectors, rows, Path(), None), documents, chunks, world)


def _nan_where_unknown(scores: NDArray[np.float32], documents: Rows) -> NDArray[np.float32]:
    return np.where(np.isneginf(scores) & (documents != NONE), np.float32(np.nan), scores)
