"""What a person sees of a run, from status and metrics files."""

import dataclasses
import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from dance.paths import RunPaths
from dance.progress import Progress
from launch import terminal, view
from launch.picture import clock, dev_line, one_line, panel, refresh_line
from launch.snapshot import Snapshot, look

NOW = 1000.0
TRAINER = Progress(
    role="trainer", phase="train", done=240, total=600, unit="steps", step=240, total_steps=600, loss=1.23456,
    examples_per_second=118.4, negatives_step=200, staleness=40, updated_at=NOW,
)  # fmt: skip
INFERENCER = Progress(
    role="inferencer", phase="encode", done=3200, total=6000, unit="documents", per_second=450.0, step=200,
    updated_at=NOW,
)  # fmt: skip
REFRESHES = tuple({"step": step, "ndcg@10": 0.4 + step / 1000} for step in range(0, 200, 100))


def seen(**changed: object) -> Snapshot:
    whole = Snapshot(TRAINER, INFERENCER, 0.25, REFRESHES, NOW)
    return dataclasses.replace(whole, **changed)  # type: ignore[arg-type]


def drawn(snapshot: Snapshot, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(panel(snapshot, "dance x", 0.48))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_both_roles_with_everything_that_is_asked() -> None:
    for text in (drawn(seen()), one_line(seen())):
        for fact in (
            "train",
            "240/600 steps",
            "1:30 left",
            "loss 1.2346",
            "118 examples/s",
            "step 200, 40 steps old",
        ):
            assert fact in text
        for fact in (
            "encode",
            "3,200/6,000 documents",
            "0:06 left",
            "encoder of step 200",
            "450 documents/s",
        ):
            assert fact in text


def test_metric_so_far_stands_beside_bm25() -> None:
    assert "0: 0.400  100: 0.500   (BM25 0.480)" in drawn(seen())
    assert "not yet" in dev_line(seen(refreshes=()), None)
    many = tuple({"step": step, "ndcg@10": 0.5} for step in range(20))
    line = dev_line(seen(refreshes=many), None)
    assert "  0: " in line and "  19: " in line and "  10: " not in line


def test_before_the_roles_start_and_in_every_width() -> None:
    for width in (40, 80, 200):
        for text in (drawn(seen(trainer=None, inferencer=None), width), drawn(seen(), width)):
            assert all(len(line) <= width for line in text.splitlines())
    assert "starting" in drawn(seen(trainer=None, inferencer=None))


def test_a07_silence_is_shown_with_its_age() -> None:
    assert "no sign for 2:00" in one_line(seen(now=NOW + 120))
    ended = msgspec.structs.replace(TRAINER, phase="finished", done=600, step=600)
    assert "no sign" not in one_line(seen(trainer=ended, inferencer=None, now=NOW + 120))
    assert "left" not in one_line(seen(trainer=ended, inferencer=None))


def test_waiting_says_for_what() -> None:
    waiting = Progress(role="trainer", phase="wait", message="for negatives of step 100", updated_at=NOW)
    assert "trainer: wait for negatives of step 100" in one_line(seen(trainer=waiting))


def test_a_refresh_that_ended() -> None:
    record = {"step": 100, "ndcg@10": 0.5, "mrr@10": 0.4, "recall@100": 0.9, "encode_seconds": 12.3}
    assert refresh_line(record) == "refresh of step 100: NDCG@10 0.500, MRR@10 0.400, Recall@100 0.900 (encode 12.3 s)"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (65, "1:05"), (7384, "2:03:04"), (273_600, "3 d 04 h"), (-1, "0:00")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def write(paths: RunPaths) -> None:
    for role in (TRAINER, INFERENCER):
        paths.status(role.role).parent.mkdir(parents=True, exist_ok=True)
        paths.status(role.role).write_bytes(msgspec.json.encode(role))
    paths.metrics("trainer").parent.mkdir(parents=True)
    steps = [{"step": step, "seconds": 5.0} for step in range(10, 250, 10)]
    paths.metrics("trainer").write_bytes(b"".join(msgspec.json.encode(s) + b"\n" for s in steps))
    paths.metrics("inferencer").write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in REFRESHES))


def test_look_reads_the_files_of_a_run(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert look(paths).trainer is None
    write(paths)
    found = look(paths)
    assert (found.trainer, found.inferencer, found.refreshes) == (TRAINER, INFERENCER, REFRESHES)
    assert found.seconds_per_step == 0.5


def test_a_status_of_an_earlier_start_is_not_shown(tmp_path: Path) -> None:
    write(RunPaths(tmp_path))
    assert look(RunPaths(tmp_path), since=NOW + 1).trainer is None


def test_a_metrics_line_cut_short_is_no_trouble(tmp_path: Path) -> None:
    write(RunPaths(tmp_path))
    with RunPaths(tmp_path).metrics("trainer").open("ab") as file:
        file.write(b'{"step": 250, "sec')
    assert look(RunPaths(tmp_path)).seconds_per_step == 0.5


def test_plain_lines_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(terminal, "say", said.append)
    monkeypatch.setattr(view, "_LINE_SECONDS", 0.0)
    monkeypatch.setattr(view, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(view.time, "time", lambda: NOW)
    with view.watching(RunPaths(tmp_path), "x", None) as tick:
        tick()
        write(RunPaths(tmp_path))
        tick()
    assert said[0].endswith("trainer: starting | inferencer: starting")
    assert [line for line in said if "refresh of step 100" in line]
    assert "240/600" in said[-1]
