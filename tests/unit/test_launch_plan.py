"""Which processes start where: a pure function of settings and machine."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.config import Config, Launch
from dance.cores import cores as usable_cores
from dance.paths import RunPaths
from launch import machine
from launch.machine import Machine
from launch.plan import RolePlan, by_hand, plan

PATHS = RunPaths(Path("/runs/x"))


def planned(found: Machine, **launch: int) -> tuple[RolePlan, ...]:
    return plan(Config(run_dir="/runs/x", launch=Launch(**launch)), PATHS, found)


def gpus(count: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(count))


@pytest.mark.parametrize(
    ("found", "launch", "expected"),
    [
        (8, {}, ("0,1,2,3", "4,5,6,7")),
        (3, {}, ("0,1", "2")),
        (1, {}, ("0", "0")),
        (12, {"trainer_processes": 8}, ("0,1,2,3,4,5,6,7", "8,9,10,11")),
        (4, {"inferencer_processes": 1}, ("0,1,2", "3")),
        (2, {"trainer_processes": 2}, ("0,1", "1")),
        (4, {"trainer_processes": 3, "inferencer_processes": 3}, ("0,1,2", "1,2,3")),
    ],
)
def test_gpus_are_split_and_shared_only_where_they_must(
    found: int, launch: dict[str, int], expected: tuple[str, str]
) -> None:
    roles = planned(Machine(16, gpus(found)), **launch)
    assert tuple(role.environment["CUDA_VISIBLE_DEVICES"] for role in roles) == expected
    for role in roles:
        assert role.argv[role.argv.index("--nproc-per-node") + 1] == str(len(role.gpus)) == str(role.processes)


@given(st.integers(1, 64), st.integers(1, 4), st.integers(1, 4))
def test_s09_threads_never_oversubscribe_but_for_one_each(cores: int, trainers: int, inferencers: int) -> None:
    roles = planned(Machine(cores), trainer_processes=trainers, inferencer_processes=inferencers)
    used = sum(role.processes * int(role.environment["OMP_NUM_THREADS"]) for role in roles)
    assert used <= max(cores, trainers + inferencers)
    assert all("CUDA_VISIBLE_DEVICES" not in role.environment for role in roles)


def test_s09_threads_are_an_option() -> None:
    assert {role.environment["OMP_NUM_THREADS"] for role in planned(Machine(8), threads=3)} == {"3"}


def test_more_processes_than_gpus_is_refused() -> None:
    with pytest.raises(ValueError, match="launch.trainer_processes=3, but 2 GPUs"):
        planned(Machine(8, gpus(2)), trainer_processes=3)


def test_c05_torchrun_takes_a_free_port_and_never_restarts() -> None:
    for role in planned(Machine(2)):
        assert "--standalone" in role.argv
        assert role.argv[role.argv.index("--max-restarts") + 1] == "0"
        assert role.argv[-3:] == ("-m", role.role, "/runs/x")


def test_the_same_can_be_started_by_hand() -> None:
    config = msgspec.structs.replace(Config(), run_dir="/runs/x")
    assert by_hand(config, planned(Machine(2), trainer_processes=2)) == [
        "OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 -m trainer /runs/x",
        "OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 1 -m inferencer /runs/x",
    ]


@pytest.mark.parametrize(("text", "expected"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None)])
def test_cores_mind_the_quota_of_a_container(text: str, expected: int | None, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(text)
    unbound = usable_cores(tmp_path / "absent")
    assert usable_cores(tmp_path / "cpu.max") == (expected or unbound)


def test_visible_gpus_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "torch_has_cuda", lambda: True)
    assert machine.gpus({"CUDA_VISIBLE_DEVICES": "3, GPU-abc"}) == ("3", "GPU-abc")
    assert machine.gpus({"CUDA_VISIBLE_DEVICES": ""}) == machine.gpus({"CUDA_VISIBLE_DEVICES": "-1"}) == ()
    monkeypatch.setattr(machine, "torch_has_cuda", lambda: False)
    assert machine.gpus({"CUDA_VISIBLE_DEVICES": "0"}) == ()


def test_by_hand_each_role_has_its_gpus_and_a_path_with_a_blank_is_one_word() -> None:
    config = msgspec.structs.replace(Config(), run_dir="/runs/a b")
    trainer, inferencer = by_hand(config, planned(Machine(16, ("0", "1", "2", "3"))))
    assert trainer.startswith("CUDA_VISIBLE_DEVICES=0,1 ") and inferencer.startswith("CUDA_VISIBLE_DEVICES=2,3 ")
    assert trainer.endswith("-m trainer '/runs/a b'")
