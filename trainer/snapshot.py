"""The weights of one step, apart from those in training, so that they can be written while training goes on."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from dance.encoder.model import Encoder


class Snapshot:
    """An encoder in main memory, allocated once and overwritten by every ``take``."""

    def __init__(self) -> None:
        self._shadow: Encoder | None = None

    @torch.no_grad()
    def take(self, encoder: Encoder) -> Encoder:
        """A copy as of now; the copy before it is gone. Between two updates only: nobody may read or write either."""
        if self._shadow is None:
            self._shadow = _shadow(encoder)
        for held, current in zip(_tensors(self._shadow), _tensors(encoder), strict=True):
            held.copy_(current)
        return self._shadow


def _shadow(encoder: Encoder) -> Encoder:
    """The same modules with tensors of their own; the tokenizer, which nobody changes, is shared."""
    memo: dict[int, object] = {id(tensor): _place(tensor) for tensor in _tensors(encoder)}
    return copy.deepcopy(encoder, memo | {id(encoder.tokenizer): encoder.tokenizer})


def _place(tensor: Tensor) -> Tensor:
    """Page-locked where it is copied from a GPU, which is then several times as fast."""
    empty = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda, requires_grad=False)
    return nn.Parameter(empty, requires_grad=False) if isinstance(tensor, nn.Parameter) else empty


def _tensors(encoder: Encoder) -> Iterator[Tensor]:
    yield from encoder.parameters()
    yield from encoder.buffers()
