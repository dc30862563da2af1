"""Every shipped experiment composes to the values of the papers, and changes only what it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dance.config import Config, Sources
from launch.compose import compose, compose_stages, differences
from launch.overrides import CONF, choices, experiments

pytestmark = pytest.mark.xdist_group("hydra")  # one process, which keeps what it has composed

IN_STAGES = {"dance", "dance_small"}


def flat(plain: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in plain.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def named(folder: str, name: str) -> dict[str, Any]:
    return dict(flat(yaml.safe_load((CONF / folder / f"{name}.yaml").read_text())))


@pytest.mark.parametrize("name", experiments())
def test_experiment_composes_and_changes_what_it_names(name: str, tmp_path: Path) -> None:
    config = compose([f"experiment={name}"], tmp_path)
    changed = differences(Config(), config)
    assert set(changed) <= set(named("experiment", name)) | {"run_dir", "run_id", "data.prepared"}
    assert not named("experiment", name).keys() & {"launch.trainer_processes", "launch.inferencer_processes"}
    assert bool(compose_stages([f"experiment={name}"], tmp_path)) == (name in IN_STAGES)


def test_the_experiments_are_shipped() -> None:
    papers = ["ance_document", "ance_maxp", "ance_passage", "dance", "dance_document", "openqa", "warmup"]
    assert experiments() == sorted([*papers, "dance_small", "smoke"])


# batch, accumulation, rate, warm-up steps, steps between encoders, kept per query
PAPERS = {
    "ance_passage": (8, 2, 1e-6, 5000, 10_000, 20),
    "ance_document": (8, 2, 5e-6, 3000, 10_000, 20),
    "ance_maxp": (2, 8, 1e-5, 500, 10_000, 20),
    "openqa": (16, 1, 1e-5, 1000, 1000, 100),
    "dance_document": (4, 2, 5e-6, 3000, 5000, 20),
}


def check_lamb(config: Config) -> None:
    """As in ANCE's code: the norm counts for 10 at most, nothing is decayed."""
    train = config.train
    assert (train.optimizer, train.lamb_bound, train.weight_decay) == ("lamb", 10.0, 0.0)


def check_papers(config: Config, values: tuple[float, ...]) -> None:
    train = config.train
    found = (train.batch, train.accumulation, train.learning_rate, train.warmup_steps)
    assert (*found, config.handover.every, config.negatives.sample) == values
    assert config.checkpoint.every == config.handover.every
    assert (config.negatives.topk, config.negatives.per_example, config.negatives.queries_per_refresh) == (200, 1, 0.2)
    check_lamb(config)
    assert (train.clip, config.seed, config.model.pooling) == (1.0, 42, "cls")
    assert (config.draw.how, config.sources, config.loss.in_batch) == ("uniform", Sources(), False)
    assert config.model.query_max_tokens == 64


@pytest.mark.parametrize("name", PAPERS)
def test_papers_values(name: str, tmp_path: Path) -> None:
    config = compose([f"experiment={name}"], tmp_path)
    check_papers(config, PAPERS[name])
    assert (config.train.steps, config.train.decay) == (1_000_000, "linear")
    assert config.model.document_max_tokens == (256 if name == "openqa" else 512)
    assert config.model.head == (None if name == "openqa" else 768)
    assert config.model.document_template == ("pair" if name == "openqa" else "joined")
    assert config.evaluate.depth == (100 if name == "openqa" else 1000), "the papers report Recall@1000"


@pytest.mark.parametrize("name", experiments())
def test_lamb_comes_with_what_the_papers_code_gives_it(name: str, tmp_path: Path) -> None:
    arguments = [f"experiment={name}"]
    for config in [compose(arguments, tmp_path), *compose_stages(arguments, tmp_path).values()]:
        if config.train.optimizer == "lamb":
            check_lamb(config)
        else:
            assert config.train.lamb_bound is None


def test_maxp_has_four_chunks_and_openqa_two_towers(tmp_path: Path) -> None:
    maxp = compose(["experiment=ance_maxp"], tmp_path).model
    assert (maxp.chunks, maxp.chunking, maxp.towers) == (4, "raw", "one")
    openqa = compose(["experiment=openqa"], tmp_path).model
    assert (openqa.chunks, openqa.towers, openqa.normalize) == (1, "two", False)


def check_warmup(config: Config) -> None:
    train = config.train
    assert (train.batch, train.accumulation, train.learning_rate, train.warmup_steps) == (32, 1, 2e-4, 1000)
    check_lamb(config)
    assert (train.steps, config.model.document_max_tokens) == (60_000, 128)
    assert (config.sources, config.negatives.queries_per_refresh) == (Sources(ann=0.0, bm25=1.0), 1.0)


def test_the_stages_of_dance_have_the_papers_values(tmp_path: Path) -> None:
    found = compose_stages(["experiment=dance"], tmp_path)
    check_warmup(found["warmup"])
    check_papers(found["ance"], PAPERS["ance_document"])
    check_papers(found["normalise"], PAPERS["dance_document"])
    check_papers(found["dual"], PAPERS["dance_document"])
    assert {(c.model.path, c.model.head, c.data.dev_folds, c.evaluate.d2q) for c in found.values()} == {
        ("roberta-base", 768, 2, True)
    }
    assert {c.evaluate.depth for c in found.values()} == {1000}
    cosine = [(c.model.normalize, c.loss.temperature, c.loss.dual_weight) for c in found.values()]
    assert cosine == [(False, 1.0, 0.0), (False, 1.0, 0.0), (True, 0.01, 0.0), (True, 0.01, 0.1)]


def test_the_warm_up_alone_is_that_of_dance(tmp_path: Path) -> None:
    check_warmup(compose(["experiment=warmup"], tmp_path))


def test_the_stages_of_the_small_one(tmp_path: Path) -> None:
    found = compose_stages(["experiment=dance_small"], tmp_path)
    assert [c.negatives.per_example for c in found.values()] == [0, 2, 2, 2]
    assert [c.loss.dual_weight for c in found.values()] == [0, 0, 0, 0.1]
    assert all(c.model.normalize and c.loss.in_batch and c.data.dev_folds == 2 for c in found.values())
    assert found["normalise"].loss.temperature < found["ance"].loss.temperature == 0.05


def test_dance_uses_unit_vectors_at_a_low_temperature(tmp_path: Path) -> None:
    config = compose(["experiment=dance_document"], tmp_path)
    assert (config.model.normalize, config.loss.temperature) == (True, 0.01)


def test_smoke_is_the_default_and_takes_another_corpus(tmp_path: Path) -> None:
    config = compose([], tmp_path)
    assert config.model.layers == 5
    assert config.negatives.cold_start == "in_batch"
    (tmp_path / "mine").mkdir()
    assert compose(["data.path=mine"], tmp_path).data.path == str(tmp_path / "mine")


SOURCES = {
    "ann": (1, 0, 0, 0),
    "bm25": (0, 1, 0, 0),
    "random": (0, 0, 1, 0),
    "bm25_random": (0, 1, 1, 0),
    "given": (0, 0, 0, 1),
    "mixture": (2, 1, 1, 0),
    "in_batch": (0, 0, 0, 0),
}


@pytest.mark.parametrize("name", choices("negatives"))
def test_each_choice_of_negatives_names_every_source(name: str, tmp_path: Path) -> None:
    config = compose([f"negatives={name}"], tmp_path)
    source = config.sources
    assert (source.ann, source.bm25, source.random, source.given) == SOURCES[name]
    changed = differences(compose([], tmp_path), config).keys() - {"run_id", "run_dir"}
    assert changed <= set(named("negatives", name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["in_batch", "mixture"])  # the least and the most
def test_a_choice_goes_with_every_stage(name: str, tmp_path: Path) -> None:
    for config in compose_stages(["experiment=dance", f"negatives={name}"], tmp_path).values():
        assert (config.sources.ann, config.sources.bm25) == SOURCES[name][:2]


@pytest.mark.slow
def test_the_dual_stage_is_refused_with_given_negatives_before_anything_starts(tmp_path: Path) -> None:
    typed = ["experiment=dance", "negatives=given"]
    with pytest.raises(ValueError, match="stage dual: loss.dual_weight needs queries.*sources.given has none.*set"):
        compose_stages(typed, tmp_path)
    found = compose_stages([*typed, "stages.dual.sources.ann=1"], tmp_path)
    assert [(c.sources.given, c.sources.ann) for c in found.values()] == [(1, 0), (1, 0), (1, 0), (1, 1)]


def test_the_choice_comes_after_the_experiment_and_before_the_command_line(tmp_path: Path) -> None:
    config = compose(["experiment=warmup", "negatives=mixture", "sources.random=5", "negatives.topk=77"], tmp_path)
    assert config.sources == Sources(ann=2, bm25=1, random=5, given=0)
    assert config.negatives.topk == 77


def test_an_unknown_choice_names_the_one_meant(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="negatives=bm52: there are ann, bm25, .*did you mean bm25"):
        compose(["negatives=bm52"], tmp_path)
    with pytest.raises(ValueError, match="did you mean negatives.topk"):
        compose(["negatives.tokp=5"], tmp_path)
