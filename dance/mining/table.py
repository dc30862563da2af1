"""NegativesTable: the mined negatives of one refresh, as a Trainer reads them.

    NEGATIVES/  documents.keys.npy  documents.offsets.npy  documents.rows.npy  documents.scores.npy
                queries.*.npy (with the dual task alone)
                groups.queries.npy  groups.positives.npy (with batches.how=hard_groups alone)  manifest.json

``documents`` are the negatives of queries (keys are query rows), ``queries`` the negative queries of
documents (keys are document rows, DANCE section 3), ``groups`` the pairs that are close to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import arrays, artefact
from ..corpus.relevance import Relevance

KIND = "negatives"
_Part = TypeVar("_Part", "Drawn", "Groups")


@dataclass(frozen=True, eq=False)
class Drawn:
    """Negatives of ``keys[i]`` lie at ``offsets[i]:offsets[i + 1]``, in random order, each row once."""

    keys: NDArray[np.int64]  # [keys] rows, ascending
    offsets: NDArray[np.int64]  # [keys + 1]
    rows: NDArray[np.int64]  # [negatives]
    scores: NDArray[np.float32]  # [negatives] with the key, by the encoder of the refresh; nan where unknown

    @classmethod
    def gathered(
        cls, keys: NDArray[np.int64], counts: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[np.float32]
    ) -> Drawn:
        """From keys in any order, each once, with the ``counts`` of their negatives one after another."""
        order = np.argsort(keys, kind="stable")
        starts = np.cumsum(counts) - counts  # [keys] where each one's negatives begin
        offsets = np.concatenate([[0], np.cumsum(counts[order])]).astype(np.int64)
        # Negative j of the i-th key in order lies at starts[order[i]] + j.
        take = np.repeat(starts[order] - offsets[:-1], counts[order]) + np.arange(offsets[-1])
        return cls(keys[order], offsets, rows[take], scores[take])

    @classmethod
    def empty(cls) -> Drawn:
        none = np.empty(0, dtype=np.int64)
        return cls(none, np.zeros(1, dtype=np.int64), none, np.empty(0, dtype=np.float32))

    def __len__(self) -> int:
        return len(self.keys)

    def padded(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """All rows of ``keys`` side by side, -1 after the last. [keys, most that one of them has]"""
        most = int(self.counts(keys).max(initial=0))
        return self.take(keys, np.zeros(len(keys), dtype=np.int64), most)

    def owners(self) -> NDArray[np.int64]:
        """Key of every negative. [negatives]"""
        return np.repeat(self.keys, np.diff(self.offsets))

    def counts(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Negatives that each key has; 0 for keys that were not mined."""
        if len(self.keys) == 0:
            return np.zeros(len(keys), dtype=np.int64)
        at = self._at(keys)
        return np.where(self.keys[at] == keys, self.offsets[at + 1] - self.offsets[at], 0)

    def take(self, keys: NDArray[np.int64], turn: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """``count`` negatives per key, moving on with every turn until all were used. [keys, count]

        Keys with fewer than ``count`` get -1 in the places left.
        """
        has = self.counts(keys)  # [keys]
        start = self.offsets[self._at(keys)]
        slot = np.arange(count)[None, :]  # [1, count]
        place = (turn[:, None] * count + slot) % np.maximum(has, 1)[:, None]  # [keys, count]
        rows = np.full(place.shape, -1, dtype=np.int64)
        real = slot < has[:, None]
        rows[real] = self.rows[(start[:, None] + place)[real]]
        return rows

    def of(self, key: int) -> NDArray[np.int64]:
        """Rows of one key; empty where it was not mined."""
        at = int(np.searchsorted(self.keys, key))
        if at == len(self.keys) or self.keys[at] != key:
            return np.empty(0, dtype=np.int64)
        return self.rows[self.offsets[at] : self.offsets[at + 1]]

    def _at(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.keys, keys).clip(max=max(len(self.keys) - 1, 0))


@dataclass(frozen=True, eq=False)
class Groups:
    """Relevant pairs that are close to each other, so that a batch of them opposes like with like."""

    queries: NDArray[np.int64]  # [groups, size] rows, -1 after the last of a group
    positives: NDArray[np.int64]  # [groups, size] document rows, likewise

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def size(self) -> int:
        return self.queries.shape[1]

    def refuse_irrelevant(self, relevance: Relevance, whose: str) -> None:
        """Raises ValueError where a pair is not a query and a positive of it."""
        there = self.queries >= 0  # [groups, size]
        wrong = (~relevance.covers(self.queries[there], self.positives[there])).sum()
        if wrong:
            raise ValueError(
                f"{whose}: {wrong} of the grouped pairs are not judged relevant: they were formed by other "
                "judgements; prepare the text again and start a new run"
            )


@dataclass(frozen=True, eq=False)
class NegativesTable:
    """Both directions of one refresh."""

    step: int  # of the encoder that found them
    documents: Drawn  # of queries
    queries: Drawn | None  # of documents; None without the dual task
    facts: dict[str, Any]
    groups: Groups | None = None  # None where batches are ordinary

    def refuse_positives(self, relevance: Relevance, path: Path | None = None) -> None:
        """For publishing and opening. Raises ValueError where a negative is a positive of its key, a copy of one, or
        the key itself, and where a group holds a pair that is not relevant."""
        wrong = relevance.covers(self.documents.owners(), self.documents.rows).sum()
        if self.queries is not None:
            wrong += relevance.covers(self.queries.rows, self.queries.owners()).sum()
        if wrong:
            raise ValueError(
                f"{path or 'the mined negatives'} of step {self.step}: {wrong} are judged relevant to their key, or "
                "the key itself: they were mined by other judgements; prepare the text again and start a new run"
            )
        if self.groups is not None:
            self.groups.refuse_irrelevant(relevance, f"{path or 'the groups'} of step {self.step}")

    @classmethod
    def open(cls, path: Path) -> NegativesTable:
        """Memory-mapped. Raises artefact.Broken where it is incomplete."""
        manifest = artefact.verify(path)
        assert manifest.step is not None
        there = manifest.files
        return cls(
            manifest.step,
            _load(path, "documents", Drawn),
            _load(path, "queries", Drawn) if "queries.keys.npy" in there else None,
            manifest.facts,
            _load(path, "groups", Groups) if "groups.queries.npy" in there else None,
        )

    def publish(self, path: Path) -> None:
        with artefact.publishing(path, KIND, self.step, self.facts) as folder:
            for name, part in (("documents", self.documents), ("queries", self.queries), ("groups", self.groups)):
                for field in fields(part) if part is not None else ():
                    arrays.save(folder / f"{name}.{field.name}.npy", getattr(part, field.name))


def _load(path: Path, name: str, part: type[_Part]) -> _Part:
    return part(**{field.name: arrays.load(path / f"{name}.{field.name}.npy") for field in fields(part)})
