"""Token ids of many texts in one flat file, tokenised once and memory-mapped ever after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from .. import arrays


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a store was made; part of its folder's manifest."""

    tokenizer: str  # fingerprint
    pad_id: int
    separator_id: int  # between the two texts of a pair
    uses_token_types: bool  # type 1 after the first separator
    vocabulary_size: int
    query_max_tokens: int
    document_max_tokens: int  # of a chunk
    chunks: int = 1  # of a document at most
    chunking: str = "titled"
    query_prompt: str = ""
    document_prompt: str = ""
    document_template: str = "pair"


class TokenStore:
    """``row(i)`` is the whole input of text i, special tokens included, no padding."""

    def __init__(self, ids: NDArray[Any], offsets: NDArray[np.int64], settings: TokenSettings, max_tokens: int) -> None:
        self.ids = ids  # uint16 or uint32 [tokens]
        self.offsets = offsets  # [n + 1]
        self.pad_id = settings.pad_id
        self.separator_id = settings.separator_id
        self.uses_token_types = settings.uses_token_types
        self.max_tokens = max_tokens
        self.fingerprint = settings.tokenizer  # of the tokenizer

    @classmethod
    def open(cls, prefix: Path, settings: TokenSettings, max_tokens: int) -> TokenStore:
        # Plain views: slicing an np.memmap costs ten times as much.
        ids, offsets = (np.asarray(arrays.load(path)) for path in (_ids_path(prefix), _offsets_path(prefix)))
        return cls(ids, offsets, settings, max_tokens)

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], settings: TokenSettings, max_tokens: int) -> TokenStore:
        """In memory, for texts that come at run time."""
        lengths = np.array([0, *(len(text) for text in texts)], dtype=np.int64)
        ids = np.array([token for text in texts for token in text], dtype=np.uint32)
        return cls(ids, np.cumsum(lengths), settings, max_tokens)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every row, [n]."""
        return np.diff(self.offsets)

    def row(self, row: int) -> NDArray[Any]:
        assert 0 <= row < len(self), f"row {row} of {len(self)}"
        return self.ids[self.offsets[row] : self.offsets[row + 1]]


def write_tokens(prefix: Path, batches: Iterable[list[list[int]]], vocabulary_size: int) -> NDArray[np.int64]:
    """Write PREFIX.ids.npy and PREFIX.offsets.npy; returns the length of every row."""
    dtype = np.uint16 if vocabulary_size <= 1 << 16 else np.uint32
    ids = arrays.Growing(_ids_path(prefix), dtype)
    lengths: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    for batch in batches:
        ids.append(np.array(row, dtype=dtype) for row in batch)
        lengths.append(np.array([len(row) for row in batch], dtype=np.int64))
    ids.close()
    per_row = np.concatenate(lengths)
    arrays.save(_offsets_path(prefix), np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(per_row)]))
    return per_row


def _ids_path(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.ids.npy")


def _offsets_path(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.offsets.npy")
