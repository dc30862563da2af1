"""Configuration: what is refused, by which key, and that a run reads back what was written."""

import pytest

from dance import config


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"train": {"steps": 0}}, "train.steps: Expected `int` >= 1"),
        ({"loss": {"temperature": 0}}, "loss.temperature"),
        ({"schedule": "asink"}, "schedule"),
        ({"trian": {}}, "unknown field `trian`"),
        ({"train": {"bach": 1}}, "train: .*unknown field `bach`"),
        ({"negatives": {"per_example": 0}}, "no negatives to contrast with"),
        ({"negatives": {"per_example": 0}, "loss": {"in_batch": True}, "train": {"batch": 1}}, "no negatives"),
        ({"negatives": {"max_staleness": 5}, "handover": {"every": 10}}, "would deadlock"),
        ({"negatives": {"max_staleness": 5}, "schedule": "sync"}, "has its own rule"),
        ({"schedule": "asink"}, "one of async, sync, static"),
        ({"train": {"learning_rate": float("inf")}}, "train.learning_rate"),
        ({"data": {"dev_split": "train"}}, "cannot be held out"),
        ({"negatives": {"sample": 300}}, "cannot be drawn from"),
        ({"negatives": {"per_example": 21}}, "exceeds negatives.sample"),
        ({"handover": {"keep": 0}}, "handover.keep=0"),
        ({"checkpoint": {"keep": -2}}, "checkpoint.keep=-2"),
        ({"loss": {"across_ranks": True}}, "loss.in_batch=true"),
        ({"data": {"format": "beir"}}, "needs data.path"),
        ({"model": {"query_max_tokens": 2}}, "no room for text"),
    ],
)
def test_bad_configurations_are_refused_by_key(plain, message):
    with pytest.raises(ValueError, match=message):
        config.from_plain(plain)


def test_r08_nothing_to_contrast_with_is_refused_at_the_start():
    with pytest.raises(ValueError, match="loss is 0 from the first step"):
        config.from_plain({"negatives": {"per_example": 0}})


def test_configuration_round_trip_and_missing_file(tmp_path):
    given = config.from_plain({"train": {"steps": 7}, "data": {"path": "/x/007"}, "run_id": "0e1"})
    config.write(given, tmp_path / "config.yaml")
    assert config.read(tmp_path / "config.yaml") == given
    with pytest.raises(ValueError, match="no such file; a run folder is made by"):
        config.read(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("train: {steps: many}")
    with pytest.raises(ValueError, match=r"bad.yaml: train.steps"):
        config.read(tmp_path / "bad.yaml")


def test_staleness_bounds_of_the_schedules():
    every = {"handover": {"every": 100}}
    assert config.from_plain({**every, "schedule": "sync"}).staleness_bound == 99
    assert config.from_plain(every).staleness_bound is None
    assert config.from_plain({**every, "negatives": {"max_staleness": 150}}).staleness_bound == 150
    assert config.from_plain({**every, "schedule": "static"}).staleness_bound is None
