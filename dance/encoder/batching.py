"""Batches by token budget: texts of like length together, so that little is spent on padding.

The plan depends on the lengths and the budget alone, never on how many processes share the work:
rank r of n takes ``batches[r::n]``, and every vector comes out the same, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from ..corpus.tokens import TokenStore


Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Padded token ids, ready for the encoder."""

    ids: Tensor  # [batch, tokens] int64
    mask: Tensor  # [batch, tokens] bool
    types: Tensor | None  # [batch, tokens] int64; None where the tokenizer has no segments

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        moved = [
            None if tensor is None else tensor.pin_memory().to(device, non_blocking=True)
            for tensor in (self.ids, self.mask, self.types)
        ]
        assert moved[0] is not None and moved[1] is not None
        return Batch(moved[0], moved[1], moved[2])


def plan_batches(lengths: NDArray[np.int64], tokens_per_batch: int) -> list[Rows]:
    """Positions in ``lengths``, longest texts first, so that memory runs out at once or never.

    A batch holds as many as fit the budget when padded to its longest, and at least one.
    Ties keep their order.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches = []
    start = 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)
        size = max(tokens_per_batch // longest, 1)
        batches.append(order[start : start + size].astype(np.int64))
        start += size
    return batches


def pad(store: TokenStore, rows: Rows) -> Batch:
    """The texts of these rows, padded to the longest of them."""
    texts = [store.row(int(row)) for row in rows]
    lengths = np.array([len(text) for text in texts])  # [batch]
    assert lengths.min(initial=1) > 0, "a text without tokens, not even special ones"
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]  # [batch, tokens]
    ids = np.full(mask.shape, store.pad_id, dtype=np.int64)
    ids[mask] = np.concatenate(texts)
    types = _types(ids, mask, store.separator_id) if store.uses_token_types else None
    return Batch(torch.from_numpy(ids), torch.from_numpy(mask), None if types is None else torch.from_numpy(types))


def _types(ids: NDArray[np.int64], mask: NDArray[np.bool_], separator: int) -> NDArray[np.int64]:
    """Segment 1 begins behind the first separator: ``[CLS] title [SEP]`` is 0, ``text [SEP]`` is 1."""
    separators = ids == separator  # [batch, tokens]
    behind = (np.cumsum(separators, axis=1) - separators) > 0
    return (behind & mask).astype(np.int64)
