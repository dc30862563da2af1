"""NegativesTable: the mined negatives of one refresh, as a Trainer reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import arrays, artefact

KIND = "negatives"


@dataclass(frozen=True)
class NegativesTable:
    """Negatives of query ``queries[i]`` lie at ``offsets[i]:offsets[i + 1]``, in random order."""

    step: int  # of the encoder that found them
    queries: NDArray[np.int64]  # [queries] rows, ascending
    offsets: NDArray[np.int64]  # [queries + 1]
    documents: NDArray[np.int64]  # [negatives] rows
    scores: NDArray[np.float32]  # [negatives] inner product with the query
    facts: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> NegativesTable:
        """Memory-mapped. Raises artefact.Broken where it is incomplete."""
        manifest = artefact.verify(path)
        assert manifest.step is not None
        parts = {name: arrays.load(path / f"{name}.npy") for name in ("queries", "offsets", "documents", "scores")}
        return cls(step=manifest.step, facts=manifest.facts, **parts)

    def publish(self, path: Path) -> None:
        with artefact.publishing(path, KIND, self.step, self.facts) as folder:
            for name in ("queries", "offsets", "documents", "scores"):
                arrays.save(folder / f"{name}.npy", getattr(self, name))

    def counts(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Negatives that each query row has; 0 for queries that were not mined."""
        if len(self.queries) == 0:
            return np.zeros(len(queries), dtype=np.int64)
        at = np.searchsorted(self.queries, queries).clip(max=len(self.queries) - 1)
        found = self.queries[at] == queries
        return np.where(found, self.offsets[at + 1] - self.offsets[at], 0)

    def take(self, queries: NDArray[np.int64], turn: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """``count`` negatives per query, moving on with every turn until all were used. [queries, count]

        Queries with fewer than ``count`` get -1 in the places left.
        """
        has = self.counts(queries)  # [queries]
        start = self.offsets[np.searchsorted(self.queries, queries).clip(max=max(len(self.queries) - 1, 0))]
        slot = np.arange(count)[None, :]  # [1, count]
        place = (turn[:, None] * count + slot) % np.maximum(has, 1)[:, None]  # [queries, count]
        rows = np.full(place.shape, -1, dtype=np.int64)
        real = slot < has[:, None]
        rows[real] = self.documents[(start[:, None] + place)[real]]
        return rows
