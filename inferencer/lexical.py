"""BM25 for the ranks: one index file for all of a machine, and no list searched twice by one rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dance.corpus.strings import StringTable
from dance.search import lexical
from dance.search.bm25 import Index
from dance.search.neighbours import Neighbours

from .context import Context


def open_index(context: Context, of: Literal["documents", "queries"]) -> Index:
    """A collective. Preparing has made it; where it is gone, one process of each machine makes it again."""
    collection, split = context.prepared.collection, context.config.data.train_split
    total = len(collection.texts) if of == "documents" else len(context.qrels)
    make = partial(lexical.documents, collection) if of == "documents" else partial(lexical.queries, collection, split)
    context.reporter.begin("index", total, of, message="for BM25")
    if context.world.leads_node:
        make(context.reporter.update)
    context.world.barrier()
    return make()


@dataclass
class Lists:
    """What BM25 finds for a query never changes, so that it is searched for once; kept by its row."""

    index: Index
    _kept: dict[int, tuple[NDArray[np.float32], NDArray[np.int64]]] = field(default_factory=dict)

    def of(self, rows: Sequence[int], texts: StringTable, k: int) -> Neighbours:
        """The k best of each query; ``texts`` has all of them by row. rows: not empty."""
        new = [row for row in rows if row not in self._kept]
        if new:
            found = self.index.search([texts[row] for row in new], k)
            self._kept.update(zip(new, zip(found.scores, found.rows)))
        scores, places = zip(*(self._kept[row] for row in rows))
        return Neighbours(np.stack(scores), np.stack(places))
