"""The ranks' mined negatives become one at rank 0. Small: the drawn ones, not the neighbours."""

from __future__ import annotations

import numpy as np

from dance.mining.diagnostics import Tally
from dance.mining.miner import COLUMNS, Mined, joined
from dance.world import World


def collect(mined: list[Mined], world: World) -> Mined | None:
    """All blocks of all ranks at rank 0, in any order; None elsewhere."""
    here = joined(mined)
    columns = {name: world.gather_ragged(getattr(here, name), 0) for name in COLUMNS}
    tallies = world.gather(here.tally.array(), 0)
    if not world.leads:
        return None
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    return Mined(**whole, tally=Tally.of(np.sum(tallies, axis=0)))
