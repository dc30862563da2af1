"""Query vectors for every rank, encoded by all of them together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dance.corpus.tokens import TokenStore
from dance.encoder.batching import plan_batches
from dance.encoder.embed import Interrupted, embed
from dance.encoder.model import Encoder
from dance.stopping import Stop
from dance.world import World

T = TypeVar("T")


def together(world: World, work: Callable[[], T]) -> T:
    """Each rank does its share; raises Interrupted at all of them if one was asked to stop.

    No rank leaves alone, since the others would wait for it in the next collective.
    """
    done: list[T] = []
    try:
        done.append(work())
    except Interrupted:
        pass
    if world.agree_min([len(done)]) == [0]:
        raise Interrupted
    return done[0]


def embed_everywhere(
    encoder: Encoder,
    store: TokenStore,
    rows: NDArray[np.int64],
    tokens_per_batch: int,
    world: World,
    stop: Stop,
) -> NDArray[np.float32]:
    """Vectors of ``rows`` in their order, the same at every rank: [rows, width].

    The batches do not depend on the number of ranks, hence neither does any vector.
    """
    batches = plan_batches(store.lengths[rows], tokens_per_batch)[world.rank :: world.size]
    places = np.concatenate([np.empty(0, dtype=np.int64), *batches])  # [share]
    work = partial(embed, encoder, store, rows[places], tokens_per_batch, should_stop=lambda: stop.requested)
    share = together(world, work)  # [share, width]
    vectors = np.empty((len(rows), encoder.width), dtype=np.float32)  # [rows, width]
    for where, part in zip(world.share_ragged(places), world.share_ragged(share)):
        vectors[where] = part
    return vectors
