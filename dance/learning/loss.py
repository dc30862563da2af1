"""Losses as pure functions of scores and masks: no model, no configuration, no collective."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  (the name that every reader of PyTorch expects)
from torch import Tensor


def contrastive(scores: Tensor, target: Tensor, allowed: Tensor, temperature: float = 1.0) -> Tensor:
    """-log softmax of each query's positive among its allowed candidates.

    scores: [queries, candidates]; target: [queries] column of the positive; allowed: [queries,
    candidates] bool, true for the positive and what opposes it. With one opponent this is ANCE's
    pairwise loss -log sigmoid(s+ - s-) (ANCE section 3). Returns the loss per query: [queries].
    """
    logits = (scores / temperature).masked_fill(~allowed, -torch.inf)  # [queries, candidates]
    return F.cross_entropy(logits, target, reduction="none")
