"""Texts to vectors: in evaluation mode, without gradients, written out batch by batch.

Memory does not grow with the corpus: one batch is on the device, one on its way there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from .batching import Rows, pad, plan_batches
from .model import Encoder, Side
from .store import EmbeddingShard, writing

if TYPE_CHECKING:
    from ..corpus.tokens import TokenStore

Place = slice | Rows  # where in the output a batch goes


class Interrupted(Exception):
    """Encoding was asked to end before it was done; nothing of it is kept."""


def embed(
    encoder: Encoder,
    store: TokenStore,
    rows: Rows,
    tokens_per_batch: int,
    on_progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    side: Side = "document",
) -> NDArray[np.float32]:
    """Vectors [len(rows), width] in the order of ``rows``, in memory: for queries, with side="query".

    ``on_progress`` is given the number of texts done. Raises ValueError for a store that this
    encoder cannot read, Interrupted once ``should_stop()``.
    """
    vectors = np.empty((len(rows), encoder.width), dtype=np.float32)
    batches = plan_batches(store.lengths[rows], tokens_per_batch)
    work = ((places, rows[places]) for places in batches)
    _fill(encoder, store, side, vectors, work, on_progress, should_stop)
    return vectors


def embed_shard(
    encoder: Encoder,
    store: TokenStore,
    rows: Rows,
    rank: int,
    size: int,
    folder: Path,
    tokens_per_batch: int,
    on_progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    *,
    step: int | None = None,
    owners: Rows | None = None,
) -> EmbeddingShard:
    """This process's share of the store's ``rows``, streamed to FOLDER/shard_RANK_of_SIZE.

    The shard's rows are those of the documents: ``owners`` [len(store)] says whose chunk a store
    row is; None where each is a document of its own. All processes plan the same batches and take
    every size-th, so that a vector is the same, bit for bit, however many share the work. Raises
    as ``embed``.
    """
    batches = plan_batches(store.lengths[rows], tokens_per_batch)[rank::size]
    mine = [rows[places] for places in batches]
    covered = np.concatenate([np.empty(0, dtype=np.int64), *mine])
    documents = covered if owners is None else owners[covered]
    with writing(folder, rank, size, step, documents, encoder.width) as vectors:
        _fill(encoder, store, "document", vectors, _in_sequence(mine), on_progress, should_stop)
    return EmbeddingShard.open(folder, rank, size, step)


def _in_sequence(batches: list[Rows]) -> Iterator[tuple[Place, Rows]]:
    start = 0
    for rows in batches:
        yield slice(start, start + len(rows)), rows
        start += len(rows)


def _fill(
    encoder: Encoder,
    store: TokenStore,
    side: Side,
    out: NDArray[np.float32],
    work: Iterable[tuple[Place, Rows]],
    on_progress: Callable[[int], None] | None,
    should_stop: Callable[[], bool] | None,
) -> None:
    _check_fit(encoder, store)
    pending: tuple[Place, Rows, torch.Tensor] | None = None
    done = 0
    with encoding(encoder):
        for place, rows in work:
            if should_stop is not None and should_stop():
                raise Interrupted
            batch = pad(store, rows).to(encoder.device)  # while a GPU still computes the one before
            _write(out, pending)
            pending = place, rows, encoder(batch.ids, batch.mask, batch.types, side)
            done += len(rows)
            if on_progress is not None:
                on_progress(done)
        _write(out, pending)


def _write(out: NDArray[np.float32], pending: tuple[Place, Rows, torch.Tensor] | None) -> None:
    if pending is None:
        return
    place, rows, vectors = pending
    values = vectors.cpu().numpy()  # [batch, width]
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"the vector of row {rows[np.argmin(finite)]} is not finite: training diverged; lower "
            "train.learning_rate or set encode.precision=fp32"
        )
    out[place] = values


@contextmanager
def encoding(encoder: Encoder) -> Iterator[None]:
    """Evaluation mode and no gradients inside, the former mode after."""
    training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        encoder.train(training)


def _check_fit(encoder: Encoder, store: TokenStore) -> None:
    """A store of another tokenizer would give vectors of other words."""
    expected = encoder.settings.tokenizer_fingerprint
    if expected != store.fingerprint:
        raise ValueError(
            f"texts were prepared with tokenizer {store.fingerprint}, the encoder has {expected}: run "
            "`dance prepare` for this encoder"
        )
