"""Full passes: the same figures and files as a refresh that has the whole corpus at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dance import paths
from dance.encoder.embed import Interrupted
from dance.paths import RunPaths
from inferencer.passes import Passes
from inferencer.refresh import Refresher
from tests.refreshing import ENCODE, MAXP, context, make_home, make_ready, refresh, same, table
from tests.threads import ThreadWorld, together
from tests.tiers import others_slow

SHAPES: dict[str, dict[str, Any]] = {
    "maxp_d2q": {},
    "two_towers": {"model": {"towers": "two"} | MAXP},
    "folds_q2d": {"data": {"dev_folds": 2}, "evaluate": {"d2q": False}, "model": {"document_max_tokens": 48}},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("passes"))


def ready(home: Path, name: str, shape: str, fraction: float, steps: tuple[int, ...] = (20,)) -> RunPaths:
    given = {"model": MAXP, "evaluate": {}} | SHAPES[shape]
    model = {"query_max_tokens": 16, "pooling": "mean", "path": str(home / "model")} | given["model"]
    evaluate = {"every": 20} | given["evaluate"]
    more: dict[str, Any] = {
        "negatives": {"topk": 80},
        "data": given.get("data", {}),
        "encode": ENCODE,
        "refresh": {"fraction": fraction},
    }
    return make_ready(home, name, steps, model=model, evaluate=evaluate, **more)


def score(run: RunPaths, processes: int, step: int = 20) -> list[tuple[dict[str, Any], int]]:
    """(record, slices) of the pass at every rank."""

    def work(world: ThreadWorld) -> tuple[dict[str, Any], int]:
        agenda, slices = Passes(context(run, world)), 1
        agenda.note(step)
        while (record := agenda.advance()) is None:
            slices += 1
            assert agenda.holds == {step}
        assert not agenda.holds
        return record, slices

    return together(processes, work)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("shape", others_slow(SHAPES, "maxp_d2q"))
def test_a_full_pass_finds_to_the_last_bit_what_a_full_refresh_does(home: Path, shape: str, processes: int) -> None:
    whole = ready(home, f"{shape}-whole-{processes}", shape, 1.0)
    at_once = refresh(whole, due=True, steps=(20,))[0]
    sliced = ready(home, f"{shape}-sliced-{processes}", shape, 0.25)
    record, slices = score(sliced, processes)[0]
    metrics = {key: value for key, value in record.items() if key not in ("step", "evaluate_seconds")}
    assert metrics == {key: at_once[key] for key in metrics} and "ndcg@10" in metrics and record["step"] == 20
    assert ("d2q_ndcg@10" in metrics) == (shape != "folds_q2d")
    assert 4 < slices <= 4 + 3 + 1  # of the corpus, of the queries, the last word
    folders = [run.evaluation / paths.step_name(20) for run in (whole, sliced)]
    names = sorted(path.name for path in folders[0].iterdir())
    assert names == sorted(path.name for path in folders[1].iterdir())
    assert all((folders[0] / name).read_bytes() == (folders[1] / name).read_bytes() for name in names)


def test_a_refresh_between_two_slices_leaves_both_as_they_are(home: Path) -> None:
    alone, between = (ready(home, name, "maxp_d2q", 0.25, (20, 30)) for name in ("apart", "between"))

    def one_after_the_other(world: ThreadWorld) -> dict[str, Any]:
        made = context(between, world)
        agenda, refresher = Passes(made), Refresher(made)
        agenda.note(20)
        assert agenda.advance() is None and agenda.advance() is None
        refresher.refresh(30, 0, False)
        while (record := agenda.advance()) is None:
            pass
        return record

    found = together(2, one_after_the_other)[0]
    expected = score(alone, 1)[0][0]
    refresh(alone, 1, (30,), False)
    assert {**found, "evaluate_seconds": 0} == {**expected, "evaluate_seconds": 0}
    assert same(table(alone, 30).documents, table(between, 30).documents)


def test_queries_are_encoded_in_slices_too_where_they_are_much_beside_one_of_the_corpus(home: Path) -> None:
    few, many = (ready(home, f"parts-{parts}", "maxp_d2q", 1 / parts) for parts in (4, 16))
    (expected, fewer), (found, more) = score(few, 1)[0], score(many, 1)[0]
    assert fewer == 4 + 1 + 1 and more > 16 + 1 + 1
    assert {**found, "evaluate_seconds": 0} == {**expected, "evaluate_seconds": 0}


def test_a_stop_in_the_middle_is_heard_at_every_rank_and_ends_the_pass(home: Path) -> None:
    run = ready(home, "stopped", "maxp_d2q", 0.25)

    def work(world: ThreadWorld) -> int:
        made: Any = context(run, world)
        agenda = Passes(made)
        agenda.note(20)
        assert agenda.advance() is None
        if world.rank == 1:
            made.stop = type("Asked", (), {"requested": True})()
        for _ in range(2):  # nor does it go on later
            with pytest.raises(Interrupted):
                agenda.advance()
        return len(agenda.holds)

    assert together(2, work) == [1, 1]
    assert not run.evaluation.exists()


def test_a_pass_is_written_with_its_step(home: Path) -> None:
    run = ready(home, "written", "folds_q2d", 0.25)
    record = score(run, 1)[0][0]
    kept = msgspec.json.decode((run.evaluation / paths.step_name(20) / "metrics.json").read_bytes())
    assert kept == {key: value for key, value in record.items() if key != "evaluate_seconds"}
    assert record["evaluate_seconds"] > 0
