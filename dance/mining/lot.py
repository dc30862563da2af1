"""The candidates of one source for a block of keys: what the filters leave, and what is drawn of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..config import Config
from ..corpus.relevance import Relevance
from ..search.neighbours import NONE, Neighbours
from . import filters
from .diagnostics import SecondLook, Tally
from .draw import draw
from .filters import Covers
from .lists import member
from .mixing import Source

_SLICED: tuple[Source, ...] = ("ann", "lookahead")  # found in what a refresh encodes; BM25 has the whole corpus


@dataclass(frozen=True, eq=False)
class Judged:
    """What is relevant to a key, in one direction."""

    covers: Covers  # ``plain`` and ``own``, with filters.copies also the copies of both sides
    plain: Covers  # positives themselves
    own: Covers  # what the key is itself, on the other side
    look: SecondLook | None = None  # for the estimate of false negatives

    @classmethod
    def of_queries(cls, relevance: Relevance, seed: int) -> Judged:
        """Keys are queries."""
        look = SecondLook.of(*relevance.distinct(), seed, relevance.twins)
        return cls(relevance.covers, relevance.judged, relevance.own, look)

    @classmethod
    def of_documents(cls, relevance: Relevance, seed: int) -> Judged:
        """Keys are documents, candidates queries."""
        queries, documents = relevance.distinct()
        return cls(
            lambda keys, rows: relevance.covers(rows, keys),
            lambda keys, rows: relevance.judged(rows, keys),
            lambda keys, rows: relevance.own(rows, keys),
            SecondLook.of(documents, queries, seed, relevance.query_twins),
        )


def wanted(config: Config) -> int:
    """Negatives to draw per key: with a ceiling on hubs twice as many, so that keys do not run short."""
    return config.negatives.sample * (1 if config.filters.hubs is None else 2)


@dataclass(frozen=True, eq=False)
class Lot:
    """``found`` is in the order of its own scores, each row once; ``scores`` are those of the encoder in training."""

    source: Source
    keys: NDArray[np.int64]  # [keys] rows
    found: Neighbours  # [keys, k]
    scores: NDArray[np.float32]  # [keys, k] nan where unknown
    positives: NDArray[np.float32]  # [keys] score of the best-scored positive, nan where unknown

    def draw(self, judged: Judged, config: Config, step: int, quota: int) -> tuple[NDArray[np.int64], Tally]:
        """Rows in the order in which they were drawn, -1 after the last, [keys, wanted].

        ``quota`` is how many of a key's negatives come from here, as far as that is known.
        """
        real, dropped = self.found.rows != NONE, self.dropped(judged, config)
        allowed, counts = filters.apply(real, dropped)
        tally = Tally(**counts)
        if judged.look is not None:
            tally += self._second_look(judged.look, real, dropped, config, step, quota)
        return self._drawn(allowed, config, step), tally

    def dropped(self, judged: Judged, config: Config) -> dict[str, NDArray[np.bool_]]:
        """[keys, k] by the name of the filter."""
        rows, settings = self.found.rows, config.filters
        skip, topk = 0, rows.shape[1]
        if self.source in _SLICED:
            skip, topk = config.skip, config.depth
        elif self.source == "bm25":
            skip, topk = settings.skip, config.negatives.topk
        own = filters.positives(self.keys, rows, judged.own)
        return {
            "positives": filters.positives(self.keys, rows, judged.plain),
            "own": own,
            "copies": filters.positives(self.keys, rows, judged.covers),
            "rank": filters.rank(own, skip, topk),
            "margin": filters.margin(self.scores, self.positives, settings.margin),
            "relative_margin": filters.relative_margin(self.scores, self.positives, settings.relative_margin),
        }

    def _drawn(self, allowed: NDArray[np.bool_], config: Config, step: int) -> NDArray[np.int64]:
        # "top" is the best by the source itself; the other draws are about the scores of the encoder.
        scores = self.found.scores if config.draw.how == "top" else self.scores
        at, counts = draw(
            self.found.rows, allowed, self.keys, wanted(config), config.seed, step, scores, self.positives, config.draw
        )
        rows = np.take_along_axis(self.found.rows, at, axis=1)
        return np.where(np.arange(at.shape[1]) < counts[:, None], rows, NONE)

    def _second_look(
        self,
        look: SecondLook,
        real: NDArray[np.bool_],
        dropped: dict[str, NDArray[np.bool_]],
        config: Config,
        step: int,
        quota: int,
    ) -> Tally:
        """The draw as it would be if one positive of each key alone were known. Margins stay as they are."""
        if not (several := look.covers(self.keys)).any():
            return Tally()
        relevant = (dropped["positives"] | dropped["copies"]) & ~dropped["own"]
        hidden = look.hidden(self.keys, self.found.rows, relevant)
        again = {
            name: dropped[name] & ~hidden if name in ("positives", "copies") else dropped[name] for name in dropped
        }
        drawn = self._drawn(filters.apply(real, again)[0], config, step)[several, :quota]  # [several, quota]
        inside = member(drawn, np.where(hidden, self.found.rows, NONE)[several]) & (drawn != NONE)
        return Tally(hidden=int(inside.sum()), looked_at=int((drawn != NONE).sum()))
