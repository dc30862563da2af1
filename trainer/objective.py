"""The loss of one micro-batch: candidates and weights chosen by the settings, one definition for every method.

With ``loss.across_ranks`` what opposes is gathered from all ranks, and gradients flow back through the
gathering. A rank's loss is over its own examples, but the uniformity, which is of all gathered vectors:
the mean over ranks that DDP takes is then the loss of the joined batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dance.config import Config
from dance.corpus.prepare import Prepared
from dance.corpus.relevance import Relevance
from dance.encoder.precision import resolve
from dance.learning import loss as losses
from dance.learning.candidates import Candidates, Covers, candidates, layout
from dance.learning.order import Examples, Rows
from dance.learning.weights import weights
from dance.world import World

from .encode import Vectors, encode
from .gather import join, join_rows


@dataclass(frozen=True)
class Pool:
    """What a micro-batch may be contrasted with: of this rank, or of all ranks joined."""

    query_rows: Rows  # [queries]
    document_rows: Rows  # [documents]
    queries: Tensor  # [queries, width]
    documents: Tensor  # [documents, chunks, width]
    rank: int  # whose part of the pool is ours


@dataclass(frozen=True)
class Measured:
    """``means`` are averaged over micro-batches, ``counts`` added; their keys depend on the settings alone."""

    loss: Tensor  # []
    means: dict[str, Tensor]  # []
    counts: dict[str, int]


class Objective:
    """Examples to loss. Whatever is weighted 0 but cheap is measured all the same."""

    def __init__(self, config: Config, world: World, prepared: Prepared, relevance: Relevance) -> None:
        self.config, self.world, self.prepared, self.relevance = config, world, prepared, relevance
        self.dtype = resolve(config.train.precision, world.device)

    def measure(self, model: nn.Module, examples: Examples, in_batch: bool, step: int) -> Measured:
        """``in_batch`` may be true without ``loss.in_batch``: while there are no negatives yet."""
        queries = layout(examples.queries, examples.query_negatives)  # [batch * (1 + queries per example)]
        documents = layout(examples.positives, examples.negatives)  # [batch * (1 + negatives per example)]
        mine = encode(model, self.prepared, queries, documents, self.world.device, self.dtype)
        pool = self._pool(queries, documents, mine, self.config.loss.across_ranks and in_batch)
        means, counts = self._documents(examples, mine, pool, in_batch)
        if self.config.loss.dual_weight:
            means["loss_d2q"], more = self._queries(examples, mine, pool, in_batch)
            counts |= more
        means |= self._geometry(examples, mine, pool)
        if self.config.loss.learn_temperature:
            means["temperature"] = mine.temperature
        weighted = [weight * means[name] for name, weight in weights(self.config.loss, step).items() if weight]
        return Measured(torch.stack(weighted).sum(), means, counts)

    def _pool(self, queries: Rows, documents: Rows, mine: Vectors, across: bool) -> Pool:
        if not across:
            return Pool(queries, documents, mine.queries, mine.documents, 0)
        return Pool(join_rows(queries), join_rows(documents), join(mine.queries), join(mine.documents), self.world.rank)

    def _documents(
        self, examples: Examples, mine: Vectors, pool: Pool, in_batch: bool
    ) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Document retrieval: for a query its positive, its negatives, and the documents of the batch."""
        batch = len(examples.queries)
        scores = losses.best_chunk(mine.queries[:batch], pool.documents, self._there(pool.document_rows))
        scores = scores / mine.temperature  # [batch, documents]
        found = self._candidates(
            examples.queries, examples.negatives, pool.document_rows, pool, self.relevance.covers, in_batch
        )
        target, allowed = self._tensor(found.target), self._tensor(found.allowed)
        means = {"loss_q2d": losses.contrastive(scores, target, allowed).mean()}
        counts = {"masked": found.masked, "idle": found.idle}
        if self.config.loss.distill != "none":
            means["loss_distill"], counts["untaught"] = self._distill(examples, pool, scores, found)
        return means, counts

    def _queries(self, examples: Examples, mine: Vectors, pool: Pool, in_batch: bool) -> tuple[Tensor, dict[str, int]]:
        """Query retrieval (DANCE section 3): for a document its query, its negative queries, those of the batch."""
        batch = len(examples.queries)
        there = self._there(examples.positives)
        scores = losses.best_chunk(pool.queries, mine.documents[:batch], there).T  # [batch, queries]
        found = self._candidates(
            examples.positives, examples.query_negatives, pool.query_rows, pool,
            lambda keys, rows: self.relevance.covers(rows, keys), in_batch,
        )  # fmt: skip
        loss = losses.contrastive(scores, self._tensor(found.target), self._tensor(found.allowed), mine.temperature)
        return loss.mean(), {"masked_d2q": found.masked, "idle_d2q": found.idle}

    def _candidates(
        self, keys: Rows, negatives: Rows, rows: Rows, pool: Pool, covers: Covers, in_batch: bool
    ) -> Candidates:
        offset = pool.rank * negatives.shape[0] * (1 + negatives.shape[1])
        return candidates(keys, negatives.shape[1], rows, offset, covers, in_batch)

    def _distill(self, examples: Examples, pool: Pool, scores: Tensor, found: Candidates) -> tuple[Tensor, int]:
        """Against the teacher, over the candidates that it scored; and the examples that it says nothing about."""
        teacher = self.prepared.collection.teacher[self.config.data.train_split]
        known = teacher.lookup(examples.queries[:, None], pool.document_rows[None, :])
        taught = found.allowed & np.isfinite(known)  # [batch, documents]
        wanted, mask = self._tensor(known), self._tensor(taught)
        if self.config.loss.distill == "kl":
            return losses.divergence(scores, wanted, mask).mean(), int((taught.sum(axis=1) < 2).sum())
        pairs = np.take_along_axis(taught, found.target[:, None], axis=1)[:, 0] & (taught.sum(axis=1) > 1)
        return losses.margin_mse(scores, wanted, self._tensor(found.target), mask).mean(), int((~pairs).sum())

    def _geometry(self, examples: Examples, mine: Vectors, pool: Pool) -> dict[str, Tensor]:
        """How close pairs are, and how evenly vectors are spread: terms of the loss, or diagnostics."""
        batch = len(examples.queries)
        aligned = losses.alignment(mine.queries[:batch], mine.documents[:batch], self._there(examples.positives))
        there = self.prepared.chunk_rows(pool.document_rows) >= 0  # [documents, chunks]
        twins = self.prepared.collection.twins[np.maximum(pool.document_rows, 0)]
        of_chunks = np.where(there, twins[:, None], -1).reshape(-1)  # [documents * chunks]
        asked = self.prepared.collection.query_twins[np.maximum(pool.query_rows, 0)]
        of_queries = np.where(pool.query_rows >= 0, asked, -1)  # [queries]
        spread = losses.uniformity(pool.queries, self._tensor(_different(of_queries)))
        chunks = losses.uniformity(pool.documents.flatten(0, 1), self._tensor(_different(of_chunks)))
        return {"alignment": aligned.mean(), "uniformity": spread + chunks}

    def _there(self, documents: Rows) -> Tensor:
        """[documents, chunks] bool"""
        return self._tensor(self.prepared.chunk_rows(documents) >= 0)

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.world.device)


def _different(texts: Rows) -> NDArray[np.bool_]:
    """Pairs of two different texts that are both there. [n] -> [n, n]"""
    there = texts >= 0
    return (texts[:, None] != texts[None, :]) & there[:, None] & there[None, :]
