"""The supervisor's rules, with short Python children in place of torchrun."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dance.paths import Role, RunPaths
from dance.stopping import hold_lock
from launch import processes
from launch.plan import RolePlan
from launch.supervise import Outcome, supervise

pytestmark = pytest.mark.slow
SLEEP = "import time; time.sleep(60)"
SAVES = "import signal, sys, time; signal.signal(15, lambda *a: sys.exit(143)); open(sys.argv[1], 'w'); time.sleep(60)"
SAVES_SLOWLY = """
import signal, sys, time
def save(*given):
    time.sleep(5)
    open(sys.argv[1], "w").write("saved")
    sys.exit(143)
signal.signal(15, save)
open(sys.argv[1], "w")
time.sleep(60)
"""
DEAF = "import signal, sys, time; signal.signal(15, signal.SIG_IGN); open(sys.argv[1], 'w'); time.sleep(60)"


class Runs:
    """One run folder; starts children that are given as code."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(root / "run")
        self.lock = self.paths.lock("launcher")
        self.ready = root / "ready"
        self.said: list[str] = []
        hold_lock(self.lock)

    def plan(self, role: Role, code: str) -> RolePlan:
        return RolePlan(role, (sys.executable, "-c", code, str(self.ready)), {}, self.paths.logs / f"{role}.log")

    def run(self, trainer: str, inferencer: str, grace: float = 20.0, send: list[int] | None = None) -> Outcome:
        pending = list(send or [])

        def tick() -> None:
            if pending and self.ready.exists():
                os.kill(os.getpid(), pending.pop(0))

        plans = [self.plan("trainer", trainer), self.plan("inferencer", inferencer)]
        outcome = supervise(plans, self.paths, self.lock, grace, tick, self.said.append)
        assert processes.family(self.lock) == {}
        return outcome


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_both_done_is_success_whoever_is_first(runs: Runs) -> None:
    assert runs.run("import time; time.sleep(0.4)", "pass") == Outcome(0)


def test_r10_first_failure_ends_the_other_role_and_is_named(runs: Runs) -> None:
    started = time.monotonic()
    outcome = runs.run(SLEEP, "raise RuntimeError('no space left')")
    assert time.monotonic() - started < 10
    assert outcome.code == 1
    assert "inferencer failed: RuntimeError: no space left" in outcome.message
    assert str(runs.paths.logs / "inferencer.log") in outcome.message
    assert "Traceback" in outcome.message


def test_r10_the_other_role_has_the_grace_of_a_stop_to_save_and_no_more(runs: Runs) -> None:
    fails = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.1)\nraise RuntimeError"
    assert runs.run(SAVES_SLOWLY, fails).code == 1
    assert "the other role saves and leaves (at most 20 s" in runs.said[0]
    assert runs.ready.read_text() == "saved"
    runs.ready.unlink()
    started = time.monotonic()
    assert "killed before it had saved: trainer" in runs.run(DEAF, fails, grace=0.3).message
    assert time.monotonic() - started < 4


def test_a_role_killed_by_a_signal_is_named_with_it(runs: Runs) -> None:
    outcome = runs.run("import os; os.kill(os.getpid(), 9)", SLEEP)
    assert outcome.code == 1
    assert "trainer failed: killed by SIGKILL" in outcome.message


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_both_save_and_leave(runs: Runs, number: int) -> None:
    outcome = runs.run(SAVES, SAVES, send=[number])
    assert outcome.code == 128 + number
    assert "saves" in runs.said[0]


def test_a_role_that_does_not_end_in_time_is_killed(runs: Runs) -> None:
    outcome = runs.run(DEAF, "pass", grace=0.3, send=[signal.SIGTERM])
    assert outcome.code == 1
    assert "killed before it had ended by itself: trainer" in outcome.message


def test_a_second_signal_does_not_wait(runs: Runs) -> None:
    started = time.monotonic()
    assert runs.run(DEAF, DEAF, grace=60, send=[signal.SIGINT, signal.SIGINT]).code == 1
    assert time.monotonic() - started < 10


def test_handlers_are_as_before(runs: Runs) -> None:
    before = signal.getsignal(signal.SIGTERM)
    runs.run("pass", "pass")
    assert signal.getsignal(signal.SIGTERM) is before


def test_grandchildren_in_other_sessions_do_not_survive(runs: Runs) -> None:
    spawn = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
    assert runs.run(spawn, "pass").code == 0


def test_leftovers_of_a_killed_launcher_are_ended_first(runs: Runs) -> None:
    orphan = processes.start(runs.plan("trainer", SLEEP), runs.lock)
    reaper = threading.Thread(target=orphan.wait)
    reaper.start()
    assert runs.run("pass", "pass").code == 0
    reaper.join(5)
    assert orphan.returncode == -signal.SIGKILL


def test_only_marked_processes_are_touched(runs: Runs) -> None:
    other = subprocess.Popen([sys.executable, "-c", SLEEP])
    try:
        runs.run("pass", "raise SystemExit(3)")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_output_of_an_earlier_start_is_kept_apart(runs: Runs) -> None:
    runs.run("print('first')", "pass")
    runs.run("print('second')", "pass")
    assert (runs.paths.logs / "trainer.log").read_text() == "second\n"
    assert (runs.paths.logs / "trainer.1.log").read_text() == "first\n"
