"""Updates of a real small encoder, in one process or as a rank of several."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from dance import config
from dance.config import Config
from dance.corpus.prepare import Prepared
from dance.encoder import files
from dance.encoder.batching import pad
from dance.learning import optim
from dance.learning.order import Examples
from dance.world import World
from tests.running import make_run
from trainer.encode import Pair
from trainer.objective import Objective
from trainer.step import Stepper

CHUNKED = {"chunks": 3, "document_max_tokens": 8, "head": 8, "normalize": True}


@dataclass
class Bench:
    """A Stepper with all that it reads, and vectors one text at a time."""

    config: Config
    prepared: Prepared
    stepper: Stepper

    def vector(self, store, row, side):
        batch = pad(store, np.array([row]))
        return self.stepper.encoder(batch.ids, batch.mask, batch.types, side=side)[0].detach().numpy().astype(float)

    def score(self, query, document):
        chunks = [row for row in self.prepared.chunk_rows(np.array([document]))[0].tolist() if row >= 0]
        own = self.vector(self.prepared.queries, query, "query")
        return max(own @ self.vector(self.prepared.documents, row, "document") for row in chunks)

    def update(self, step, *micro_batches, in_batch=None, rate=0.01):
        in_batch = self.config.loss.in_batch if in_batch is None else in_batch
        return self.stepper.update(step, rate, list(micro_batches), in_batch)


def bench(folder, world: World, teacher=None, sgd=False, **groups) -> Bench:
    """``sgd`` moves weights by gradients alone: their equality is then that of the gradients."""
    groups["train"] = {"dropout": 0.0, "precision": "fp32", **groups.get("train", {})}
    settings = config.read(make_run(folder, **groups).config)
    prepared = Prepared.open(settings.prepared)
    if teacher is not None:
        prepared = replace(prepared, collection=replace(prepared.collection, teacher={"train": teacher}))
    pair = Pair(files.build(settings.model, settings.seed, settings.train.dropout), settings.loss)
    objective = Objective(settings, world, prepared, prepared.collection.relevance("train"))
    optimizer = optim.build(pair, settings.train)
    if sgd:
        groups = [{"params": group["params"], "share": group["share"]} for group in optimizer.param_groups]
        optimizer = torch.optim.SGD(groups, lr=0.0)
    return Bench(settings, prepared, Stepper(settings, world, pair, optimizer, objective))


def examples_of(queries, negatives, query_negatives=None):
    """Document q answers query q in the small corpus."""
    rows = np.array(queries)
    none = np.empty((len(rows), 0), dtype=np.int64)
    of = np.array(query_negatives, dtype=np.int64) if query_negatives else none
    return Examples(rows, rows, np.array(negatives, dtype=np.int64) if negatives else none, of)
