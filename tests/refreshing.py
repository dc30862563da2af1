"""Refreshes without their processes: every rank a thread, one encoder with random weights."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import torch

from dance import artefact, config
from dance.corpus.prepare import Prepared
from dance.encoder import files
from dance.encoder.model import Encoder
from dance.mining.table import NegativesTable
from dance.paths import RunPaths
from dance.progress import Reporter
from inferencer.context import Context
from inferencer.refresh import Refresher
from tests.running import make_run
from tests.threads import ThreadWorld, together


class Going:
    """Nobody asks to stop."""

    requested = False


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


def refresh(run: RunPaths, processes: int = 1, steps: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
    """The records of rank 0, a refresh of each step after the other."""

    def work(world: ThreadWorld) -> list[dict[str, Any]]:
        made = context(run, world)
        made.check()
        refresher = Refresher(made)
        return [refresher.refresh(step, turn) for turn, step in enumerate(steps)]

    return together(processes, work)[0]


def table(run: RunPaths, step: int = 0) -> NegativesTable:
    return NegativesTable.open(run.published("negatives", step))
