"""A collection's texts become token stores: one row per chunk of a document, one per query."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np

from .. import arrays, artefact
from ..config import Config
from .build import OnProgress
from .collection import Collection
from .fields import Template
from .qrels import Rows
from .tokenizer import Chunking, Tokenizer
from .tokens import TokenSettings, write_tokens

log = logging.getLogger(__name__)
KIND = "tokens"
CHUNK_OFFSETS = "chunk_offsets.npy"  # int64 [documents + 1]
_BATCH = 1024  # texts tokenised together


def token_settings(tokenizer: Tokenizer, config: Config) -> TokenSettings:
    """How a configuration wants its text tokenised."""
    model = config.model
    return tokenizer.settings(
        query_max_tokens=model.query_max_tokens,
        document_max_tokens=model.document_max_tokens,
        chunks=model.chunks,
        how=model.chunking if model.chunks > 1 else "titled",  # one chunk is the same either way
        query_prompt=model.query_prompt,
        document_prompt=model.document_prompt,
        template=model.document_template,
    )


def tokenise(
    collection: Collection,
    tokenizer: Tokenizer,
    made: TokenSettings,
    fingerprint: str,
    path: Path,
    on_progress: OnProgress,
) -> None:
    """Publish both stores and the offsets of the chunks at ``path``."""
    facts: dict[str, Any] = {"fingerprint": fingerprint, "text": artefact.digest(collection.path)}
    facts["settings"] = msgspec.to_builtins(made)
    counts = array("q")  # chunks of each document
    batches = {
        "documents": _document_batches(collection, tokenizer, made, counts, on_progress),
        "queries": _query_batches(collection, tokenizer, made),
    }
    limits = {"documents": made.document_max_tokens, "queries": made.query_max_tokens}
    with artefact.publishing(path, KIND, facts=facts) as folder:
        for name, limit in limits.items():
            facts[name] = _summary(name, limit, write_tokens(folder / name, batches[name], made.vocabulary_size))
        offsets = np.cumsum(np.append(0, np.asarray(counts, dtype=np.int64)))
        arrays.save(folder / CHUNK_OFFSETS, offsets)


def _summary(name: str, limit: int, lengths: Rows) -> dict[str, Any]:
    """Facts of a store, told on the way."""
    full = int((lengths == limit).sum())
    mean = float(lengths.mean()) if len(lengths) else 0.0
    log.info("%s: %d rows, %.0f tokens on average, %d fill %d tokens", name, len(lengths), mean, full, limit)
    return {"rows": len(lengths), "tokens": int(lengths.sum()), "at_limit": full}


def _document_batches(
    collection: Collection, tokenizer: Tokenizer, made: TokenSettings, counts: array[int], on_progress: OnProgress
) -> Iterator[list[list[int]]]:
    """All chunks of all documents in sequence; appends the number of each document's chunks to ``counts``."""
    total = len(collection.texts)
    how, template = cast(Chunking, made.chunking), cast(Template, made.document_template)
    for rows in _batches(total, max(1, _BATCH // made.chunks)):
        titles = [collection.titles[row] for row in rows]
        texts = [collection.texts[row] for row in rows]
        parts = tokenizer.chunk_documents(
            titles, texts, made.document_max_tokens, made.chunks, how, made.document_prompt, template
        )
        counts.extend(map(len, parts))
        yield [chunk for chunks in parts for chunk in chunks]
        on_progress("tokenise documents", rows.stop, total)


def _query_batches(collection: Collection, tokenizer: Tokenizer, made: TokenSettings) -> Iterator[list[list[int]]]:
    for rows in _batches(len(collection.queries), _BATCH):
        texts = [collection.queries[row] for row in rows]
        yield tokenizer.encode_queries(texts, made.query_max_tokens, made.query_prompt)


def _batches(total: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, total)) for start in range(0, total, size))
