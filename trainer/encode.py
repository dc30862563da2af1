"""Rows of a micro-batch to vectors, both sides through the model in one forward call, as DDP needs it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dance.config import Loss
from dance.corpus.prepare import Prepared
from dance.encoder.batching import Batch, pad
from dance.encoder.model import Encoder, Side
from dance.rules import COLDEST, HOTTEST


class Pair(nn.Module):
    """All that is learnt: the encoder, and the temperature where it is not fixed."""

    def __init__(self, encoder: Encoder, loss: Loss) -> None:
        super().__init__()
        self.encoder = encoder
        self.fixed = loss.temperature
        logarithm = nn.Parameter(torch.tensor(math.log(loss.temperature)))
        self.log_temperature = logarithm if loss.learn_temperature else None

    def forward(self, queries: Batch, documents: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors [queries, width] and [documents, width], temperature []."""
        return self._vectors(queries, "query"), self._vectors(documents, "document"), self.temperature()

    def temperature(self) -> Tensor:
        return torch.tensor(self.fixed) if self.log_temperature is None else self.log_temperature.exp()

    @torch.no_grad()
    def bound(self) -> None:
        """Back between the bounds, where an update left them. A bound in the forward pass would end the learning."""
        if self.log_temperature is not None:
            self.log_temperature.clamp_(math.log(COLDEST), math.log(HOTTEST))

    def _vectors(self, batch: Batch, side: Side) -> Tensor:
        return self.encoder(batch.ids, batch.mask, batch.types, side=side)


@dataclass(frozen=True)
class Vectors:
    """float32; zeros stand where there is no query or no chunk, so that all ranks have equal shapes."""

    queries: Tensor  # [queries, width]
    documents: Tensor  # [documents, chunks, width]
    temperature: Tensor  # []


def encode(
    model: nn.Module,
    prepared: Prepared,
    queries: NDArray[np.int64],
    documents: NDArray[np.int64],
    device: torch.device,
    dtype: torch.dtype,
) -> Vectors:
    """Vectors of query rows and document rows; row -1 is nothing, and only what is there is encoded."""
    chunks = prepared.chunk_rows(documents)  # [documents, chunks]
    with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
        of_queries, of_chunks, temperature = model(
            pad(prepared.queries, queries[queries >= 0]).to(device),
            pad(prepared.documents, chunks[chunks >= 0]).to(device),
        )
    return Vectors(_spread(of_queries, queries >= 0), _spread(of_chunks, chunks >= 0), temperature)


def _spread(vectors: Tensor, there: NDArray[np.bool_]) -> Tensor:
    """Each vector to its place, zeros elsewhere. [there.sum(), width] -> [*there.shape, width]"""
    places = torch.from_numpy(np.flatnonzero(there)).to(vectors.device)
    whole = vectors.new_zeros(there.size, vectors.shape[1], dtype=torch.float32)
    return whole.index_copy(0, places, vectors.float()).unflatten(0, there.shape)
