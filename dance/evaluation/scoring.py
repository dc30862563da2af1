"""One encoder on one split over the full corpus, in this process: embed, search, rank."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..config import Config
from ..corpus.prepare import Prepared
from ..encoder import files
from ..encoder.embed import embed, embed_shard
from ..encoder.model import Encoder
from ..encoder.precision import resolve
from ..encoder.store import EmbeddingShard
from ..search.flat import search
from ..search.merge import fold
from ..search.neighbours import Neighbours
from ..search.places import Places
from .coverage import first_answers
from .held_out import Evaluation, HeldOut


def open_encoder(config: Config, folder: Path | None) -> Encoder:
    """A saved encoder, or the configured one where ``folder`` is None, on the first GPU if there is one.

    Raises ValueError where a part of it would be random.
    """
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    if folder is None:
        outline = files.check(config.model)
        if config.model.head and not outline.saved:
            raise ValueError(
                f"model.head={config.model.head}: {config.model.path} has no head, a new one would be random; set "
                "model.head=null, or give an encoder that was saved with its head"
            )
        return files.build(config.model, config.seed).to(device)
    return files.load(folder, device, resolve(config.encode.precision, device))


def score(
    encoder: Encoder,
    prepared: Prepared,
    split: str,
    config: Config,
    scratch: Path,
    on_progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Both directions where evaluate.d2q says so, and answers where the data has them.

    ``on_progress`` is given the chunks encoded. Vectors lie under ``scratch`` while it lasts. Raises
    ValueError where the split is absent or empty.
    """
    held_out, d2q = HeldOut.of(prepared.collection, split, config), config.evaluate.d2q
    budget, rows = config.encode.tokens_per_batch, np.arange(len(prepared.documents))
    asked = np.arange(len(prepared.queries)) if d2q else held_out.queries
    queries = embed(encoder, prepared.queries, asked, budget, side="query")  # [asked, width]
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".tmp-embeddings-") as folder:
        shard = embed_shard(
            encoder, prepared.documents, rows, 0, 1, Path(folder), budget, on_progress, owners=prepared.owners
        )
        vectors = queries[held_out.queries] if d2q else queries  # [held-out queries, width]
        depth, chunks = held_out.q2d_depth, prepared.settings.chunks
        found = search(shard.vectors, shard.rows, vectors, depth, encoder.device, per_row=chunks)
        found = held_out.without_own(found)
        back = _queries(held_out, shard, queries, encoder.device) if d2q else None
    firsts = first_answers(prepared.collection, held_out.queries, found.rows) if prepared.collection.answers else None
    return held_out.evaluate(found, back, firsts)


def _queries(
    held_out: HeldOut, shard: EmbeddingShard, queries: NDArray[np.float32], device: torch.device
) -> Neighbours:
    """What the documents find among all queries. queries: [queries, width]; [askers, d2q_depth]"""
    owners, places = Places.of(shard.rows).find(held_out.documents)
    found = search(queries, np.arange(len(queries)), shard.vectors[places], held_out.d2q_depth, device)
    return fold(found, owners, held_out.d2q_depth)[1]
