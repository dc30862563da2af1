"""Overrides to one checked Config: names, truth values, paths, resume."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance import config as schema
from dance.config import Config
from launch import overrides
from launch.compose import _model_path, compose, differences

pytestmark = pytest.mark.xdist_group("hydra")  # one process, which keeps what it has composed


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("loss.temprature=0.1", "loss.temperature"),
        ("temperature=0.1", "loss.temperature"),
        ("model.temperature=0.1", "loss.temperature"),
        ("train.learning_rat=1", "train.learning_rate"),
        ("train.batch_size=8", "train.batch"),
        ("negatives.top_k=8", "negatives.topk"),
        ("run_dri=x", "run_dir"),
        ("exchange.heartbeat=x", "exchange.heartbeat_seconds"),
    ],
)
def test_c04_mistyped_override_names_the_key_meant(typed: str, meant: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"did you mean {re.escape(meant)}"):
        compose([typed], tmp_path)


@pytest.mark.parametrize("value", ["yes", "no", "0", "1", "", "flase", "off"])
def test_c04_only_true_and_false_are_truth_values(value: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="loss.in_batch=true or loss.in_batch=false"):
        compose([f"loss.in_batch={value}"], tmp_path)


@pytest.mark.parametrize(("value", "truth"), [("true", True), ("False", False), ("TRUE", True)])
def test_c04_documented_spellings_parse(value: str, truth: bool, tmp_path: Path) -> None:
    assert compose([f"model.normalize={value}"], tmp_path).model.normalize is truth


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("train.batch=0", "train.batch"),
        ("train.batch=many", "train.batch"),
        ("train.batch=", "train.batch"),
        ("train.batch=1,2", "train.batch"),
        ("schedule=sometimes", "schedule"),
        ("loss={temperature:1}", "loss.temperature"),
        ("+train.extra=1", "none is added"),
        ("~train.batch=1", "none is added"),
        ("experiment=smoek", "did you mean smoke"),
        ("negatives=rnadom", "did you mean random"),
        ("negatives={topk:3}", "negatives={topk:3}: there are ann"),
        ("stages=x", "stages.NAME.KEY=VALUE"),
        ("train.batch", "KEY=VALUE"),
    ],
)
def test_bad_values_name_the_key(argument: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        compose([argument], tmp_path)


def test_numbers_null_and_lists_of_overrides(tmp_path: Path) -> None:
    config = compose(["train.steps=1e3", "handover.keep=null", "data.max_documents=null", "seed=7"], tmp_path)
    assert (config.train.steps, config.handover.keep, config.data.max_documents, config.seed) == (
        1000,
        None,
        None,
        7,
    )


@given(st.text("ab/=,\\ ()[]{}:$#é1e3.-", min_size=1))
def test_text_stays_what_was_typed(text: str) -> None:
    given_text = overrides.read_arguments([f"data.train_split={text}"])
    assert overrides.texts(given_text) == {"data.train_split": text}
    assert overrides.for_hydra(given_text) == []


def test_text_with_syntax_in_it_reaches_the_config(tmp_path: Path) -> None:
    config = compose(["data.train_split=a=b, 'c' \\", "run_id=1e3", "data.dev_split='null'"], tmp_path)
    assert (config.data.train_split, config.run_id, config.data.dev_split) == ("a=b, 'c' \\", "1e3", "null")


def test_c02_relative_paths_mean_the_folder_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "weights").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "weights")
    typed = ["data.path=../toy", "model.path=../link", "run_dir=out", "exchange.keys=~/k"]
    config = compose(typed, tmp_path / "sub")
    assert config.data.path == str(tmp_path / "toy")
    assert config.model.path == str(tmp_path / "weights")
    assert config.run_dir == str(tmp_path / "sub" / "out")
    assert config.data.prepared == str(tmp_path / "sub" / "prepared")
    assert config.exchange.keys == str(Path.home() / "k")


def test_hub_names_and_packages_stay(tmp_path: Path) -> None:
    for name in ("roberta-base", "org/model", "pkg://a/b"):
        assert _model_path(name, tmp_path) == name
    assert _model_path("./absent", tmp_path) == str(tmp_path / "absent")


def test_c01_run_folder_is_decided_once_and_never_shared(tmp_path: Path) -> None:
    first = compose([], tmp_path)
    assert first.run_dir is not None and Path(first.run_dir).parent == tmp_path / "runs"
    Path(first.run_dir).mkdir(parents=True)
    second = compose([], tmp_path)
    assert second.run_dir != first.run_dir
    assert second.run_id != first.run_id


def test_defaults_are_those_of_the_schema(tmp_path: Path) -> None:
    config = compose(["experiment=ance_passage"], tmp_path)
    assert config.exchange == Config().exchange
    assert config.encode == Config().encode


def _run(tmp_path: Path) -> Config:
    config = compose(["run_dir=r", "train.steps=40"], tmp_path)
    (tmp_path / "r").mkdir()
    schema.write(config, tmp_path / "r" / "config.yaml")
    return config


def test_resume_reads_the_run_and_nothing_else(tmp_path: Path) -> None:
    before = _run(tmp_path)
    after = compose(["run_dir=r", "resume=true", "train.steps=60"], tmp_path)
    assert differences(before, after) == {"resume": (False, True), "train.steps": (40, 60)}


def test_a_resume_may_refresh_and_evaluate_otherwise_within_the_rules(tmp_path: Path) -> None:
    before = _run(tmp_path)
    changes = ["refresh.fraction=0.5", f"evaluate.every={before.handover.every}", "evaluate.fraction=0.1"]
    after = compose(["run_dir=r", "resume=true", *changes], tmp_path)
    assert differences(before, after) == {
        "resume": (False, True),
        "refresh.fraction": (1.0, 0.5),
        "evaluate.every": (None, before.handover.every),
        "evaluate.fraction": (None, 0.1),
    }


@pytest.mark.parametrize(
    "changed", ["seed=1", "loss.temperature=1", "batches.how=hard_groups", "experiment=smoke", "model.path=x"]
)
def test_resume_refuses_to_compute_something_else(changed: str, tmp_path: Path) -> None:
    _run(tmp_path)
    with pytest.raises(ValueError, match=re.escape(changed.partition("=")[0])):
        compose(["run_dir=r", "resume=true", changed], tmp_path)


def test_resume_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run_dir=FOLDER"):
        compose(["resume=true"], tmp_path)
    with pytest.raises(ValueError, match="no such file"):
        compose(["resume=true", "run_dir=absent"], tmp_path)
