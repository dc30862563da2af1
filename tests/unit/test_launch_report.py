"""The end of a run, and `dance status`, from what lies in a run folder."""

import io
import os
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from rich.console import Console

from dance import config as schema
from dance.config import Config
from dance.paths import RunPaths
from dance.progress import Progress
from dance.stopping import hold_lock
from launch import report, status
from launch.picture import refresh_line, scored

BM25 = {"ndcg@10": 0.48, "mrr@10": 0.4, "recall@100": 0.9}


def drawn(table: object) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def records(count: int) -> list[dict[str, float]]:
    return [{"step": 10 * n, "ndcg@10": n / 100, "mrr@10": 0.1, "recall@100": 0.2} for n in range(count)]


def test_every_refresh_stands_beside_bm25() -> None:
    text = drawn(report.table(records(3), 20, BM25))
    assert "step 0 (before training)" in text
    assert "step 20 (best)" in text
    assert "0.4800" in text
    assert text.index("BM25") > text.index("step 20")


def test_a_long_run_shows_its_first_best_and_last() -> None:
    text = drawn(report.table(records(500), 1230, None))
    assert text.count("step ") <= 17
    for step in ("step 0 ", "step 1230 (best)", "step 4990"):
        assert step in text


def test_both_directions_are_shown_where_both_were_measured() -> None:
    both = [record | {"d2q_ndcg@10": 0.33} for record in records(3)]
    text = drawn(report.table(both, 20, BM25))
    assert "d2q NDCG@10" in text and "0.3300" in text and "Coverage" not in text
    assert "d2q" not in drawn(report.table(records(3), 20, BM25))
    answers = drawn(report.table([record | {"coverage@20": 0.66} for record in records(2)], 10, None))
    assert "Coverage@20" in answers and "0.6600" in answers


def test_of_two_halves_the_one_is_reported_that_does_not_choose() -> None:
    halves = [record | {"select_ndcg@10": 0.77, "report_ndcg@10": 0.55} for record in records(2)]
    text = drawn(report.table(halves, 10, BM25 | {"report_ndcg@10": 0.44}))
    assert "0.5500" in text and "0.4400" in text and "0.77" not in text and "0.4800" not in text
    assert "the reporting half" in text


def test_an_encoder_that_training_did_not_better_is_said_to_be_the_best() -> None:
    assert "step 0 (before training, best)" in drawn(report.table(records(2), 0, None))


def _lines(path: Path, lines: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def test_summary_says_what_waiting_cost(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    _lines(paths.journal, [{"step": 10, "negatives_step": 0}])
    trained = [
        {"step": 10, "seconds": 60.0, "wait_seconds": 0.5, "adopt_seconds": 0.49, "handover_seconds": 1.98},
        {"step": 20, "seconds": 39.0, "wait_seconds": 0.0, "adopt_seconds": 0.0, "staleness": 9},
        {"step": 30, "staleness": 19},
    ]
    _lines(paths.metrics("trainer"), trained)
    assert report.summary(paths, records(2), 125) == [
        "2:05 in all, 2 refreshes, negatives adopted 1 times, 14 steps old at the median",
        "of the Trainer's time: 1.0% waiting for and adopting them, 2.0% handing encoders over",
    ]
    assert len(report.summary(RunPaths(tmp_path / "other"), [], 1)) == 1


def _artefact(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")


def test_the_best_encoder_is_shown_or_else_the_newest(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert report.encoder_lines(paths, None) == []
    _artefact(paths.published("encoders", 10))
    _artefact(paths.published("encoders", 20))
    assert str(paths.published("encoders", 20)) in report.encoder_lines(paths, None)[1]
    paths.best.write_bytes(b'{"step":10,"ndcg@10":0.5}')
    assert str(paths.published("encoders", 10)) in report.encoder_lines(paths, report.best_step(paths))[1]


def _run(paths: RunPaths, step: int, ranked: dict[str, list[str]]) -> None:
    path = paths.evaluation / f"step_{step:08d}" / "run.trec"
    path.parent.mkdir(parents=True)
    lines = [f"{q} Q0 {d} {rank} {9 - rank} dance\n" for q, ds in ranked.items() for rank, d in enumerate(ds, start=1)]
    path.write_text("".join(lines))


def collection() -> SimpleNamespace:
    qrels = SimpleNamespace(relevant=lambda query: np.array([2]))
    return SimpleNamespace(
        document_ids=["a b", "d1", "d2", "d3"], titles=["", "one", "two", "three"], texts=["long  text", "", "", ""],
        query_ids=["q0", "q1"], queries=["what?", "which?"], splits={"dev": qrels},
    )  # fmt: skip


def test_queries_before_and_after_with_their_titles(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    _run(paths, 0, {"q0": ["d1", "a%20b", "d3", "d2"], "q1": ["d1"]})
    assert report.examples(paths, collection(), "dev") == []  # type: ignore[arg-type]
    _run(paths, 10, {"q0": ["d2", "d1"], "q1": ["d3"]})
    shown = report.examples(paths, collection(), "dev")  # type: ignore[arg-type]
    assert "what?" in shown
    assert "  before 2   long text" in shown
    assert "   after 1 * two" in shown


def test_queries_are_spread_and_not_chosen() -> None:
    assert report.spread([str(n) for n in range(9)]) == ["1", "4", "7"]
    assert report.spread(["a"]) == ["a"]
    assert report.spread([]) == []


def _started(tmp_path: Path, phase: str) -> RunPaths:
    paths = RunPaths(tmp_path)
    schema.write(Config(run_dir=str(tmp_path)), paths.config)
    paths.status("trainer").parent.mkdir()
    paths.status("trainer").write_bytes(msgspec.json.encode(Progress(role="trainer", phase=phase, host="h", pid=7)))
    return paths


def test_status_tells_the_living_from_the_dead(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = _started(tmp_path, "train")
    handle = hold_lock(paths.lock("launcher"))
    assert status.main(str(tmp_path)) == 0
    assert f"{tmp_path}: running" in capfd.readouterr().out
    os.close(handle)
    assert status.main(str(tmp_path)) == 1
    told = capfd.readouterr().out
    assert f"{tmp_path}: dead" in told
    assert "resume=true" in told
    assert "trainer on h, process 7" in told


@pytest.mark.parametrize(("phase", "state"), [("stopped", "stopped"), ("finished", "stopped"), ("save", "dead")])
def test_how_a_run_ended(tmp_path: Path, phase: str, state: str) -> None:
    paths = _started(tmp_path, phase)
    assert status.condition(paths) == state
    paths.finished.touch()
    assert status.condition(paths) == "finished"


def test_a_damaged_status_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = _started(tmp_path, "train")
    paths.status("inferencer").write_bytes(b'{"role": "infer')
    status.main(str(tmp_path))
    shown = capfd.readouterr().out
    assert f"{paths.status('inferencer')}: damaged" in shown and "trainer on h, process 7" in shown


def test_status_of_no_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file; a run folder is made by"):
        status.main(str(tmp_path))


def test_lines_without_metrics_are_refreshes_and_no_rows() -> None:
    mined = {"step": 50, "refresh_seconds": 2.0, "sample_ndcg@10": 0.9}
    alone = {"step": 100, "ndcg@10": 0.5, "evaluate_seconds": 9.0}
    assert scored([mined, alone]) == [alone]
    assert refresh_line(mined) == "refresh of step 50: NDCG@10 on a sample 0.900 ()"
    assert refresh_line(alone) == "evaluation of step 100: NDCG@10 0.500 (evaluate 9.0 s)"
    assert refresh_line({"step": 25, "mine_seconds": 0.1}) == "refresh of step 25: mined (mine 0.1 s)"
