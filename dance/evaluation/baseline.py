"""BM25 on the same corpus and queries, the line that a trained encoder has to pass."""

from __future__ import annotations

import logging

import msgspec
import numpy as np

from .. import artefact
from ..corpus.prepare import Prepared
from ..search.bm25 import bm25
from .metrics import DEPTH, judgements, measure, ranking

log = logging.getLogger(__name__)


def bm25_metrics(prepared: Prepared, split: str) -> dict[str, float]:
    """Metrics of BM25 on a split over the full corpus; computed once and kept beside the text."""
    kept = prepared.path.parent / f"bm25-{split}.json"
    if kept.is_file():
        return msgspec.json.decode(kept.read_bytes())
    collection, qrels = prepared.collection, prepared.collection.splits[split]
    documents = (f"{title} {text}" for title, text in zip(collection.titles, collection.texts))
    queries = [collection.queries[row] for row in qrels.queries.tolist()]
    found = bm25(documents, queries, min(DEPTH, len(collection.texts)))
    ranked = ranking(collection, qrels.queries.astype(np.int64), found)
    metrics = measure(judgements(collection, qrels), ranked)
    log.info("BM25 on %s: NDCG@10 %.4f", split, metrics["ndcg@10"])
    artefact.replace_file(kept, msgspec.json.encode(metrics))
    return metrics
