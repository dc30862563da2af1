"""Global top-k from a corpus that is spread over ranks, without any rank holding all results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dance.encoder.store import EmbeddingShard
from dance.search.flat import search
from dance.search.merge import merge
from dance.search.neighbours import Neighbours, empty
from dance.world import World


def search_everywhere(
    shard: EmbeddingShard, queries: NDArray[np.float32], k: int, block: int, world: World, owners: int
) -> Iterator[tuple[slice, Neighbours]]:
    """(which queries, their top-k over all shards) for the blocks that fall to this rank.

    Every rank searches every block in its own shard; block b is merged at rank b mod ``owners``, so
    that merging and what follows can be shared evenly too. All ranks must run through to the end.
    """
    for number, start in enumerate(range(0, len(queries), block)):
        part = slice(start, min(start + block, len(queries)))
        # A corpus of few batches leaves some ranks without any.
        asked = queries[part]
        found = search(shard.vectors, shard.rows, asked, k, world.device) if len(shard.rows) else empty(len(asked), k)
        owner = number % owners
        scores, rows = world.gather(found.scores, owner), world.gather(found.rows, owner)
        if world.rank == owner:
            yield part, merge([Neighbours(s, r) for s, r in zip(scores, rows)], k)
