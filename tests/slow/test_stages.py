"""A run in stages: killed in the third, gone on with, finished; each stage from the best encoder before it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dance import config, paths
from dance.paths import RunPaths
from launch import processes
from launch.report import best_step
from tests.running import dance, make_run, records, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STAGES = ["1-warmup", "2-ance", "3-normalise", "4-dual"]
TYPED = [
    "experiment=dance", "run_dir=staged", "data.path=corpus", "model.path=model", "model.head=8",
    "model.query_max_tokens=16", "model.document_max_tokens=48", "negatives.topk=20", "negatives.sample=6",
    "train.batch=4", "train.accumulation=1", "train.steps=20", "train.warmup_steps=2", "handover.every=10",
    "checkpoint.every=5", "exchange.heartbeat_seconds=0.1", "stages.normalise.train.steps=60",
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_the_third_stage_it_goes_on_there(how: signal.Signals, tmp_path: Path) -> None:
    make_run(tmp_path)  # makes the text and the model
    folders = [RunPaths(tmp_path / "staged" / name) for name in STAGES]
    third = folders[2]
    first = dance(tmp_path, "run", *TYPED)
    try:
        wait_until(lambda: (paths.newest(third.checkpoints) or 0) >= 5 or first.poll() is not None, "stage 3", 400)
        assert first.poll() is None, first.communicate()[0]
        os.kill(first.pid, how)
        output = first.communicate(timeout=90)[0]
        assert first.returncode == (-how if how == signal.SIGKILL else 128 + how), output
        wait_until(lambda: not processes.family(third.lock("launcher")), "the end of all processes", 20)
    finally:
        first.kill()
        processes.end(third.lock("launcher"))
    if how == signal.SIGTERM:
        assert f"dance run resume=true run_dir={tmp_path / 'staged'}\n" in output
    done = [(folder.finished.stat().st_mtime_ns, folder.best.read_bytes()) for folder in folders[:2]]
    status = dance(tmp_path, "status", "staged").communicate(timeout=60)[0]
    assert "2-ance: finished" in status and "4-dual: to come" in status and "resume=true" in status

    second = dance(tmp_path, "run", "resume=true", "run_dir=staged")
    output = second.communicate(timeout=400)[0]
    assert second.returncode == 0, output
    assert "stage 2 of 4, ance: finished" in output and "the stages" in output
    assert [(folder.finished.stat().st_mtime_ns, folder.best.read_bytes()) for folder in folders[:2]] == done
    steps = [record["step"] for record in records(third)]
    assert steps == sorted(set(steps)) and steps[-1] == 60
    for before, after in zip(folders, folders[1:]):
        best = best_step(before)
        assert best is not None
        assert config.read(after.config).model.path == str(before.held("encoders", best))
    assert {"d2q_ndcg@10", "report_d2q_ndcg@10"} <= records(folders[3], "inferencer")[-1].keys()
    status = dance(tmp_path, "status", "staged")
    assert "4-dual: finished" in status.communicate(timeout=60)[0] and status.returncode == 0
