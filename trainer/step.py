"""One optimizer step: examples to update. No files, no sockets, no clock."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW

from dance.config import Config
from dance.corpus.prepare import Prepared
from dance.corpus.relevance import Relevance
from dance.encoder.batching import Batch, pad
from dance.encoder.model import Encoder
from dance.encoder.precision import resolve
from dance.learning.candidates import candidates, layout
from dance.learning.checkpoint import reseed
from dance.learning.loss import contrastive
from dance.learning.optim import learning_rate, set_learning_rate
from dance.learning.order import Examples
from dance.world import World


@dataclass(frozen=True)
class StepResult:
    loss: float  # mean over this rank's examples
    gradient_norm: float  # before clipping
    masked: int  # documents kept from opposing a query that they are relevant to
    idle: int  # examples left without any opponent, so that their loss is 0


class Pair(nn.Module):
    """Queries and documents through one encoder in one forward call, as DDP needs it."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, queries: Batch, documents: Batch) -> tuple[Tensor, Tensor]:
        """Vectors: [queries, width], [documents, width]."""
        return self._vectors(queries), self._vectors(documents)

    def _vectors(self, batch: Batch) -> Tensor:
        return self.encoder(batch.ids, batch.mask, batch.types)


class Stepper:
    """The model, its optimizer and all that an update reads."""

    def __init__(
        self,
        config: Config,
        world: World,
        prepared: Prepared,
        relevance: Relevance,
        encoder: Encoder,
        optimizer: AdamW,
    ) -> None:
        self.config, self.world, self.prepared, self.relevance = config, world, prepared, relevance
        self.optimizer = optimizer
        self.encoder = encoder
        devices = [world.device.index] if world.device.type == "cuda" else None
        self.model = DistributedDataParallel(Pair(encoder).to(world.device), device_ids=devices)
        self.dtype = resolve(config.train.precision, world.device)

    def update(self, step: int, micro_batches: list[Examples], in_batch: bool) -> StepResult:
        """From ``step`` to ``step + 1``: forward and backward per micro-batch, clip, AdamW."""
        train = self.config.train
        set_learning_rate(self.optimizer, learning_rate(step, train))
        reseed(self.config.seed, step, self.world.rank)
        self.model.train()
        losses, masked, idle = [], 0, 0
        for number, examples in enumerate(micro_batches):
            last = number == len(micro_batches) - 1
            # Gradients travel between ranks once per update, with the last micro-batch.
            with nullcontext() if last else self.model.no_sync():
                per_query, left_out, alone = self._loss(examples, in_batch)
                (per_query.mean() / len(micro_batches)).backward()
            losses.append(per_query.detach().mean())
            masked, idle = masked + left_out, idle + alone
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), train.clip)
        self._refuse_nonfinite(step, norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return StepResult(torch.stack(losses).mean().item(), norm.item(), masked, idle)

    def _loss(self, examples: Examples, in_batch: bool) -> tuple[Tensor, int, int]:
        """Loss per query [batch], documents masked as relevant, examples without an opponent."""
        across = self.config.loss.across_ranks and in_batch
        rows = layout(examples)  # [batch * (1 + k)]
        queries, documents = self._encode(examples.queries, rows)
        if across:
            documents = torch.cat(all_gather(documents))  # [ranks * batch * (1 + k), width]
        joined = self._all_rows(rows) if across else rows
        offset = self.world.rank * len(rows) if across else 0
        found = candidates(examples, joined, offset, self.relevance, in_batch)
        allowed = torch.from_numpy(found.allowed).to(self.world.device)  # [batch, candidates]
        target = torch.from_numpy(found.target).to(self.world.device)  # [batch]
        scores = queries @ documents.T  # [batch, candidates]
        loss = contrastive(scores, target, allowed, self.config.loss.temperature)
        return loss, found.masked, int((found.allowed.sum(axis=1) == 1).sum())

    def _encode(self, queries: NDArray[np.int64], documents: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """float32 vectors: [batch, width], [batch * (1 + k), width]."""
        # A missing negative is encoded as some document, so that all ranks have equal shapes, and masked.
        real = np.where(documents >= 0, documents, documents[0])
        device = self.world.device
        with torch.autocast(device.type, dtype=self.dtype, enabled=self.dtype != torch.float32):
            vectors = self.model(
                pad(self.prepared.queries, queries).to(device), pad(self.prepared.documents, real).to(device)
            )
        return vectors[0].float(), vectors[1].float()

    def _all_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        tensor = torch.from_numpy(rows)
        parts = [torch.empty_like(tensor) for _ in range(self.world.size)]
        dist.all_gather(parts, tensor)
        return torch.cat(parts).numpy()

    def _refuse_nonfinite(self, step: int, norm: Tensor) -> None:
        if not torch.isfinite(norm):
            raise FloatingPointError(
                f"the gradient of step {step} is {norm.item()}: lower train.learning_rate or raise "
                "loss.temperature; the last checkpoint is intact and `resume=true` continues from it"
            )
