"""The optimizer and its learning rate, a pure function of the step."""

from __future__ import annotations

from torch import nn
from torch.optim import AdamW

from ..config import Train


def build(model: nn.Module, train: Train) -> AdamW:
    """AdamW; biases and norms are not decayed."""
    decayed = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    plain = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [
        {"params": decayed, "weight_decay": train.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    return AdamW([group for group in groups if group["params"]], lr=0.0, fused=True)


def learning_rate(step: int, train: Train) -> float:
    """Of the update that leads from ``step`` to ``step + 1``: linear warm-up, then linear decay to 0."""
    if step < train.warmup_steps:
        return train.learning_rate * (step + 1) / train.warmup_steps
    left = train.steps - step
    return train.learning_rate * left / max(1, train.steps - train.warmup_steps)


def set_learning_rate(optimizer: AdamW, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
