"""What a refresh reports about its negatives: what was dropped, how hard and how false they are, how they move.

Everything that is counted while mining is a whole number of ``Tally``; tallies of blocks and processes add
up, so that the report does not depend on how the work was shared out. The rest is read off the finished
table by ``facts``.

False negatives are estimated twice. ``share_above_positive``: a negative that the encoder scores over
the key's best positive is suspect; the share is of those whose scores are known.
``false_negative_share`` is a second look at judged data: for keys with several positives pretend that one
alone is known, draw again by the same filters and the same draw, and count how many of the drawn are
positives that were hidden. Where judgements are as sparse for all keys as this makes them for these, so
many negatives are false.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .draw import priorities
from .lists import member
from .table import Drawn

# Bounds of the ten bins of score gaps (positive's less negative's), in units of the loss's temperature: at 0
# a negative is as probable as the positive, at 8 a 3000th as much, where its gradient has vanished.
GAPS = (-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0)
_HUBS = 10  # most frequent rows counted together
_SECOND_LOOK = 2  # purpose of its hashes


@dataclass(frozen=True)
class Tally:
    """Whole numbers of one block; blocks and processes add up."""

    missing: int = 0  # candidates that a corpus smaller than top-k could not give
    positives: int = 0  # candidates dropped, by filter
    own: int = 0
    copies: int = 0
    rank: int = 0
    margin: int = 0
    relative_margin: int = 0
    hidden: int = 0  # positives that the second look drew
    looked_at: int = 0  # rows that the second look drew
    held: int = 0  # former negatives among the current candidates
    former: int = 0  # former negatives of these keys

    def __add__(self, other: Tally) -> Tally:
        return Tally.of(self.array() + other.array())

    def array(self) -> NDArray[np.int64]:
        """For collectives. [fields]"""
        return np.array(astuple(self), dtype=np.int64)

    @classmethod
    def of(cls, array: NDArray[np.int64]) -> Tally:
        return cls(*(int(value) for value in array))

    def facts(self) -> dict[str, Any]:
        names = ("positives", "own", "copies", "rank", "margin", "relative_margin")
        return {
            "candidates_missing": self.missing,
            **{f"dropped_{name}": getattr(self, name) for name in names},
            "false_negative_share": _share(self.hidden, self.looked_at),
            "overlap_oracle": _share(self.held, self.former),
        }


@dataclass(frozen=True, eq=False)
class SecondLook:
    """One positive that is taken for known, of every key that has at least two."""

    keys: NDArray[np.int64]  # [keys] ascending
    known: NDArray[np.int64]  # [keys] rows, copies represented by the first of them
    twins: NDArray[np.int64] | None  # [rows] first copy of each; None has no copies

    @classmethod
    def of(
        cls, keys: NDArray[np.int64], rows: NDArray[np.int64], seed: int, twins: NDArray[np.int64] | None = None
    ) -> SecondLook:
        """From all (key, positive) pairs, [pairs] each. The one that is known is a hashed choice."""
        if twins is not None:
            keys, rows = np.unique(np.stack([keys, twins[rows]]), axis=1)
        order = np.lexsort((priorities(seed, 0, keys, rows, _SECOND_LOOK), keys))
        owners, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
        several = counts > 1
        return cls(owners[several], rows[order][first[several]], twins)

    def hidden(
        self, keys: NDArray[np.int64], rows: NDArray[np.int64], positive: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Positives [keys, k] other than the known one and its copies; none of keys with a single positive."""
        there, at = self._find(keys)
        first = rows if self.twins is None else self.twins[np.maximum(rows, 0)]
        return positive & there[:, None] & (first != self.known[at][:, None]) if len(self.keys) else positive & False

    def covers(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each key has at least two positives."""
        return self._find(keys)[0]

    def _find(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        if not len(self.keys):
            return np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return self.keys[at] == keys, at


def oracle(former: Drawn, keys: NDArray[np.int64], rows: NDArray[np.int64]) -> Tally:
    """How many of the former negatives of ``keys`` are among the current best ``rows`` [keys, top-k]."""
    before = former.padded(keys)  # [keys, most]
    inside = member(before, rows) & (before >= 0)
    return Tally(held=int(inside.sum()), former=int((before >= 0).sum()))


def facts(
    drawn: Drawn,
    positives: NDArray[np.float32],
    temperature: float,
    sample: int,
    former: Drawn | None = None,
    age: int | None = None,
) -> dict[str, Any]:
    """What the finished negatives of a refresh show, as plain values.

    positives: [keys of drawn] score of each key's best positive, nan where unknown. ``age``: steps since the
    table that holds ``former``.
    """
    counts = np.diff(drawn.offsets)
    gaps = (np.repeat(positives, counts).astype(np.float64) - drawn.scores) / temperature  # [negatives]
    gaps = gaps[np.isfinite(gaps)]
    served = np.sort(np.unique(drawn.rows, return_counts=True)[1])[::-1]
    return {
        "keys_mined": len(drawn),
        "negatives": len(drawn.rows),
        "keys_without_negatives": int((counts == 0).sum()),
        "short_keys": int((counts < sample).sum()),
        "gaps": np.bincount(np.searchsorted(GAPS, gaps, side="right"), minlength=len(GAPS) + 1).tolist(),
        "share_above_positive": _share(int((gaps < 0).sum()), len(gaps)),
        "overlap_former": None if former is None else overlap(drawn, former),
        "hub_max": int(served[0]) if len(served) else 0,
        "hub_share": _share(int(served[:_HUBS].sum()), len(drawn.rows)),
        "age": age,
    }


def overlap(drawn: Drawn, former: Drawn) -> float | None:
    """Share of the drawn that were drawn before for the same key, over keys in both; None where there are none."""
    rows = drawn.padded(drawn.keys)  # [keys, most]
    both = (rows >= 0) & (former.counts(drawn.keys) > 0)[:, None]
    again = member(rows, former.padded(drawn.keys)) & both
    return _share(int(again.sum()), int(both.sum()))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
