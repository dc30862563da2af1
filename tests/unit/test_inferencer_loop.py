"""What the Inferencer does in which order, and what it remembers, with stand-ins for all that computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dance import artefact
from dance.encoder.embed import Interrupted
from dance.exchange import Peer
from dance.tracking import read_lines
from inferencer import passes
from inferencer.best import Best
from inferencer.loop import Loop
from inferencer.passes import Passes
from tests.fakes import FakeContext, FakePublisher, FakeStop, FakeSubscriber

SLICES = 4  # of a full pass


class FakePass:
    """Slices that are noted; the third is cut short where that is asked for."""

    def __init__(self, context: Any, step: int) -> None:
        self.step, self.context, self.done = step, context, 0

    def advance(self) -> bool:
        if self.done == 2 and getattr(self.context, "cut", None) == self.step:
            raise Interrupted
        self.done += 1
        self.context.events.append(f"slice {self.done} of {self.step}")
        return self.done < SLICES

    def record(self) -> dict[str, Any]:
        return {"step": self.step, "ndcg@10": 0.5 + self.step / 1000, "evaluate_seconds": 1.0}


class FakeRefresher:
    def __init__(self, context: FakeContext) -> None:
        self.context = context

    def refresh(self, step: int, turn: int, due: bool) -> dict[str, Any]:
        self.context.events.append(f"refresh {turn} of {step}{' due' if due else ''}")
        return {"step": step, "turn": turn}


class FakeTracker:
    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self, scalars: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(scalars) + b"\n")


class FakeReporter:
    def begin(self, *told: Any, **facts: Any) -> None: ...

    def update(self, done: int) -> None: ...


def loop(context: FakeContext, held: list, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> Loop:
    """``held``: the newest encoder at each look."""
    monkeypatch.setattr(passes, "FullPass", FakePass)
    for step in set(held) - {None}:
        with artefact.publishing(context.paths.published("encoders", step), "encoder", step):
            pass
    made: Any = context
    tracker: Any = FakeTracker(context.paths.metrics("inferencer"))
    parts: list[Any] = [made.world, made.paths, FakeRefresher(context), Passes(made), FakePublisher()]
    return Loop(made.config, *parts, FakeSubscriber(held, peer), tracker, FakeReporter(), FakeStop())  # type: ignore[arg-type]


LAST = Peer(last_seen=0.0, step=100, final=True)


def test_a_newer_encoder_interrupts_a_full_pass_after_one_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = FakeContext(tmp_path)
    made = loop(context, [0, 0, 50, 50, 50, 100], LAST, monkeypatch)
    assert made.run()
    assert context.events == [
        "refresh 0 of 0 due", "slice 1 of 0", "slice 2 of 0",
        "refresh 1 of 50", "slice 3 of 0", "slice 4 of 0",
        "slice 1 of 100", "slice 2 of 100", "slice 3 of 100", "slice 4 of 100", "refresh 2 of 100 due",
    ]  # fmt: skip
    lines = read_lines(context.paths.metrics("inferencer"))
    assert [line["step"] for line in lines if "turn" in line] == [0, 50, 100]
    assert [line["step"] for line in lines if "ndcg@10" in line] == [0, 100]
    assert msgspec.json.decode(context.paths.best.read_bytes()) == {"step": 100, "ndcg@10": 0.6}


def test_an_encoder_is_held_until_it_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loop(FakeContext(tmp_path), [0, 0, 0, 0, 0, 50, 100], LAST, monkeypatch)
    assert made.run()
    said: list[Any] = made.publisher.said  # type: ignore[union-attr]
    by_done = {done: facts["holds"] for done, facts in said if facts["phase"] == "wait"}  # the last words at each step
    assert by_done[0] == {0} and by_done[50] == {100}  # then it is the best
    assert (50, {0, 100}) in [(done, facts["holds"]) for done, facts in said] and said[-1][1]["holds"] == {100}
    assert said[-1][0] == 100 and made.subscriber.released[-1] == {100}  # type: ignore[union-attr]


def test_a_pass_goes_on_however_fast_encoders_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: dict[str, Any] = {"train": {"steps": 400, "batch": 2}}
    context = FakeContext(tmp_path, **groups)
    peer = Peer(last_seen=0.0, step=400, final=True)
    assert loop(context, [0, 50, 100, 150, 200, 250, 400], peer, monkeypatch).run()
    first = context.events.index("slice 4 of 0")
    assert sum(event.startswith("refresh") for event in context.events[:first]) == 4
    scored = [event for event in context.events if event.startswith("slice 4")]
    assert scored == ["slice 4 of 0", "slice 4 of 200", "slice 4 of 400"]  # 100 gave way to 200


def test_the_last_encoder_is_scored_when_the_trainer_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = FakeContext(tmp_path)
    gone = Peer(last_seen=0.0, step=100, final=True, phase="finished", finished=True)
    made = loop(context, [100], gone, monkeypatch)
    made.done, made.passes.waiting = 100, 100
    monkeypatch.setattr(Loop, "rewind", lambda self: None)
    assert made.run() and context.events[-1] == "slice 4 of 100"


def test_a_pass_that_is_cut_short_leaves_the_run_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = FakeContext(tmp_path)
    context.cut = 100  # type: ignore[attr-defined]
    assert not loop(context, [0, 0, 0, 0, 0, 100], LAST, monkeypatch).run()
    assert context.events[-1] == "slice 2 of 100"
    del context.cut  # type: ignore[attr-defined]
    context.events.clear()
    for step in (0, 100):
        with artefact.publishing(context.paths.published("negatives", step), "negatives", step, {"turn": step // 100}):
            pass
    again = loop(context, [100], LAST, monkeypatch)
    assert again.run() and again.turn == 2
    assert context.events == [f"slice {number} of 100" for number in (1, 2, 3, 4)]


def test_a_reproducible_run_scores_all_that_are_due_before_it_goes_on(tmp_path: Path, monkeypatch: Any) -> None:
    context = FakeContext(tmp_path, schedule="sync", train={"steps": 200, "batch": 2})
    assert loop(context, [0, 50, 100, 200], Peer(last_seen=0.0, step=200, final=True), monkeypatch).run()
    passes = {step: [f"slice {number} of {step}" for number in (1, 2, 3, 4)] for step in (0, 100, 200)}
    assert context.events == [
        *passes[0], "refresh 0 of 0 due", "refresh 1 of 50",
        *passes[100], "refresh 2 of 100 due", *passes[200], "refresh 3 of 200 due",
    ]  # fmt: skip


def test_the_encoder_at_work_is_held_while_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loop(FakeContext(tmp_path, refresh={"fraction": 1.0}, evaluate={}), [0, 50, 100], LAST, monkeypatch)
    assert made.run()
    said: list[Any] = made.publisher.said  # type: ignore[union-attr]
    assert [facts["holds"] for _, facts in said if facts["phase"].startswith("refresh")] == [{0}, {50}, {100}]


def test_a_changed_fraction_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    context = FakeContext(tmp_path)
    facts = {"turn": 0, "refresh_fraction": 0.5}
    with artefact.publishing(context.paths.published("negatives", 0), "negatives", 0, facts):
        pass
    loop(context, [0], Peer(last_seen=0.0, step=0), monkeypatch).rewind()
    assert "refresh.fraction was 0.5 and is 0.25 from here on" in caplog.text


# -- the best --------------------------------------------------------------------------------------------------------


def record(step: int, **metrics: float) -> dict[str, Any]:
    return {"step": step, "documents_per_second": 9.0, **{name.replace("_at_", "@"): v for name, v in metrics.items()}}


@pytest.mark.parametrize(
    ("records", "best"),
    [
        (
            [record(0, ndcg_at_10=0.2), record(5, ndcg_at_10=0.4), record(7), record(9, ndcg_at_10=0.3)],
            {"step": 5, "ndcg@10": 0.4},
        ),
        (
            [record(0, ndcg_at_10=0.9, select_ndcg_at_10=0.1), record(5, ndcg_at_10=0.4, select_ndcg_at_10=0.2)],
            {"step": 5, "ndcg@10": 0.4, "select_ndcg@10": 0.2},
        ),
        ([record(0, coverage_at_20=0.5), record(5, coverage_at_20=0.5)], {"step": 0, "coverage@20": 0.5}),
        (  # answers tell more than judgements
            [record(0, ndcg_at_10=0.9, coverage_at_20=0.5), record(5, ndcg_at_10=0.4, coverage_at_20=0.6)],
            {"step": 5, "ndcg@10": 0.4, "coverage@20": 0.6},
        ),
        ([record(0, ndcg_at_10=0.2), record(5, sample_ndcg_at_10=0.9)], {"step": 0, "ndcg@10": 0.2}),
    ],
)
def test_the_best_is_chosen_by_the_fold_that_selects_over_all_documents(
    tmp_path: Path, records: list[dict], best: dict
) -> None:
    made = Best(tmp_path / "best.json", active=True)
    made.recall(records, 5)
    assert msgspec.json.decode(made.path.read_bytes()) == best and made.step == best["step"]


def test_the_best_stays_it_without_its_record_but_not_from_a_future_that_is_given_up(tmp_path: Path) -> None:
    made = Best(tmp_path / "best.json", active=True)
    made.note(record(5, ndcg_at_10=0.9))
    made.recall([record(0, ndcg_at_10=0.2)], 5)
    assert made.step == 5
    made.recall([record(0, ndcg_at_10=0.2)], 4)
    assert made.step == 0


def test_a_static_run_has_no_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = FakeContext(tmp_path, schedule="static")
    assert loop(context, [0], Peer(last_seen=0.0, step=0), monkeypatch).run()
    assert context.events == ["refresh 0 of 0 due", *(f"slice {number} of 0" for number in (1, 2, 3, 4))]
    assert not context.paths.best.exists()
