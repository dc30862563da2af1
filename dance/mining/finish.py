"""From all that was drawn in a refresh to its table: no row serves too many keys, and the order is random."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Config
from . import diagnostics
from .draw import priorities
from .miner import Mined
from .mixing import obtainable
from .table import Drawn

_CEILING, _ORDER = 4, 5  # purposes of the hashes


def finish(
    mined: Mined, config: Config, step: int, former: Drawn | None = None, age: int | None = None
) -> tuple[Drawn, dict[str, Any]]:
    """The negatives of one direction, and what is to be said about them.

    mined: all keys of the refresh, in any order, each once. former: the table before, of this direction, made
    ``age`` steps ago.
    """
    sample = config.negatives.sample
    drawn = Drawn.gathered(mined.keys, mined.counts, mined.rows, mined.scores)
    drawn, hubs = settle(drawn, sample, config.filters.hubs, config.seed, step)
    positives = mined.positives[np.argsort(mined.keys, kind="stable")]
    found = diagnostics.facts(drawn, positives, config.loss.temperature, obtainable(config), former, age)
    return drawn, {**found, **mined.tally.facts(), "dropped_hubs": hubs}


def settle(drawn: Drawn, sample: int, hubs: int | None, seed: int, step: int) -> tuple[Drawn, int]:
    """``sample`` negatives per key in hashed order, and how many were dropped as hubs.

    drawn: of all keys of the refresh, more than ``sample`` each, in the order of preference. No row is left
    with more than ``hubs`` keys: each key asks its first ``sample`` rows, a row that too many ask keeps those
    of smallest hashed priority, and who is refused asks its next row, until none is refused (deferred
    acceptance: the outcome does not depend on who asks first).
    """
    alive = np.ones(len(drawn.rows), dtype=bool)
    owners = drawn.owners()
    active = _first(alive, drawn, sample)
    if hubs is not None:
        priority = priorities(seed, step, owners, drawn.rows, _CEILING)
        while len(refused := _refused(np.flatnonzero(active), drawn.rows, priority, hubs)):
            alive[refused] = False
            active = _first(alive, drawn, sample)
    kept = np.flatnonzero(active)
    order = kept[np.lexsort((priorities(seed, step, owners[kept], drawn.rows[kept], _ORDER), owners[kept]))]
    counts = np.searchsorted(kept, drawn.offsets)  # [keys + 1] kept ones before each key
    return Drawn(drawn.keys, counts.astype(np.int64), drawn.rows[order], drawn.scores[order]), int((~alive).sum())


def _first(alive: NDArray[np.bool_], drawn: Drawn, sample: int) -> NDArray[np.bool_]:
    """The first ``sample`` of each key that are alive. [negatives]"""
    before = np.concatenate([[0], np.cumsum(alive)])  # [negatives + 1]
    rank = before[1:] - np.repeat(before[drawn.offsets[:-1]], np.diff(drawn.offsets))
    return alive & (rank <= sample)


def _refused(
    active: NDArray[np.int64], rows: NDArray[np.int64], priority: NDArray[np.uint64], hubs: int
) -> NDArray[np.int64]:
    """Those of ``active`` that come after the first ``hubs`` of their row, by priority."""
    order = active[np.lexsort((priority[active], rows[active]))]
    ascending = rows[order]
    place = np.arange(len(order)) - np.searchsorted(ascending, ascending)  # within its row
    return order[place >= hubs]
