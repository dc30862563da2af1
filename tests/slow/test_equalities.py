"""What must not depend on how a run is cut or spread: resumes, Inferencer ranks, Trainer ranks."""

import os
import signal

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from dance import config, paths
from dance.mining.table import NegativesTable
from tests.running import make_run, records, run, start, wait_until

pytestmark = pytest.mark.slow
COMPARED = ("step", "loss", "learning_rate", "negatives_step", "examples_digest")


def compared(run_paths):
    return [{key: record.get(key) for key in COMPARED} for record in records(run_paths)]


SHAPES = {
    "ann": {},
    "maxp_dual": {"model": {"document_max_tokens": 12, "chunks": 3}, "loss": {"dual_weight": 0.1}},
    "two_towers_mixed": {"model": {"towers": "two"}, "sources": {"bm25": 1.0, "random": 0.5}},
    "tele_dual": {"draw": {"lookahead": 0.3}, "sources": {"bm25": 0.5}, "loss": {"dual_weight": 0.1}},
    "groups": {
        "batches": {"how": "hard_groups", "group_size": 2, "grouped_share": 0.5}, "loss": {"in_batch": True},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "shape, trainers",
    [
        ("maxp_dual", 2),
        ("groups", 1),
        pytest.param("ann", 1, marks=pytest.mark.thorough),
        pytest.param("two_towers_mixed", 1, marks=pytest.mark.thorough),
        pytest.param("ann", 2, marks=pytest.mark.thorough),
        pytest.param("groups", 2, marks=pytest.mark.thorough),
    ],
)
def test_forty_steps_straight_equal_seventeen_and_a_resume(tmp_path, shape, trainers):
    straight = make_run(tmp_path, run_dir=str(tmp_path / "straight"), schedule="sync", **SHAPES[shape])
    run(straight, trainers)

    cut_id = f"cut-{os.getpid()}"
    cut = make_run(tmp_path, run_dir=str(tmp_path / "cut"), schedule="sync", run_id=cut_id, **SHAPES[shape])
    roles = start("trainer", cut, trainers), start("inferencer", cut)
    wait_until(lambda: any(record["step"] >= 17 for record in records(cut)), "step 17")
    for role in roles:
        role.send_signal(signal.SIGTERM)
    assert all(role.wait(timeout=30) != 0 for role in roles)
    stopped_at = paths.newest(cut.checkpoints)
    assert stopped_at is not None and 17 <= stopped_at < 40

    config.write(msgspec.structs.replace(config.read(cut.config), resume=True), cut.config)
    run(cut, trainers)
    assert compared(cut) == compared(straight)
    assert cut.journal.read_text() == straight.journal.read_text()
    whole, resumed = (load_file(r.checkpoints / "step_00000040" / "state.safetensors") for r in (straight, cut))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.parametrize(
    "shape", ["maxp_dual", *(pytest.param(s, marks=pytest.mark.thorough) for s in SHAPES if s != "maxp_dual")]
)
def test_two_inferencer_processes_mine_what_one_does(tmp_path, shape):
    tables, scores = [], []
    for processes in (1, 2):
        made = make_run(
            tmp_path, run_dir=str(tmp_path / f"run{processes}"), schedule="sync", train={"steps": 3},
            handover={"every": 3}, encode={"queries_per_search": 7, "tokens_per_batch": 200},
            run_id=f"inferencers{processes}-{shape}-{os.getpid()}", **SHAPES[shape],
        )  # fmt: skip
        run(made, inferencers=processes)
        tables.append(NegativesTable.open(made.published("negatives", 0)))
        scores.append([{k: v for k, v in r.items() if "second" not in k} for r in records(made, "inferencer")])
    one, two = tables
    for part in ("documents", "queries", "groups"):
        of_one, of_two = ({} if each is None else vars(each) for each in (getattr(one, part), getattr(two, part)))
        assert of_one.keys() == of_two.keys()
        for name, array in of_one.items():
            assert np.array_equal(array, of_two[name], equal_nan=name == "scores"), (part, name)
    assert one.facts == two.facts and scores[0] == scores[1]


@pytest.mark.thorough
@pytest.mark.parametrize("in_batch", [False, True])
def test_two_trainer_processes_learn_what_one_does_with_the_joined_batch(tmp_path, in_batch):
    losses = []
    for processes, batch in ((1, 8), (2, 4)):
        made = make_run(
            tmp_path, run_dir=str(tmp_path / f"run{processes}"), schedule="sync", handover={"every": 100},
            train={"steps": 12, "batch": batch, "accumulation": 2, "dropout": 0.0, "precision": "fp32"},
            loss={"in_batch": in_batch, "across_ranks": in_batch}, negatives={"per_example": 2},
            run_id=f"trainers{processes}",
        )  # fmt: skip
        run(made, trainers=processes)
        losses.append([record["loss"] for record in records(made)])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert losses[0][0] != losses[0][-1]
