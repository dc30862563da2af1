"""Every shipped experiment composes to the values of the papers, and changes only what it names."""

from pathlib import Path

import pytest
import yaml

from dance.config import Config
from launch.compose import compose, differences
from launch.overrides import CONF, experiments


def flat(plain, prefix=""):
    for key, value in plain.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


@pytest.mark.parametrize("name", experiments())
def test_experiment_composes_and_changes_what_it_names(name: str, tmp_path: Path) -> None:
    config = compose([f"experiment={name}"], tmp_path)
    named = dict(flat(yaml.safe_load((CONF / "experiment" / f"{name}.yaml").read_text())))
    changed = differences(Config(), config)
    assert set(changed) <= set(named) | {"run_dir", "run_id", "data.prepared"}
    assert not named.keys() & {"launch.trainer_processes", "launch.inferencer_processes"}


def test_the_four_experiments_are_shipped() -> None:
    assert experiments() == ["ance_document", "ance_passage", "dance_document", "smoke"]


PAPERS = {
    "ance_passage": (8, 2, 1e-6, 5000, 10_000),
    "ance_document": (8, 2, 5e-6, 3000, 10_000),
    "dance_document": (4, 2, 5e-6, 3000, 5000),
}


@pytest.mark.parametrize("name", PAPERS)
def test_papers_values(name: str, tmp_path: Path) -> None:
    config = compose([f"experiment={name}"], tmp_path)
    train = config.train
    assert (train.batch, train.accumulation, train.learning_rate, train.warmup_steps) == PAPERS[name][:4]
    assert config.handover.every == config.checkpoint.every == PAPERS[name][4]
    assert (config.negatives.topk, config.negatives.sample, config.negatives.per_example) == (200, 20, 1)
    assert (config.negatives.queries_per_refresh, train.clip, train.steps) == (0.2, 1.0, 1_000_000)
    assert (config.model.query_max_tokens, config.model.document_max_tokens) == (64, 512)
    assert (config.model.head, config.model.pooling, config.seed) == (768, "cls", 42)


def test_dance_uses_unit_vectors_at_a_low_temperature(tmp_path: Path) -> None:
    config = compose(["experiment=dance_document"], tmp_path)
    assert (config.model.normalize, config.loss.temperature) == (True, 0.01)


def test_smoke_is_the_default_and_takes_another_corpus(tmp_path: Path) -> None:
    config = compose([], tmp_path)
    assert config.model.layers == 5
    assert config.negatives.cold_start == "in_batch"
    (tmp_path / "mine").mkdir()
    assert compose(["data.path=mine"], tmp_path).data.path == str(tmp_path / "mine")
