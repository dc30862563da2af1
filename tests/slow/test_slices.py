"""Runs whose refreshes see a slice of the corpus: exact under cuts and ranks, and scored to the last encoder."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file

from dance import config, paths
from dance.mining.table import NegativesTable
from dance.paths import RunPaths
from tests.refreshing import same, untimed
from tests.running import make_run, records, run, start, wait_until

pytestmark = pytest.mark.slow
SLICED: dict[str, Any] = {
    "refresh": {"fraction": 0.25},
    "evaluate": {"every": 20, "fraction": 0.3},
    "handover": {"keep": None},
}
SHAPES: dict[str, dict[str, Any]] = {
    "maxp_dual_margin": {
        "model": {"document_max_tokens": 12, "chunks": 3}, "loss": {"dual_weight": 0.1}, "filters": {"margin": -1.0},
    },
    "groups": {"batches": {"how": "hard_groups", "group_size": 2, "grouped_share": 0.5}, "loss": {"in_batch": True}},
}  # fmt: skip


def made(folder: Path, name: str, shape: str, **more: Any) -> RunPaths:
    given = SLICED | SHAPES[shape] | {"encode": {"queries_per_search": 7, "tokens_per_batch": 200}} | more
    return make_run(folder, run_dir=str(folder / name), run_id=f"{name}-{shape}-{os.getpid()}", **given)


def tables(run_paths: RunPaths) -> dict[int, NegativesTable]:
    steps = paths.steps(run_paths.negatives)
    return {step: NegativesTable.open(run_paths.published("negatives", step)) for step in steps}


def scored(run_paths: RunPaths) -> list[dict[str, Any]]:
    """Lines of full passes."""
    return [untimed(line) for line in records(run_paths, "inferencer") if "ndcg@10" in line]


def check_same(one: RunPaths, two: RunPaths) -> None:
    ours, theirs = tables(one), tables(two)
    assert ours.keys() == theirs.keys() and 40 in ours
    for step, table in ours.items():
        other = theirs[step]
        assert same(table.documents, other.documents) and table.facts == other.facts
        assert table.queries is None or (other.queries is not None and same(table.queries, other.queries))
        assert (table.groups is None) == (other.groups is None)
        if table.groups is not None and other.groups is not None:
            assert table.groups.queries.tolist() == other.groups.queries.tolist()
    assert one.journal.read_text() == two.journal.read_text()
    states = [load_file(each.checkpoints / "step_00000040" / "state.safetensors") for each in (one, two)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert scored(one) == scored(two) and [line["step"] for line in scored(one)] == [0, 20, 40]


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_of_slices_is_the_same_cut_and_with_two_inferencer_processes(tmp_path: Path, shape: str) -> None:
    straight = made(tmp_path, "straight", shape, schedule="sync")
    run(straight, inferencers=2)

    cut = made(tmp_path, "cut", shape, schedule="sync")
    roles = start("trainer", cut), start("inferencer", cut)
    wait_until(lambda: any(record["step"] >= 23 for record in records(cut)), "step 23")
    for role in roles:
        role.send_signal(signal.SIGTERM)
    assert all(role.wait(timeout=30) != 0 for role in roles)
    config.write(msgspec.structs.replace(config.read(cut.config), resume=True), cut.config)
    run(cut)
    check_same(straight, cut)


def test_the_last_encoder_is_scored_after_the_trainer_is_done(tmp_path: Path) -> None:
    finished = made(tmp_path, "async", "maxp_dual_margin", handover={"every": 10, "keep": 1}, checkpoint={"keep": 1})
    run(finished)
    lines = records(finished, "inferencer")
    assert scored(finished)[0]["step"] == 0 and scored(finished)[-1]["step"] == 40
    assert all("ndcg@10" not in line for line in lines if "turn" in line)
    best = msgspec.json.decode(finished.best.read_bytes())
    assert best["ndcg@10"] == max(line["ndcg@10"] for line in scored(finished))
    assert (finished.published("encoders", best["step"]) / "manifest.json").is_file()
