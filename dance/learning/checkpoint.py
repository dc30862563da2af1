"""What a resume needs, whole: weights, optimizer, and the loop's few integers.

No random state is stored, because none outlives a step: dropout is seeded anew from (seed, step,
rank) before every update, and the learning rate and the order of the examples are functions of
integers too. Tensors lie in safetensors, never in a pickle.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from .. import artefact

KIND = "checkpoint"
_TENSORS = "state.safetensors"
_MODEL, _OPTIMIZER = "model.", "optimizer."


class LoopState(msgspec.Struct, kw_only=True):
    """Where the Trainer stands between two updates."""

    step: int = 0  # updates done
    cursor: int = 0  # examples taken from the present stream
    negatives_step: int | None = None  # step of the table in use
    adopted: int = 0  # step at which that table was taken up


def save(path: Path, state: LoopState, model: nn.Module, optimizer: Optimizer) -> None:
    """Publish a checkpoint; complete once it is visible."""
    tensors = {_MODEL + name: tensor for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{_OPTIMIZER}{key}.{name}"] = value
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with artefact.publishing(path, KIND, state.step, msgspec.to_builtins(state)) as folder:
        save_file(tensors, folder / _TENSORS)


def load(path: Path, model: nn.Module, optimizer: Optimizer) -> LoopState:
    """Restore model and optimizer in place. Raises artefact.Broken, or ValueError for another model's."""
    facts = artefact.verify(path, contents=True).facts
    tensors = load_file(path / _TENSORS)
    weights = {n.removeprefix(_MODEL): t for n, t in tensors.items() if n.startswith(_MODEL)}
    try:
        model.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the configured model: {error}") from None
    moments = _moments(tensors)
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {key: tensor.to(parameter.device) for key, tensor in moments.get(name, {}).items()}
    return msgspec.convert(facts, LoopState)


def _moments(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The optimizer's tensors by parameter name, then by their own name."""
    moments: dict[str, dict[str, Tensor]] = {}
    for full, tensor in tensors.items():
        if full.startswith(_OPTIMIZER):
            _, key, name = full.split(".", 2)
            moments.setdefault(name, {})[key] = tensor
    return moments


def reseed(seed: int, step: int, rank: int) -> None:
    """Dropout of one update, the same whether the run came straight here or was resumed."""
    mixed = (seed * 1_000_003 + step) * 1_009 + rank
    torch.manual_seed(mixed % (1 << 63))
