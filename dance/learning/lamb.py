"""LAMB (You et al. 2020, arXiv 1904.00962, algorithm 2), which the papers train with.

    r = m' / (sqrt(v') + eps) + weight_decay x        m', v': moments of Adam, corrected for their start
    x <- x - lr (|x| / |r|) r                         per tensor; the ratio is 1 where a norm is 0

ANCE's public code differs in three things. It takes |x| for 10 at most: ``bound`` does so, and the papers'
experiments set it, since the word embeddings of BERT and RoBERTa have a norm far over it. It does not correct
the moments: without weight decay, which its scripts leave at 0, the ratio takes the length of r out again, so
that only the share of eps differs, and a tensor whose norm is 0. Its eps is 1e-8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class Lamb(Optimizer):
    """State per parameter: step [], exp_avg and exp_avg_sq of the parameter's shape.

    ``bound``: what |x| counts for at most in the ratio; None has no bound. It is a setting, no part of the state.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        bound: float | None = None,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.bound = bound

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        assert closure is None, "gradients are there already"
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                directions = self._directions(parameters, group)
                torch._foreach_mul_(directions, _ratios(parameters, directions, self.bound))
                torch._foreach_add_(parameters, directions, alpha=-group["lr"])

    def _directions(self, parameters: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """r of every parameter, its moments moved on."""
        beta1, beta2 = group["betas"]
        states = [self._state(p) for p in parameters]
        steps, first, second = ([s[name] for s in states] for name in ("step", "exp_avg", "exp_avg_sq"))
        gradients = [p.grad for p in parameters if p.grad is not None]
        torch._foreach_add_(steps, 1)
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
        sizes = [(v / (1 - beta2**step)).sqrt_().add_(group["eps"]) for v, step in zip(second, steps)]
        directions = [m / (1 - beta1**step) / size for m, step, size in zip(first, steps, sizes)]
        if group["weight_decay"]:
            torch._foreach_add_(directions, parameters, alpha=group["weight_decay"])
        return directions

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter]
        if not state:
            # 1 - beta2^step loses half of its digits in float32.
            state["step"] = torch.zeros((), dtype=torch.float64, device=parameter.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state


def _ratios(parameters: list[Tensor], directions: list[Tensor], bound: float | None) -> list[Tensor]:
    """|x| / |r| of every parameter, |x| at most ``bound``; 1 where either is 0."""
    sizes = [norm.clamp(max=bound) if bound is not None else norm for norm in torch._foreach_norm(parameters)]
    return [torch.where((x > 0) & (r > 0), x / r, 1.0) for x, r in zip(sizes, torch._foreach_norm(directions))]
