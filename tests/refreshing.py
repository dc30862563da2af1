"""Refreshes without their processes: every rank a thread, one encoder with random weights."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dance import artefact, config
from dance.corpus.prepare import Prepared
from dance.encoder import files
from dance.encoder.batching import pad
from dance.encoder.model import Encoder
from dance.mining.table import Drawn, NegativesTable
from dance.paths import RunPaths
from dance.progress import Reporter
from inferencer.context import Context
from inferencer.refresh import Refresher
from tests.running import make_run, small_corpus
from tests.threads import ThreadWorld, together
from tests.tiny import tiny_bert

DUAL = {"dual_weight": 0.1}
ENCODE = {"queries_per_search": 7, "tokens_per_batch": 100, "precision": "fp32"}
MAXP = {"document_max_tokens": 12, "chunks": 3}


class Going:
    """Nobody asks to stop."""

    requested = False


def make_home(folder: Path) -> Path:
    """A corpus with given negatives, and a model."""
    tiny_bert(folder / "model")
    corpus = small_corpus(folder / "corpus")
    (corpus / "negatives").mkdir()
    rows = "".join(f"q{i}\td{(i + 7 * j) % 48}\n" for i in range(48) if i % 5 != 4 for j in (1, 2, 3))
    (corpus / "negatives" / "train.tsv").write_text("query-id\tcorpus-id\n" + rows)
    return folder


def context(run: RunPaths, world: Any) -> Context:
    settings = config.read(run.config)
    reporter = Reporter("inferencer", run.status("inferencer"), world.leads)
    return Context(settings, world, run, Prepared.open(settings.prepared or ""), reporter, Going())  # type: ignore[arg-type]


def make_ready(folder: Path, name: str, steps: tuple[int, ...] = (0,), **groups: Any) -> RunPaths:
    """A run folder with an encoder of each step, other weights each."""
    run = make_run(folder, run_dir=str(folder / name), run_id=name, **groups)
    encoder = _built(config.read(run.config).model)
    start = deepcopy(encoder.state_dict())
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for weights in encoder.parameters():
            weights.data += 0.05 * torch.randn(weights.shape, generator=generator)
        with artefact.publishing(run.published("encoders", step), "encoders", step) as draft:
            files.save(encoder, draft)
        encoder.load_state_dict(start)
    return run


@cache
def _built(model: config.Model) -> Encoder:
    return files.build(model, seed=0)


def refresh(run: RunPaths, processes: int = 1, steps: tuple[int, ...] = (0,), due: bool = True) -> list[dict[str, Any]]:
    """The records of rank 0, a refresh of each step after the other."""

    def work(world: ThreadWorld) -> list[dict[str, Any]]:
        made = context(run, world)
        made.check()
        refresher = Refresher(made)
        return [refresher.refresh(step, turn, due) for turn, step in enumerate(steps)]

    return together(processes, work)[0]


def table(run: RunPaths, step: int = 0) -> NegativesTable:
    return NegativesTable.open(run.published("negatives", step))


def same(one: Drawn, two: Drawn) -> bool:
    return all(
        np.array_equal(getattr(one, f.name), getattr(two, f.name), equal_nan=f.name == "scores") for f in fields(Drawn)
    )


def untimed(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if "second" not in key}


def encoded(run: RunPaths, step: int = 0) -> tuple[Prepared, np.ndarray, np.ndarray]:
    """(text, vectors of all chunks, vectors of all queries), one text at a time, in float64."""
    prepared = Prepared.open(config.read(run.config).prepared or "")
    encoder = files.load(run.published("encoders", step), torch.device("cpu"))
    sides = []
    for store, side in ((prepared.documents, "document"), (prepared.queries, "query")):
        batches = [pad(store, np.array([row])) for row in range(len(store))]
        with torch.inference_mode():
            each = [encoder(batch.ids, batch.mask, batch.types, side) for batch in batches]
        sides.append(torch.cat(each).double().numpy())
    return prepared, sides[0], sides[1]


def best_chunks(prepared: Prepared, chunks: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Scores [queries, documents]."""
    starts = prepared.chunk_offsets[:-1]
    return np.maximum.reduceat(queries @ chunks.T, starts, axis=1)
