"""The candidates of a block of keys, by source (METHODS section 3), and what is fetched for them in advance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dance.config import Config
from dance.corpus.qrels import Qrels
from dance.mining.lists import listed, random_rows
from dance.mining.lot import Judged, wanted
from dance.mining.mixing import Source, shares
from dance.mining.table import Drawn
from dance.search.neighbours import NONE, Neighbours

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sources:
    """What needs no search: rows of one direction, as ``mining.miner`` calls them."""

    config: Config
    judged: Judged
    pool: Rows  # [candidates] rows that may be drawn, ascending
    given: Qrels | None  # keys as queries, candidates as documents
    former: Drawn | None

    @property
    def share(self) -> dict[Source, float]:
        return shares(self.config)

    def lists(self, keys: Rows, searched: Mapping[Source, Neighbours], step: int) -> dict[Source, Neighbours]:
        """``searched``, and what the other sources with a share have for these keys."""
        found = dict(searched)
        if "random" in self.share:
            found["random"] = self._random(keys, step)
        if "given" in self.share and self.given is not None:
            found["given"] = listed(self.given.queries, self.given.offsets, self.given.documents, keys)
        if "former" in self.share and self.former is not None:
            found["former"] = listed(self.former.keys, self.former.offsets, self.former.rows, keys)
        return found

    def _random(self, keys: Rows, step: int) -> Neighbours:
        def covers(keys: Rows, places: Rows) -> NDArray[np.bool_]:
            return self.judged.covers(keys, self.pool[places])

        found = random_rows(keys, wanted(self.config), len(self.pool), covers, self.config.seed, step)
        return Neighbours(found.scores, np.where(found.rows == NONE, NONE, self.pool[found.rows]))


def pairs_of(relevant: Qrels, keys: Rows) -> tuple[Rows, Rows]:
    """(place in ``keys``, row) of everything relevant to them, [pairs] each, the first ascending.

    keys: [keys], all of them with something relevant.
    """
    at = np.searchsorted(relevant.queries, keys)
    starts, counts = relevant.offsets[at], np.diff(relevant.offsets)[at]
    place = np.repeat(np.arange(len(keys)), counts)
    within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place, relevant.documents[np.repeat(starts, counts) + within]


def best_of(scores: NDArray[np.float32], place: Rows, keys: int) -> NDArray[np.float32]:
    """The best score of each key's pairs, nan where it has none or one is unknown. scores, place: [pairs]; [keys]"""
    best = np.full(keys, -np.inf, np.float32)
    with np.errstate(invalid="ignore"):  # nan is what it is
        np.maximum.at(best, place, scores)
    return np.where(np.isneginf(best), np.nan, best).astype(np.float32)
