"""An encoder's vectors: of documents, a shard at each rank; of queries, all at every rank.

Which batches a text is encoded in depends on the texts that are asked for alone, never on the number of
ranks or on how the work is cut into ``Part``s, and so does every vector, bit for bit.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dance.encoder import files
from dance.encoder.batching import plan_batches
from dance.encoder.embed import embed, embed_shard
from dance.encoder.model import Encoder
from dance.encoder.precision import resolve
from dance.encoder.store import EmbeddingShard
from dance.search.neighbours import NONE
from dance.world import World

from .context import Context
from .corpus import Corpus, Rows


class Part(NamedTuple):
    """Every ``of``-th batch of a piece of work, from the ``number``-th on."""

    number: int = 0
    of: int = 1

    def share(self, world: World) -> tuple[int, int]:
        """(first batch, distance to the next) of a rank."""
        return self.number * world.size + world.rank, self.of * world.size


WHOLE = Part()


@dataclass(frozen=True, eq=False)
class Queries:
    rows: Rows  # [queries] ascending
    vectors: NDArray[np.float32]  # [queries, width]

    def of(self, rows: Rows) -> NDArray[np.float32]:
        """Vectors [rows, width] of some of them, in any order."""
        return self.vectors if np.array_equal(rows, self.rows) else self.vectors[self.places(rows)]

    def places(self, rows: Rows) -> Rows:
        """Where each of ``rows`` is among them, -1 where it is not."""
        if not len(self.rows):
            return np.full(rows.shape, NONE, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, at, NONE)


def load_encoder(context: Context, step: int) -> Encoder:
    path, device = context.paths.held("encoders", step), context.world.device
    assert path is not None, f"the encoder of step {step} was announced as held"
    return files.load(path, device, resolve(context.config.encode.precision, device))


def make_room(context: Context) -> None:
    """Vectors of earlier encoders are removed from the disk."""
    if context.world.leads_node:
        shutil.rmtree(context.paths.embeddings, ignore_errors=True)
    context.world.barrier()


def encode_corpus(
    context: Context, encoder: Encoder, step: int, name: str, documents: Rows | None = None, part: Part = WHOLE
) -> Corpus:
    """This rank's share of ``documents`` [documents] rows, or of all, on disk under ``name``.

    With a ``part`` the corpus holds the documents of that part. Raises embed.Interrupted.
    """
    prepared, world = context.prepared, context.world
    rows = np.arange(len(prepared.documents))  # one for each chunk
    if documents is not None:
        rows = np.flatnonzero(np.isin(prepared.owners, documents))
    unit = "chunks" if prepared.settings.chunks > 1 else "documents"
    first, distance = part.share(world)
    context.reporter.begin("encode", -(-len(rows) // distance), unit, step=step)
    work = partial(
        embed_shard,
        encoder,
        prepared.documents,
        rows,
        first,
        distance,
        context.paths.embeddings / name,
        context.config.encode.tokens_per_batch,
        context.reporter.update,
        lambda: context.stop.requested,
        step=step,
        owners=prepared.owners,
    )
    shard: EmbeddingShard = context.together(work)
    count = len(prepared.collection.document_ids) if documents is None else len(documents)
    return Corpus(shard, count, prepared.settings.chunks, world)


def encode_queries(context: Context, encoder: Encoder, rows: Rows, part: Part = WHOLE) -> Queries:
    """The same at every rank; ``rows`` in any order, each row is encoded once. Raises embed.Interrupted.

    With a ``part``, those of that part.
    """
    rows, store, world = np.unique(rows), context.prepared.queries, context.world
    first, distance = part.share(world)
    batches = plan_batches(store.lengths[rows], context.config.encode.tokens_per_batch)[first::distance]
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
    shares = zip(world.share_ragged(places), world.share_ragged(share))
    return gathered([Queries(rows[where], vectors) for where, vectors in shares])


def gathered(parts: Sequence[Queries]) -> Queries:
    """All of them, by row."""
    rows = np.sort(np.concatenate([part.rows for part in parts]))
    vectors = np.empty((len(rows), parts[0].vectors.shape[1]), dtype=np.float32)  # [queries, width]
    for part in parts:
        vectors[np.searchsorted(rows, part.rows)] = part.vectors
    return Queries(rows, vectors)
