"""A trained encoder for whoever has texts and wants vectors: tokenises, encodes, nothing else to know.

encoder = TextEncoder.open("runs/NAME/encoders/step_00000220")
scores = encoder.queries(["how to open a file"]) @ encoder.documents([("title", "text"), ...]).T

Where a document has several vectors, one per chunk, ``scores`` takes the best of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..corpus.tokens import TokenStore
from . import files
from .embed import embed
from .model import Encoder, Side
from .precision import Precision, resolve

_TOKENS_PER_BATCH = 8192
Documents = Sequence[tuple[str, str]]  # title, which may be empty or of several lines (URL, title), and text


class TextEncoder:
    """Queries and documents to float32 vectors whose inner product is the score."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @classmethod
    def open(cls, folder: str | Path, device: str = "cpu", precision: Precision = "auto") -> TextEncoder:
        """A folder that a run saved. Raises ValueError where it is not whole."""
        place = torch.device(device)
        return cls(files.load(Path(folder), place, resolve(precision, place)))

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """[texts, width]"""
        made = self.encoder.settings
        ids = self.encoder.tokenizer.encode_queries(texts, made.query_max_tokens, made.query_prompt)
        return self._embed(ids, made.query_max_tokens, "query")

    def documents(self, documents: Documents) -> NDArray[np.float32]:
        """[documents, width]. Raises ValueError where documents have several vectors."""
        if self.encoder.settings.chunks > 1:
            raise ValueError(
                f"this encoder gives a document up to {self.encoder.settings.chunks} vectors, one per chunk: take "
                "document_chunks(), or scores() for the best chunk's score"
            )
        return self.document_chunks(documents)[0]

    def document_chunks(self, documents: Documents) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Vectors [chunks, width], and int64 [chunks]: the place of each one's document, ascending."""
        made = self.encoder.settings
        titles, texts = [title for title, _ in documents], [text for _, text in documents]
        chunks = self.encoder.tokenizer.chunk_documents(
            titles, texts, made.document_max_tokens, made.chunks, made.chunking, made.document_prompt,
            made.document_template,
        )  # fmt: skip
        owners = np.repeat(np.arange(len(chunks)), [len(each) for each in chunks])
        flat = [ids for each in chunks for ids in each]
        return self._embed(flat, made.document_max_tokens, "document"), owners

    def scores(self, queries: Sequence[str], documents: Documents) -> NDArray[np.float32]:
        """[queries, documents]: inner products, of the best chunk where a document has several."""
        vectors, owners = self.document_chunks(documents)
        every = self.queries(queries) @ vectors.T  # [queries, chunks]
        first = np.searchsorted(owners, np.arange(len(documents)))  # every document has a chunk
        return np.maximum.reduceat(every, first, axis=1) if len(documents) else every

    def _embed(self, ids: list[list[int]], limit: int, side: Side) -> NDArray[np.float32]:
        own = self.encoder.settings
        made = self.encoder.tokenizer.settings(
            own.query_max_tokens, own.document_max_tokens, template=own.document_template
        )
        store = TokenStore.of(ids, made, limit)
        return embed(self.encoder, store, np.arange(len(ids)), _TOKENS_PER_BATCH, side=side)
