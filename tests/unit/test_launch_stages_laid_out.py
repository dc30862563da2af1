"""Stages as they are composed and laid out, before any of them runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.config import Config, Model
from launch import stages
from launch.compose import compose, compose_stages

pytestmark = pytest.mark.xdist_group("hydra")  # one process, which keeps what it has composed

NAMES = ["warmup", "ance", "normalise", "dual"]


@pytest.mark.parametrize("name", ["dance", "dance_small"])
def test_the_experiment_has_four_stages_in_order(name: str, tmp_path: Path) -> None:
    assert list(compose_stages([f"experiment={name}"], tmp_path)) == NAMES


def test_precedence_is_stage_over_experiment_and_the_command_line_over_both(tmp_path: Path) -> None:
    def steps(*arguments: str) -> list[int]:
        return [c.train.steps for c in compose_stages(["experiment=dance_small", *arguments], tmp_path).values()]

    assert steps() == [200, 400, 200, 200]
    assert steps("train.steps=50") == [50] * 4
    assert steps("stages.ance.train.steps=90", "train.steps=50") == [50, 90, 50, 50]
    batches = {c.train.batch for c in compose_stages(["experiment=dance_small"], tmp_path).values()}
    assert batches == {64}, "what the stages leave out is the experiment's"


def test_a_group_holds_for_all_stages_or_for_one(tmp_path: Path) -> None:
    found = compose_stages(["experiment=dance", "negatives=random", "stages.ance.negatives=bm25"], tmp_path)
    assert [c.sources.random for c in found.values()] == [1, 0, 1, 1]
    assert found["ance"].sources.bm25 == 1 and found["ance"].sources.ann == 0


def test_all_stages_share_the_folder_and_one_alone_is_a_plain_run(tmp_path: Path) -> None:
    found = compose_stages(["experiment=dance"], tmp_path)
    assert len({(c.run_dir, c.run_id) for c in found.values()}) == 1
    alone = ["experiment=dance", "stage=dual", "stages.dual.seed=7"]
    assert compose_stages(alone, tmp_path) == {}
    assert stages.asked(alone, tmp_path) is None
    assert (compose(alone, tmp_path).loss.dual_weight, compose(alone, tmp_path).seed) == (0.1, 7)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("stages.dula.train.steps=3", "did you mean dual"),
        ("stage=dula", "did you mean dual"),
        ("stages.dual.train.stesp=3", "did you mean train.steps"),
        ("stages.dual.run_dir=x", "run_dir is of the whole run"),
        ("stages.dual=3", "stages.NAME.KEY=VALUE"),
        ("stages.dual.train.batch=0", "stage dual: train.batch"),
        ("stages.dual.model.head=8", "stage dual: model.head=8, but the encoder comes from stage normalise with 768"),
        ("stages.dual.model.normalize=false", "stage dual: model.normalize=false, but stage normalise learns unit"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(argument: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        stages.asked(["experiment=dance", argument], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_stages_of_an_experiment_without_any(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it has no stages"):
        compose(["stages.dual.train.steps=3"], tmp_path)


def test_a_stage_with_an_encoder_of_its_own_is_not_chained(tmp_path: Path) -> None:
    typed = ["experiment=dance", "model.path=org/all", "stages.dual.model.path=org/own", "stages.dual.model.head=8"]
    asked = stages.asked(typed, tmp_path)
    assert asked is not None
    assert [stage.chained for stage in asked[1].stages] == [False, True, True, False]
    assert [stage.config.model.path for stage in asked[1].stages] == ["org/all"] * 3 + ["org/own"]


@given(
    st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=6, unique=True),
    st.sets(st.integers(0, 5)),
)
def test_the_layout_is_a_chain_of_folders(names: list[str], own: set[int]) -> None:
    configs = {name: Config(run_dir="/r/x", run_id="id") for name in names}
    mine = {name for number, name in enumerate(names) if number in own}
    laid = stages.lay_out(configs, mine).stages
    assert [stage.folder for stage in laid] == [f"{n}-{name}" for n, name in enumerate(names, start=1)]
    assert [stage.config.run_dir for stage in laid] == [f"/r/x/{stage.folder}" for stage in laid]
    assert len({stage.config.run_id for stage in laid}) == len(names)
    assert [stage.chained for stage in laid] == [n > 0 and name not in mine for n, name in enumerate(names)]


def test_unit_length_may_come_but_not_go() -> None:
    plain, unit = (Config(run_dir="/r", run_id="i", model=Model(normalize=normalize)) for normalize in (False, True))
    assert len(stages.lay_out({"a": plain, "b": unit}, set()).stages) == 2
    with pytest.raises(ValueError, match="they stay so"):
        stages.lay_out({"a": unit, "b": plain}, set())
