"""An encoder's vectors: of the corpus, a shard at each rank; of queries, all at every rank."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dance.encoder.batching import plan_batches
from dance.encoder.embed import embed, embed_shard
from dance.encoder.model import Encoder
from dance.paths import step_name

from .context import Context
from .corpus import Corpus, Rows


@dataclass(frozen=True, eq=False)
class Queries:
    rows: Rows  # [queries] ascending
    vectors: NDArray[np.float32]  # [queries, width]

    def of(self, rows: Rows) -> NDArray[np.float32]:
        """Vectors [rows, width] of some of them, in any order."""
        return self.vectors if np.array_equal(rows, self.rows) else self.vectors[self.places(rows)]

    def places(self, rows: Rows) -> Rows:
        return np.searchsorted(self.rows, rows)


def encode_corpus(context: Context, encoder: Encoder, step: int) -> Corpus:
    """This rank's share, on disk; vectors of earlier encoders make room first. Raises embed.Interrupted."""
    prepared, world = context.prepared, context.world
    if world.leads_node:
        shutil.rmtree(context.paths.embeddings, ignore_errors=True)
    world.barrier()
    rows = np.arange(len(prepared.documents))  # one for each chunk
    unit = "chunks" if prepared.settings.chunks > 1 else "documents"
    context.reporter.begin("encode", -(-len(rows) // world.size), unit, step=step)
    work = partial(
        embed_shard,
        encoder,
        prepared.documents,
        rows,
        world.rank,
        world.size,
        context.paths.embeddings / step_name(step),
        context.config.encode.tokens_per_batch,
        context.reporter.update,
        lambda: context.stop.requested,
        step=step,
        owners=prepared.owners,
    )
    shard = context.together(work)
    return Corpus(shard, len(prepared.collection.document_ids), prepared.settings.chunks, world)


def encode_queries(context: Context, encoder: Encoder, rows: Rows) -> Queries:
    """The same at every rank; ``rows`` in any order, each row is encoded once. Raises embed.Interrupted.

    The batches do not depend on the number of ranks, hence neither does any vector.
    """
    rows, store, world = np.unique(rows), context.prepared.queries, context.world
    batches = plan_batches(store.lengths[rows], context.config.encode.tokens_per_batch)[world.rank :: world.size]
    places = np.concatenate([np.empty(0, dtype=np.int64), *batches])  # [share]
    context.reporter.begin("encode", len(places), "queries")
    work = partial(
        embed,
        encoder,
        store,
        rows[places],
        context.config.encode.tokens_per_batch,
        context.reporter.update,
        lambda: context.stop.requested,
        side="query",
    )
    share = context.together(work)  # [share, width]
    vectors = np.empty((len(rows), encoder.width), dtype=np.float32)  # [queries, width]
    for where, part in zip(world.share_ragged(places), world.share_ragged(share)):
        vectors[where] = part
    return Queries(rows, vectors)
