"""The negatives before these: a part of them is kept (``draw.momentum``), and what moved is reported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dance import paths
from dance.mining.table import Drawn, NegativesTable
from dance.world import World


@dataclass(frozen=True, eq=False)
class Former:
    step: int
    documents: Drawn
    queries: Drawn | None


def former(folder: Path, before: int, world: World) -> Former | None:
    """The newest table of an encoder before ``before``, at every rank; None where there is none.

    It lies on the disk of rank 0, where a resume finds it as the run left it.
    """
    table = _newest(folder, before) if world.leads else None
    told = [-1, 0] if table is None else [table.step, int(table.queries is not None)]
    step, dual = world.from_rank(np.array(told, dtype=np.int64), 0).tolist()
    if step < 0:
        return None
    documents = _shared(None if table is None else table.documents, world)
    return Former(step, documents, _shared(None if table is None else table.queries, world) if dual else None)


def _newest(folder: Path, before: int) -> NegativesTable | None:
    step = max((step for step in paths.steps(folder) if step < before), default=None)
    return None if step is None else NegativesTable.open(folder / paths.step_name(step))


def _shared(drawn: Drawn | None, world: World) -> Drawn:
    here = drawn or Drawn.empty()
    keys, offsets, rows = (world.from_rank(np.array(part), 0) for part in (here.keys, here.offsets, here.rows))
    return Drawn(keys, offsets, rows, world.from_rank(np.array(here.scores), 0))
