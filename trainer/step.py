"""One optimizer step: examples to update. No files, no sockets, no clock."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from dance.config import Config
from dance.encoder.model import Encoder
from dance.learning.checkpoint import reseed
from dance.learning.optim import set_learning_rate
from dance.learning.order import Examples
from dance.world import World

from .encode import Pair
from .objective import Measured, Objective

# Of this rank's examples in one update; which there are depends on the settings alone.
#   loss            what is minimised; its terms loss_q2d, loss_d2q, alignment, uniformity, loss_distill
#   gradient_norm   before clipping
#   masked          candidates kept from opposing a query, or a document (_d2q), that they are relevant to
#   idle            examples left without any opponent, so that their loss is 0
#   untaught        examples that the teacher says nothing about
#   temperature     where it is learnt, before the update
Numbers = dict[str, float]


class Stepper:
    """The model, its optimizer and all that an update reads."""

    def __init__(self, config: Config, world: World, pair: Pair, optimizer: Optimizer, objective: Objective) -> None:
        self.config, self.world, self.objective = config, world, objective
        self.pair, self.optimizer = pair, optimizer
        devices = [world.device.index] if world.device.type == "cuda" else None
        self.model = DistributedDataParallel(pair, device_ids=devices)

    @property
    def encoder(self) -> Encoder:
        return self.pair.encoder

    def update(self, step: int, rate: float, micro_batches: list[Examples], in_batch: bool) -> Numbers:
        """From ``step`` to ``step + 1`` at learning rate ``rate``: forward and backward per micro-batch, clip, step."""
        set_learning_rate(self.optimizer, rate)
        reseed(self.config.seed, step, self.world.rank)
        self.model.train()
        measured = []
        for number, examples in enumerate(micro_batches):
            last = number == len(micro_batches) - 1
            # Gradients travel between ranks once per update, with the last micro-batch.
            with nullcontext() if last else self.model.no_sync():
                found = self.objective.measure(self.model, examples, in_batch, step)
                (found.loss / len(micro_batches)).backward()
            measured.append(found)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.train.clip)
        self._refuse_nonfinite(step, norm)
        self.optimizer.step()
        self.pair.bound()
        self.optimizer.zero_grad(set_to_none=True)
        return _numbers(measured, norm)

    def _refuse_nonfinite(self, step: int, norm: Tensor) -> None:
        if not torch.isfinite(norm):
            raise FloatingPointError(
                f"the gradient of step {step} is {norm.item()}: lower train.learning_rate or raise "
                "loss.temperature; the last checkpoint is intact and `resume=true` continues from it"
            )


def _numbers(measured: list[Measured], norm: Tensor) -> Numbers:
    """Read off the device at once: every single look would wait for it."""
    names = list(measured[0].means)
    rows = [torch.stack([found.loss, *found.means.values()]).detach() for found in measured]
    loss, *means, length = torch.cat([torch.stack(rows).mean(dim=0), norm[None]]).tolist()
    counts = {name: float(sum(found.counts[name] for found in measured)) for name in measured[0].counts}
    return {"loss": loss, **dict(zip(names, means)), "gradient_norm": length, **counts}
