"""Arithmetic of the encoder: bf16 where the processor multiplies it natively, float32 elsewhere."""

from __future__ import annotations

import logging
from typing import Literal

import torch

Precision = Literal["auto", "bf16", "fp32"]
log = logging.getLogger(__name__)


def resolve(precision: Precision, device: torch.device) -> torch.dtype:
    """The dtype to compute in. An explicit bf16 is obeyed, with a warning where it is emulated."""
    if precision == "fp32":
        return torch.float32
    native = has_bf16(device)
    if precision == "bf16" and not native:
        log.warning("bf16 was asked for, but %s only emulates it: expect it to be slow", device)
    return torch.bfloat16 if native or precision == "bf16" else torch.float32


def has_bf16(device: torch.device) -> bool:
    """Whether the device has bf16 products of its own, and torch uses them."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if not torch.backends.mkldnn.is_available():  # the processor may have them, but torch would emulate them
        return False
    able: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # an older torch cannot say
    return bool(able.get("amx_bf16") or able.get("avx512_bf16") or able.get("bf16"))
