"""A trained encoder for whoever has texts and wants vectors: tokenises, encodes, nothing else to know.

encoder = TextEncoder.open("runs/NAME/encoders/step_00000220")
scores = encoder.queries(["how to open a file"]) @ encoder.documents([("title", "text"), ...]).T
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
from .model import Encoder
from .precision import Precision, resolve

_TOKENS_PER_BATCH = 8192


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
        limit = self.encoder.settings.query_max_tokens
        return self._embed(self.encoder.tokenizer.encode_queries(texts, limit), limit)

    def documents(self, documents: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """(title, text) each, the title may be empty: [documents, width]"""
        limit = self.encoder.settings.document_max_tokens
        titles, texts = [title for title, _ in documents], [text for _, text in documents]
        return self._embed(self.encoder.tokenizer.encode_documents(titles, texts, limit), limit)

    def _embed(self, ids: list[list[int]], limit: int) -> NDArray[np.float32]:
        limits = self.encoder.settings
        made = self.encoder.tokenizer.settings(limits.query_max_tokens, limits.document_max_tokens)
        store = TokenStore.of(ids, made, limit)
        return embed(self.encoder, store, np.arange(len(ids)), _TOKENS_PER_BATCH)
