"""What a role leaves to look at: its records, and what it is doing right now."""

import resource
import time

import pytest

from dance import progress, tracking


def test_records_survive_a_cut_line_and_a_resume_forgets_the_future(tmp_path):
    path = tmp_path / "m.jsonl"
    for step in (1, 2, 3):
        tracking.append_line(path, {"step": step})
    with path.open("a") as file:
        file.write('{"step": 4, "lo')
    assert [record["step"] for record in tracking.read_lines(path)] == [1, 2, 3]
    tracking.forget_after(path, 3)
    tracking.append_line(path, {"step": 4})
    assert [record["step"] for record in tracking.read_lines(path)] == [1, 2, 3, 4], "not glued to what was cut"
    tracking.forget_after(path, 2)
    tracking.append_line(path, {"step": 3})
    assert [record["step"] for record in tracking.read_lines(path)] == [1, 2, 3]
    assert tracking.read_lines(tmp_path / "absent") == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # TensorBoard's thread dies of it
def test_a_full_disk_costs_records_and_views_but_neither_the_run_nor_other_lines(tmp_path, caplog):
    path, before = tmp_path / "m.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    reporter = progress.Reporter("trainer", tmp_path / "trainer.json", active=True)
    tracker = tracking.Tracker(path, tmp_path / "tb", active=True)
    tracker.record({"step": 1, "loss": 1.0})
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, before[1]))  # room for a part of a line
    try:
        tracking.note(path, {"step": 2})
        tracker.record({"step": 2, "loss": 1.0})
        tracker.record({"step": 2, "loss": 1.0})
        reporter.begin("train")
        reporter.begin("save")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    tracker.record({"step": 3, "loss": 1.0})
    tracker.close()
    assert path.read_bytes() == b'{"step":1,"loss":1.0}\n{"step":3,"loss":1.0}\n'
    for said in ("not noted", "metrics of step 2", "what this role is doing"):
        assert sum(said in record.message for record in caplog.records) == 1


def test_tracker_writes_both_sinks_and_stays_silent_off_rank_0(tmp_path):
    tracker = tracking.Tracker(tmp_path / "metrics" / "trainer.jsonl", tmp_path / "tb", active=True)
    tracker.record({"step": 1, "loss": 0.5, "staleness": None, "gaps": [1, 2]})
    tracker.close()
    assert tracking.read_lines(tmp_path / "metrics" / "trainer.jsonl") == [{"step": 1, "loss": 0.5, "gaps": [1, 2]}]
    assert list((tmp_path / "tb" / "trainer").glob("events*"))
    tracking.Tracker(tmp_path / "other" / "x.jsonl", tmp_path / "tb", active=False).record({"step": 1})
    assert not (tmp_path / "other").exists()


def test_progress_counts_its_rate_from_where_the_phase_began(tmp_path):
    reporter = progress.Reporter("trainer", tmp_path / "status" / "trainer.json", active=True)
    reporter.begin("train", 100, "steps", done=50, step=50)
    seen = progress.read(tmp_path / "status" / "trainer.json")
    assert seen.phase == "train" and seen.done == 50 and seen.per_second is None and seen.seconds_left is None
    time.sleep(0.6)
    reporter.update(60)
    seen = progress.read(tmp_path / "status" / "trainer.json")
    assert 0 < seen.per_second <= 10 / 0.6 and seen.seconds_left == pytest.approx(40 / seen.per_second)
    assert progress.read(tmp_path / "absent.json") is None
