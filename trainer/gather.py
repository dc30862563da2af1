"""Vectors of all ranks joined, with gradients that find their way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor


def join(vectors: Tensor) -> Tensor:
    """Equal shapes from every rank, in rank order. [n, …] -> [ranks * n, …]"""
    joined: Tensor = _Join.apply(vectors)
    return joined


def join_rows(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """As ``join``, for row numbers."""
    return _all(torch.from_numpy(rows)).numpy()


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        return _all(vectors)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """The losses of all ranks pull at our vectors, and each rank knows its own pull alone."""
        pull = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(pull)
        return pull.chunk(dist.get_world_size())[dist.get_rank()]


def _all(tensor: Tensor) -> Tensor:
    parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)
