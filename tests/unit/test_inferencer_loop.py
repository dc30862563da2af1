"""What the Inferencer remembers between refreshes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from dance.config import Config
from dance.paths import RunPaths
from dance.world import World
from inferencer.loop import Loop


def loop(folder: Path, schedule: Any = "async") -> Loop:
    nothing: Any = None
    world = World(0, 1, 0, torch.device("cpu"))
    return Loop(Config(schedule=schedule), world, RunPaths(folder), nothing, None, None, nothing, nothing, nothing)


def record(step: int, **metrics: float) -> dict[str, Any]:
    return {"step": step, "documents_per_second": 9.0, **{name.replace("_at_", "@"): v for name, v in metrics.items()}}


@pytest.mark.parametrize(
    ("records", "best"),
    [
        (
            [record(0, ndcg_at_10=0.2), record(5, ndcg_at_10=0.4), record(9, ndcg_at_10=0.3)],
            {"step": 5, "ndcg@10": 0.4},
        ),
        (
            [record(0, ndcg_at_10=0.9, select_ndcg_at_10=0.1), record(5, ndcg_at_10=0.4, select_ndcg_at_10=0.2)],
            {"step": 5, "ndcg@10": 0.4, "select_ndcg@10": 0.2},
        ),
        ([record(0, coverage_at_20=0.5), record(5, coverage_at_20=0.5)], {"step": 0, "coverage@20": 0.5}),
    ],
)
def test_the_best_is_chosen_by_the_fold_that_selects(tmp_path: Path, records: list[dict], best: dict) -> None:
    made = loop(tmp_path)
    for each in records:
        made._note_best(each)
    assert msgspec.json.decode(made.paths.best.read_bytes()) == best


def test_a_static_run_has_no_best(tmp_path: Path) -> None:
    made = loop(tmp_path, "static")
    made._note_best(record(0, ndcg_at_10=0.5))
    assert not made.paths.best.exists()
