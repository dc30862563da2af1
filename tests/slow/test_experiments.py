"""Every experiment of the papers goes through on small files in the official layouts, as its users type it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dance.paths import RunPaths
from tests import official
from tests.running import dance, records
from tests.tiny import tiny_bert

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STEPS = 20
# What a tiny encoder and a corpus of 48 documents ask for; everything else is the experiment's.
SMALL = [
    "model.path=model", "model.query_max_tokens=16", "model.document_max_tokens=24", "negatives.topk=20",
    "negatives.sample=6", f"train.steps={STEPS}", "train.warmup_steps=2", "handover.every=10", "checkpoint.every=10",
    "exchange.heartbeat_seconds=0.1", "run_dir=run",
]  # fmt: skip
HEAD = ["model.head=8"]
EXPERIMENTS = {
    "warmup": ("passages", HEAD),
    "warmup-triples": ("passages", [*HEAD, "negatives=given"]),
    "ance_passage": ("passages", HEAD),
    "ance_document": ("documents", HEAD),
    "ance_maxp": ("documents", HEAD),
    "dance_document": ("documents", HEAD),
    "openqa": ("dpr", []),
}

QUICK = ("ance_maxp",)
OTHERS = sorted(EXPERIMENTS.keys() - set(QUICK))


def go(folder: Path, experiment: str, layout: str, *more: str) -> str:
    tiny_bert(folder / "model")
    official.LAYOUTS[layout](folder / "text")
    run = dance(folder, "run", f"experiment={experiment}", "data.path=text", *SMALL, *more)
    output: str = run.communicate(timeout=600)[0]
    assert run.returncode == 0, output
    return output


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.thorough) for name in OTHERS)])
def test_an_experiment_runs_on_official_files(name: str, tmp_path: Path) -> None:
    layout, more = EXPERIMENTS[name]
    output = go(tmp_path, name.partition("-")[0], layout, *more)
    assert "trained encoder (step" in output and "BM25" in output
    paths = RunPaths(tmp_path / "run")
    assert [record["step"] for record in records(paths, "inferencer")][-1] == STEPS
    assert records(paths)[-1]["step"] == STEPS
    if layout == "dpr":
        assert "coverage@20" in records(paths, "inferencer")[-1]


@pytest.mark.thorough
@pytest.mark.parametrize("layout", ["documents", "passages"])
def test_dance_goes_through_its_four_stages(layout: str, tmp_path: Path) -> None:
    output = go(tmp_path, "dance", layout, *HEAD)
    for number, name in enumerate(("warmup", "ance", "normalise", "dual"), start=1):
        paths = RunPaths(tmp_path / "run" / f"{number}-{name}")
        last = records(paths, "inferencer")[-1]
        assert last["step"] == STEPS and {"select_ndcg@10", "report_ndcg@10", "report_d2q_ndcg@10"} <= last.keys()
    assert "the stages" in output and "d2q NDCG@10" in output
