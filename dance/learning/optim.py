"""The optimizer, its groups of parameters, and the learning rate as a pure function of integers."""

from __future__ import annotations

import math

from torch import nn
from torch.optim import AdamW, Optimizer

from ..config import Train
from .depth import depths
from .lamb import Lamb

_NORMS = (nn.LayerNorm, nn.RMSNorm)


def build(model: nn.Module, train: Train) -> Optimizer:
    """One group of decayed and one of other parameters per transformer layer.

    Biases, norms and single numbers are not decayed. Raises ValueError where ``layer_decay`` asks for
    layers that cannot be told apart.
    """
    depth = depths(model, required=train.layer_decay < 1)
    groups: dict[tuple[int, bool], list[nn.Parameter]] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            decayed = parameter.ndim > 1 and not isinstance(module, _NORMS)
            members = groups.setdefault((depth.get(parameter, 0), decayed), [])
            if parameter.requires_grad and not any(parameter is member for member in members):
                members.append(parameter)
    described = [
        {"params": members, "weight_decay": train.weight_decay if decayed else 0.0, "share": train.layer_decay**layers}
        for (layers, decayed), members in sorted(groups.items(), key=lambda item: (item[0][0], not item[0][1]))
        if members
    ]
    if train.optimizer == "lamb":
        return Lamb(described, lr=0.0, bound=train.lamb_bound)
    return AdamW(described, lr=0.0, fused=True)


def learning_rate(step: int, train: Train, adopted: int = 0) -> float:
    """Of the update that leads from ``step`` to ``step + 1``: linear warm-up, times the decay over the run.

    ``adopted`` is the step at which the negatives in use were taken up: warm-up begins there again where
    it is ``per_refresh``. The decay does not: when the next negatives come is not known.
    """
    since = step - adopted if train.warmup == "per_refresh" else step
    warm = (since + 1) / train.warmup_steps if since < train.warmup_steps else 1.0
    return train.learning_rate * warm * _decay(step, train)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """``rate`` for the top; each group takes its share of it."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["share"]


def _decay(step: int, train: Train) -> float:
    """1 to the end of the (first) warm-up, 0 at the end of the run."""
    whole = max(1, train.steps - train.warmup_steps)
    left = min(1.0, (train.steps - step) / whole)
    if train.decay == "linear":
        return left
    return (1 - math.cos(math.pi * left)) / 2 if train.decay == "cosine" else 1.0
