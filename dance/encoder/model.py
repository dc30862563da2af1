"""The encoder: a Hugging Face backbone, pooled to one vector per text, with an optional head.

    ids -> backbone -> first token or mean -> [Linear -> LayerNorm] -> [unit length]

Scores are inner products of its vectors, in training, mining and evaluation alike; ``normalize``
is what makes them cosines. What follows the backbone is computed in float32 whatever surrounds it:
it costs nothing, and one rule serves training under autocast and encoding with bf16 weights.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Literal

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

if TYPE_CHECKING:
    from ..corpus.tokenizer import Tokenizer

Pooling = Literal["cls", "mean"]


class EncoderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an encoder is besides its weights; kept beside them."""

    pooling: Pooling
    # Width of the Linear -> LayerNorm head; None has no head.
    head: int | None
    # Unit vectors: inner product is cosine.
    normalize: bool
    # Transformer layers.
    layers: int
    # Tokens kept, special ones counted.
    query_max_tokens: int
    document_max_tokens: int
    # Its tokenizer's: ids of another one would be vectors of other words.
    tokenizer_fingerprint: str


class Head(nn.Module):
    """ANCE's projection: Linear -> LayerNorm."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.norm(self.linear(pooled))  # [batch, width]


class Encoder(nn.Module):
    """One vector per text. A text's vector does not depend on its batch, but for rounding."""

    def __init__(self, backbone: PreTrainedModel, settings: EncoderSettings, tokenizer: Tokenizer) -> None:
        super().__init__()
        if getattr(backbone, "pooler", None) is not None:
            # Not ours to use; left in, DDP would wait for its gradients at the second step.
            setattr(backbone, "pooler", None)  # noqa: B010 - the type of a submodule is not Optional
        self.backbone = backbone
        self.settings = settings
        self.tokenizer = tokenizer
        hidden = backbone.config.hidden_size
        self.head = Head(hidden, settings.head) if settings.head else None
        self._takes_types = takes_token_types(backbone)

    @property
    def width(self) -> int:
        return self.settings.head or self.backbone.config.hidden_size

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
        """ids [batch, tokens] int64, mask [batch, tokens] bool (true: a token), types like ids.

        Returns [batch, width] float32. Rows of the mask must not be empty.
        """
        inputs = {"input_ids": ids, "attention_mask": mask.long()}  # [batch, tokens]
        if types is not None and self._takes_types:
            inputs["token_type_ids"] = types
        states = self.backbone(**inputs).last_hidden_state  # [batch, tokens, hidden]
        with torch.autocast(states.device.type, enabled=False):
            vectors = _pool(states, mask, self.settings.pooling)  # [batch, hidden] float32
            if self.head is not None:
                vectors = self.head(vectors)  # [batch, width]
            return functional.normalize(vectors, dim=-1) if self.settings.normalize else vectors


def _pool(states: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    if pooling == "cls":
        return states[:, 0].float()
    weights = mask.unsqueeze(-1)  # [batch, tokens, 1]
    kept = states.float().masked_fill(~weights, 0.0)  # padding is cut out, not multiplied: it may be NaN
    return kept.sum(dim=1) / weights.sum(dim=1)


def takes_token_types(backbone: PreTrainedModel) -> bool:
    """Whether segment ids of 1 mean something to it; RoBERTa's table has a single row."""
    accepted = "token_type_ids" in inspect.signature(backbone.forward).parameters
    return accepted and getattr(backbone.config, "type_vocab_size", 0) > 1
