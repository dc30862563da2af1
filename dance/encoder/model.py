"""The encoder: one or two towers, each a Hugging Face backbone, pooled to one vector per text.

    ids -> backbone -> first token or mean -> [Linear -> LayerNorm] -> [unit length]

Scores are inner products of its vectors, in training, mining and evaluation alike; ``normalize``
is what makes them cosines. What follows the backbone is computed in float32 whatever surrounds it:
it costs nothing, and one rule serves training under autocast and encoding with bf16 weights.

Queries and documents share one tower, or have one each (DPR, ANCE for OpenQA). A document is one
vector, or one per chunk (ANCE MaxP): the encoder sees single inputs and does not tell them apart.
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
Side = Literal["query", "document"]
SIDES: tuple[Side, Side] = ("query", "document")  # in the order of the towers where there are two


class EncoderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What an encoder is besides its weights; kept beside them."""

    pooling: Pooling
    # Width of the Linear -> LayerNorm head; None has no head.
    head: int | None
    # Unit vectors: inner product is cosine.
    normalize: bool
    # Transformer layers.
    layers: int
    # Tokens kept, special ones counted; of a document's chunks each.
    query_max_tokens: int
    document_max_tokens: int
    # Its tokenizer's: ids of another one would be vectors of other words.
    tokenizer_fingerprint: str
    # One tower for both sides, or one each.
    towers: Literal["one", "two"] = "one"
    # Documents pass the head's LayerNorm; DANCE's public code leaves it out.
    document_norm: bool = True
    # Chunks of a document at most; its score is the best of theirs (ANCE MaxP).
    chunks: int = 1
    # Whole inputs with title and special tokens, or the document's ids cut up.
    chunking: Literal["titled", "raw"] = "titled"
    # Put before every text of a side.
    query_prompt: str = ""
    document_prompt: str = ""
    # A document as a pair of texts, or as one sequence.
    document_template: Literal["pair", "joined", "spelt"] = "pair"


class Head(nn.Module):
    """ANCE's projection: Linear -> LayerNorm; without a norm where no text would pass it."""

    def __init__(self, inputs: int, width: int, normed: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, width)
        self.norm = nn.LayerNorm(width) if normed else None

    def forward(self, pooled: Tensor, normed: bool = True) -> Tensor:
        projected = self.linear(pooled)  # [batch, width]
        return self.norm(projected) if normed and self.norm is not None else projected


class Tower(nn.Module):
    """Backbone, pooling and head."""

    def __init__(self, backbone: PreTrainedModel, pooling: Pooling, head: Head | None) -> None:
        super().__init__()
        if getattr(backbone, "pooler", None) is not None:
            # Not ours to use; left in, DDP would wait for its gradients at the second step.
            setattr(backbone, "pooler", None)  # noqa: B010 - the type of a submodule is not Optional
        self.backbone = backbone
        self.pooling = pooling
        self.head = head
        self._takes_types = takes_token_types(backbone)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None, normed: bool) -> Tensor:
        """[batch, width] float32; ``normed`` is whether the head's LayerNorm applies."""
        inputs = {"input_ids": ids, "attention_mask": mask.long()}  # [batch, tokens]
        if types is not None and self._takes_types:
            inputs["token_type_ids"] = types
        states = self.backbone(**inputs).last_hidden_state  # [batch, tokens, hidden]
        with torch.autocast(states.device.type, enabled=False):
            pooled = _pool(states, mask, self.pooling)  # [batch, hidden] float32
            return pooled if self.head is None else self.head(pooled, normed)  # [batch, width]


class Encoder(nn.Module):
    """One vector per text. A text's vector does not depend on its batch, but for rounding."""

    def __init__(self, towers: list[Tower], settings: EncoderSettings, tokenizer: Tokenizer) -> None:
        """``towers``: one for both sides, or those of queries and documents."""
        super().__init__()
        self.towers = nn.ModuleList(towers)
        self.settings = settings
        self.tokenizer = tokenizer

    @property
    def width(self) -> int:
        return self.settings.head or self.backbones()[0].config.hidden_size

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def tower(self, side: Side) -> Tower:
        tower = self.towers[SIDES.index(side) if len(self.towers) > 1 else 0]
        assert isinstance(tower, Tower)
        return tower

    def backbones(self) -> list[PreTrainedModel]:
        """Of one or two towers, queries first."""
        return [tower.backbone for tower in self.towers]  # type: ignore[misc]

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None = None, side: Side = "document") -> Tensor:
        """ids [batch, tokens] int64, mask [batch, tokens] bool (true: a token), types like ids.

        Returns [batch, width] float32. Rows of the mask must not be empty.
        """
        normed = side == "query" or self.settings.document_norm
        vectors = self.tower(side)(ids, mask, types, normed)  # [batch, width] float32
        with torch.autocast(vectors.device.type, enabled=False):
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
