"""One encoder on one split over the full corpus, in this process: embed, search, rank."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from ..config import Config, Encode
from ..corpus.prepare import Prepared
from ..encoder import files
from ..encoder.embed import embed, embed_shard
from ..encoder.model import Encoder
from ..encoder.precision import resolve
from ..search.flat import search
from .metrics import DEPTH, Ranking, judgements, measure, ranking


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
    encode: Encode,
    scratch: Path,
    on_progress: Callable[[int], None] | None = None,
) -> tuple[dict[str, float], Ranking]:
    """Metrics and the ranking of DEPTH documents per query that they come from.

    Vectors lie under ``scratch`` while it lasts. Raises ValueError where the split is absent or empty.
    """
    collection, qrels = prepared.collection, prepared.collection.split(split)
    budget, rows = encode.tokens_per_batch, np.arange(len(prepared.documents))
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".tmp-embeddings-") as folder:
        shard = embed_shard(encoder, prepared.documents, rows, 0, 1, Path(folder), budget, on_progress)
        queries = embed(encoder, prepared.queries, qrels.queries, budget)  # [queries, width]
        found = search(shard.vectors, shard.rows, queries, min(DEPTH, len(rows)), encoder.device)
    ranked = ranking(collection, qrels.queries, found)
    return measure(judgements(collection, qrels), ranked), ranked
