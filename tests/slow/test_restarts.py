"""Kills and restarts of real roles: exact where that is promised, an error that says what to do elsewhere."""

import os
import signal

import msgspec
import pytest

from dance import config, paths, progress, tracking
from tests.running import finish, make_run, records, run, start, wait_until

pytestmark = pytest.mark.slow
KEPT_SHORT = {"handover": {"every": 5, "keep": 1}, "checkpoint": {"every": 12, "keep": 1}}


def kill_at(step: int, made: paths.RunPaths) -> None:
    """Both roles to a step, then no word to either."""
    roles = start("trainer", made), start("inferencer", made)
    wait_until(lambda: any(record["step"] >= step for record in records(made)), f"step {step}")
    for name in ("trainer", "inferencer"):
        kill(made, name)
    for role in roles:
        role.wait(timeout=60)


def kill(made: paths.RunPaths, role: str) -> None:
    """The rank itself: torchrun is not given the chance to end it gently."""
    os.kill(progress.read(made.status(role)).pid, signal.SIGKILL)


def resume(made: paths.RunPaths) -> None:
    config.write(msgspec.structs.replace(config.read(made.config), resume=True), made.config)


@pytest.mark.thorough
def test_killed_twice_and_resumed_twice_equals_straight(tmp_path):
    """Checkpoints and handovers out of step, as little kept as possible."""
    straight = make_run(tmp_path, run_dir=str(tmp_path / "straight"), schedule="sync", **KEPT_SHORT)
    run(straight)
    cut = make_run(tmp_path, run_dir=str(tmp_path / "cut"), schedule="sync", run_id="cut", **KEPT_SHORT)
    kill_at(16, cut)
    resume(cut)
    kill_at(29, cut)
    run(cut)
    keys = ("step", "loss", "learning_rate", "negatives_step", "examples_digest", "staleness")
    seen = [[{key: record.get(key) for key in keys} for record in records(each)] for each in (straight, cut)]
    assert seen[0] == seen[1]
    assert max(record["staleness"] for record in seen[0]) == 4, "one less than handover.every"
    assert straight.journal.read_text() == cut.journal.read_text()
    scores = [[(r["step"], r["ndcg@10"]) for r in records(each, "inferencer")] for each in (straight, cut)]
    assert scores[0] == scores[1] and straight.best.read_text() == cut.best.read_text()


def test_a_trainer_restarted_alone_is_answered_by_what_to_do(tmp_path):
    made = make_run(tmp_path, schedule="sync", checkpoint={"every": 20})
    trainer, inferencer = start("trainer", made), start("inferencer", made)
    wait_until(lambda: (paths.newest(made.negatives) or 0) >= 30, "negatives of step 30")
    kill(made, "trainer")
    trainer.wait(timeout=60)
    resume(made)
    trainer = start("trainer", made)
    assert inferencer.wait(timeout=60) == 1
    assert "start the Inferencer again too" in made.log("inferencer", 0).read_text()
    assert finish(trainer, start("inferencer", made)) == [0, 0]
    assert paths.newest(made.checkpoints) == 40
    steps = [record["negatives_step"] for record in tracking.read_lines(made.journal)]
    assert steps == sorted(set(steps))


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param({"schedule": "static"}, marks=pytest.mark.thorough),
        pytest.param({"negatives": {"cold_start": "in_batch"}}, marks=pytest.mark.thorough),
        {"negatives": {"max_staleness": 12}, "train": {"accumulation": 2, "poll_every": 3, "log_every": 7}},
    ],
    ids=["static", "in_batch_first", "bounded"],
)
def test_other_ways_to_run_end_well_with_two_inferencer_processes(tmp_path, groups):
    """With the default token budget, a corpus of 48 documents is one batch: one process has nothing to encode."""
    made = make_run(tmp_path, **groups)
    run(made, inferencers=2)
    adopted = [record["negatives_step"] for record in tracking.read_lines(made.journal)]
    assert adopted == sorted(set(adopted)) and adopted
    if groups.get("schedule") == "static":
        assert adopted == [0] and [r["step"] for r in records(made, "inferencer")] == [0]
    else:
        assert records(made, "inferencer")[-1]["step"] == 40
    if "max_staleness" in groups.get("negatives", {}):
        assert all(record["staleness"] <= 12 for record in records(made))
