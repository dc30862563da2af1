"""BM25 on the same corpus and queries, the line that a trained encoder has to pass."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec

from .. import artefact
from ..config import Config
from ..corpus.prepare import Prepared
from ..search import lexical
from .coverage import first_answers
from .held_out import HeldOut
from .metrics import DEPTH

log = logging.getLogger(__name__)


def bm25_metrics(prepared: Prepared, split: str, config: Config | None = None) -> dict[str, float]:
    """Metrics of BM25 on a split over the full corpus; computed once and kept beside the text.

    ``config``: by halves too where it shares out the held-out queries.
    """
    collection, held_out = prepared.collection, HeldOut.plain(prepared.collection, split, DEPTH)
    if config is not None:
        held_out = replace(held_out, halves=HeldOut.of(collection, split, config).halves)
    halves = f"-halves-{config.seed}" if config is not None and held_out.halves is not None else ""
    kept = prepared.path.parent / f"bm25-{split}{halves}.json"
    if kept.is_file():
        return msgspec.json.decode(kept.read_bytes())
    queries = [collection.queries[row] for row in held_out.queries.tolist()]
    found = held_out.without_own(lexical.documents(collection).search(queries, held_out.q2d_depth))
    firsts = first_answers(collection, held_out.queries, found.rows) if collection.answers else None
    metrics = held_out.evaluate(found, None, firsts).metrics
    log.info("BM25 on %s: %s", split, {name: round(value, 4) for name, value in metrics.items()})
    artefact.replace_file(kept, msgspec.json.encode(metrics))
    return metrics
