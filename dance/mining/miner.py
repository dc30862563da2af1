"""From candidates to negatives (ANCE section 3: uniform from the top K, relevant ones out).

    lists of candidates, one per source ── ann: neighbours of the keys by the encoder in training
      [keys, k] rows, best first            bm25, given: see Block; random: lists.random_rows
        │                                   lookahead: neighbours of the key's positive
        │                                   former: lists.listed of the table before
        │  mine(block, judged, config, step)            per block of keys, any process
        │    filters: positives, copies, rank, margins
        │    draw: uniform, top, softmax, simans        per source
        │    mix: sources share out negatives.sample    each row once
        ▼
    Mined: flat, in the order of preference, spare ones behind the first ``sample``
        │  blocks and processes joined, tallies added    all keys of the refresh, process 0
        │  finish(mined, config, step)
        │    hubs: no row serves too many keys
        ▼
    Drawn: one direction of the NegativesTable, in hashed order; facts: what the diagnostics say of it

Keys are query rows and candidates document rows, or, for the dual task, keys are document rows and
candidates query rows: nothing here knows which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..config import Config
from ..search.neighbours import NONE, Neighbours, empty
from . import filters
from .diagnostics import Tally, oracle
from .draw import permutation
from .lists import compact, look_up
from .lot import Judged, Lot, wanted
from .mixing import Source, mix, quotas, shares
from .table import Drawn

__all__ = ["COLUMNS", "Block", "Judged", "Mined", "Source", "joined", "mine", "rotation"]


# The arrays of Mined, for collectives.
COLUMNS = {"keys": np.int64, "counts": np.int64, "rows": np.int64, "scores": np.float32, "positives": np.float32}


@dataclass(frozen=True, eq=False)
class Block:
    """Keys that are mined together, and what is known of them.

    ``lists`` holds the candidates of each source, [keys, any] rows, best first, -1 where there are no more;
    its scores are the source's own, nan where it has none. "ann" with a weight of 0 serves for the diagnostics
    alone. ``known`` holds scores by the encoder of candidates that are not among the neighbours, [keys, any] rows
    in any order; a candidate in neither has none.
    ``positives``: score of each key's best-scored positive, nan where unknown; None looks for it among the
    neighbours. ``former``: the table before, of this direction.
    """

    keys: NDArray[np.int64]  # [keys] rows
    lists: Mapping[Source, Neighbours]
    positives: NDArray[np.float32] | None = None  # [keys]
    former: Drawn | None = None
    known: Neighbours | None = None

    def scored(self, nearest: Neighbours) -> Neighbours:
        """All that the encoder has scored, for look-ups."""
        if self.known is None:
            return nearest
        scores = np.concatenate([nearest.scores, self.known.scores], axis=1)
        return Neighbours(scores, np.concatenate([nearest.rows, self.known.rows], axis=1))


@dataclass(frozen=True, eq=False)
class Mined:
    """Negatives of a block of keys, in the order of preference: ``config.negatives.sample`` and spare ones."""

    keys: NDArray[np.int64]  # [keys] rows
    counts: NDArray[np.int64]  # [keys] negatives of each
    rows: NDArray[np.int64]  # [negatives]
    scores: NDArray[np.float32]  # [negatives] by the encoder, nan where unknown
    positives: NDArray[np.float32]  # [keys] score of the best-scored positive, nan where unknown
    tally: Tally = field(default_factory=Tally)


def mine(block: Block, judged: Judged, config: Config, step: int) -> Mined:
    """Filter, draw and mix the sources of a block. What a key gets does not depend on the others in the block.

    Raises ValueError where no list of a source with a share is there.
    """
    nearest = block.lists.get("ann", empty(len(block.keys), 0))
    positives = block.positives if block.positives is not None else _best_positive(block.keys, nearest, judged)
    share = {name: weight for name, weight in shares(config).items() if name in block.lists}
    if not share:
        raise ValueError(
            f"no candidates of {', '.join(shares(config))}: sources.* and draw.* name what was not searched"
        )
    tally = Tally(missing=_missing(nearest, config.depth) if "ann" in block.lists else 0)
    if block.former is not None:
        tally += oracle(block.former, block.keys, nearest.rows)
    chosen: dict[Source, NDArray[np.int64]] = {}
    scored = block.scored(nearest)
    for (source, _), quota in zip(share.items(), quotas(config.negatives.sample, list(share.values()))):
        found = block.lists[source]
        scores = found.scores if source == "ann" else look_up(found.rows, scored)
        lot = Lot(source, block.keys, found, scores, positives)
        chosen[source], counted = lot.draw(judged, config, step, quota)
        tally += counted
    rows = compact(mix(chosen, share, config.negatives.sample), wanted(config))  # [keys, wanted]
    real = rows != NONE
    return Mined(block.keys, real.sum(axis=1), rows[real], look_up(rows, scored)[real], positives, tally)


def joined(blocks: Sequence[Mined]) -> Mined:
    """All blocks as one; what no block was mined for is empty."""
    columns = {
        name: np.concatenate([np.empty(0, kind), *(getattr(block, name) for block in blocks)])
        for name, kind in COLUMNS.items()
    }
    return Mined(**columns, tally=sum((block.tally for block in blocks), Tally()))


def rotation(
    rows: NDArray[np.int64], share: float, turn: int, seed: int, purpose: Sequence[int] = ()
) -> NDArray[np.int64]:
    """The rows of one refresh: slice ``turn`` of a seeded order that visits all in about 1/share turns.

    Ascending. Every row is visited once before any is visited again. Other purposes have other orders.
    """
    parts = max(1, round(1 / share))
    parts = min(parts, len(rows))
    order = permutation(len(rows), seed, turn // parts, *purpose)
    return np.sort(rows[np.array_split(order, parts)[turn % parts]])


def _missing(nearest: Neighbours, depth: int) -> int:
    found = np.minimum((nearest.rows != NONE).sum(axis=1), depth)  # [keys]
    return int((depth - found).sum())


def _best_positive(keys: NDArray[np.int64], nearest: Neighbours, judged: Judged) -> NDArray[np.float32]:
    """[keys], nan where no positive is among the neighbours."""
    positive = filters.positives(keys, nearest.rows, judged.plain)
    best = np.where(positive, nearest.scores, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(best), best, np.nan).astype(np.float32)
