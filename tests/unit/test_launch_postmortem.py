"""Who failed first, and why, out of what torchrun and the ranks wrote."""

from pathlib import Path

import pytest

from dance.paths import RunPaths
from launch.plan import RolePlan
from launch.postmortem import clean_stop, examine, exit_codes, tail


def report(*entries: tuple[int, int], root: int = 0) -> str:
    """As torchrun prints it: all but its root cause, then that."""
    blocks = [
        f"[{number}]:\n  time      : 2026-01-01_00:00:00\n  host      : here\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 1)\n  error_file: <N/A>\n"
        for number, (rank, code) in enumerate(entries)
    ]
    first = blocks.pop(root)
    return "=====\ntrainer FAILED\n-----\nFailures:\n" + "".join(blocks) + "-----\nRoot Cause\n" + first


def plan(tmp_path: Path, text: str) -> RolePlan:
    output = tmp_path / "logs" / "trainer.log"
    output.parent.mkdir(exist_ok=True)
    output.write_text(text)
    return RolePlan("trainer", (), {}, output)


TRACE = "[trainer{}]:Traceback (most recent call last):\n[trainer{}]:  File\n"
LOST = TRACE.format(0, 0) + "[trainer0]:RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:1\n"


def test_r10_an_exception_is_told_from_the_lost_connections_it_causes(tmp_path: Path) -> None:
    text = LOST + "[trainer1]:Traceback (most recent call last):\n[trainer1]:ValueError: bad row 3\n"
    failure = examine(plan(tmp_path, text + report((0, 1), (1, 1))), 1, RunPaths(tmp_path))
    assert (failure.rank, failure.cause) == (1, "ValueError: bad row 3")
    assert failure.lines[-1] == "ValueError: bad row 3"


def test_a_death_by_signal_explains_exceptions_elsewhere(tmp_path: Path) -> None:
    text = TRACE.format(0, 0) + "[trainer0]:RuntimeError: something odd\n" + report((0, 1), (1, -9), (2, -15))
    failure = examine(plan(tmp_path, text), 1, RunPaths(tmp_path))
    assert failure.rank == 1
    assert failure.cause.startswith("killed by SIGKILL")


def test_an_abort_is_not_taken_for_the_cause(tmp_path: Path) -> None:
    text = TRACE.format(1, 1) + "[trainer1]:torch.OutOfMemoryError: CUDA out of memory\n" + report((0, -6), (1, 1))
    failure = examine(plan(tmp_path, text), 1, RunPaths(tmp_path))
    assert (failure.rank, failure.cause) == (1, "torch.OutOfMemoryError: CUDA out of memory")


def test_an_exception_is_the_cause_of_the_abort_that_follows_it(tmp_path: Path) -> None:
    text = LOST + TRACE.format(1, 1) + "[trainer1]:ValueError: bad row 3\n[trainer1]:Fatal Python error: Aborted\n"
    failure = examine(plan(tmp_path, text + report((0, 1), (1, -6))), 1, RunPaths(tmp_path))
    assert (failure.rank, failure.cause) == (1, "ValueError: bad row 3 (then killed by SIGABRT)")


def test_the_log_of_the_rank_is_shown_where_it_says_more(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    made = plan(tmp_path, "[trainer1]:hello\n" + report((1, -11)))
    paths.log("trainer", 1).write_text("".join(f"line {n}\n" for n in range(50)))
    failure = examine(made, 1, paths)
    assert failure.log == paths.log("trainer", 1)
    assert failure.lines == tuple(f"line {n}" for n in range(35, 50))
    assert str(failure).startswith("trainer rank 1 failed: killed by SIGSEGV")


def test_bad_input_is_the_cause_as_it_was_logged(tmp_path: Path) -> None:
    text = "[trainer0]:10:00:00 trainer 0 ERROR model.layers=9: it has 6\n" + report((0, 2))
    assert examine(plan(tmp_path, text), 1, RunPaths(tmp_path)).cause == "model.layers=9: it has 6"


def test_torchrun_itself_killed(tmp_path: Path) -> None:
    failure = examine(plan(tmp_path, "hello\n"), -9, RunPaths(tmp_path))
    assert (failure.rank, failure.lines) == (None, ("hello",))
    assert "SIGKILL" in failure.cause


@pytest.mark.parametrize(
    ("codes", "clean"),
    [(((0, 143), (1, 143)), True), (((0, 143), (1, -9)), False), (((0, 143), (1, -15)), True)],
)
def test_clean_stop_is_one_of_every_rank(tmp_path: Path, codes: tuple[tuple[int, int], ...], clean: bool) -> None:
    assert clean_stop(plan(tmp_path, report(*codes)), 1) is clean


def test_only_the_last_report_counts_and_no_report_is_none() -> None:
    assert exit_codes((report((0, 1)) + report((3, 2))).splitlines()) == [(3, 2)]
    assert exit_codes(["rank : 3"]) == []


def test_a_long_log_is_read_from_its_end(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 1_000_000 + "\nlast\n")
    assert tail(tmp_path / "long")[-1] == "last"
    assert tail(tmp_path / "absent") == []
