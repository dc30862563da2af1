"""The supervisor over real torchrun groups: whatever dies, all is quiet within ten seconds, and named."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dance.paths import RunPaths
from launch import processes

pytestmark = pytest.mark.slow

# A role that enters and leaves as the real ones do, and works in collectives until it is asked to end.
ROLE = """
import os, time
from pathlib import Path
import torch, torch.distributed as dist
from dance import log
from dance.entry import enter
from dance.stopping import STOPPED, Stop
from dance.world import joined

role = Path(__file__).stem

def work(run):
    stop, root = Stop(20), run.root
    with joined(60) as world:
        log.start(role, world.rank, run.log(role, world.rank))
        value = torch.zeros(1)
        while not value.item():
            (root / f"{role}-{world.rank}.pid").write_text(str(os.getpid()))
            if (root / f"raise-{role}-{world.rank}").exists():
                raise RuntimeError(f"row 7 of rank {world.rank} is odd")
            value = torch.tensor([1.0 if stop.requested else 0.0])
            dist.all_reduce(value, op=dist.ReduceOp.MAX)
            time.sleep(0.05)
        if world.leads:
            (root / f"{role}-saved").write_text("")
    return STOPPED

enter(role, work)
"""

LAUNCHER = """
import sys
from pathlib import Path
from dance.config import Config, Launch
from dance.paths import RunPaths
from dance.stopping import hold_lock
from launch.machine import Machine
from launch.plan import plan
from launch.supervise import supervise

paths = RunPaths(Path(sys.argv[1]))
handle = hold_lock(paths.lock("launcher"))
config = Config(run_dir=str(paths.root), launch=Launch(trainer_processes=2, inferencer_processes=1))
outcome = supervise(plan(config, paths, Machine(2)), paths, paths.lock("launcher"), 20.0)
print(outcome.message, flush=True)
sys.exit(outcome.code)
"""


class Launched:
    """A launcher in a process of its own, with both roles at work."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(root / "run")
        for role in ("trainer", "inferencer"):
            (root / f"{role}.py").write_text(ROLE)
        (root / "start.py").write_text(LAUNCHER)
        source = Path(__file__).resolve().parents[2]
        environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{source}", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(root / "start.py"), str(self.paths.root)],
            env=environment, cwd=root, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.ranks = {name: self._pid(name) for name in ("trainer-0", "trainer-1", "inferencer-0")}

    def _pid(self, name: str) -> int:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            text = self._read(f"{name}.pid")
            if text:
                return int(text)
            time.sleep(0.1)
        raise AssertionError(f"{name} did not start")

    def _read(self, name: str) -> str:
        path = self.paths.root / name
        return path.read_text() if path.exists() else ""

    def torchrun(self, role: str) -> int:
        return psutil.Process(self.ranks[f"{role}-0"]).ppid()

    def ends(self, started: float) -> tuple[int, str]:
        """Exit code and message; all is quiet within ten seconds of ``started``."""
        code = self.process.wait(15)
        while processes.family(self.paths.lock("launcher")):
            assert time.monotonic() - started < 10, processes.family(self.paths.lock("launcher")).keys()
            time.sleep(0.05)
        assert time.monotonic() - started < 10
        assert self.process.stdout is not None
        return code, self.process.stdout.read()


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Launched]:
    started = Launched(tmp_path)
    yield started
    started.process.kill()
    processes.end(started.paths.lock("launcher"))


@pytest.mark.parametrize("name", ["trainer-0", "trainer-1", "inferencer-0"])
def test_r10_sigkill_of_a_rank(launched: Launched, name: str) -> None:
    started = time.monotonic()
    os.kill(launched.ranks[name], signal.SIGKILL)
    code, message = launched.ends(started)
    role, rank = name.split("-")
    assert code == 1
    assert f"{role} rank {rank} failed: killed by SIGKILL" in message
    assert str(launched.paths.logs) in message


def test_r10_exception_in_a_rank(launched: Launched) -> None:
    started = time.monotonic()
    (launched.paths.root / "raise-trainer-1").touch()
    code, message = launched.ends(started)
    assert code == 1
    assert "trainer rank 1 failed: RuntimeError: row 7 of rank 1 is odd" in message
    assert re.search(r"\n +Traceback", message)


@pytest.mark.parametrize("role", ["trainer", "inferencer"])
def test_sigkill_of_torchrun(launched: Launched, role: str) -> None:
    started = time.monotonic()
    os.kill(launched.torchrun(role), signal.SIGKILL)
    code, message = launched.ends(started)
    assert code == 1
    assert f"{role} failed: killed by SIGKILL" in message


def test_sigkill_of_the_launcher(launched: Launched) -> None:
    started = time.monotonic()
    launched.process.kill()
    assert launched.ends(started)[0] == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_launcher_saves(launched: Launched, number: signal.Signals) -> None:
    started = time.monotonic()
    launched.process.send_signal(number)
    code, message = launched.ends(started)
    assert code == 128 + number
    assert f"stopped by {number.name}" in message
    assert (launched.paths.root / "trainer-saved").exists()
    assert (launched.paths.root / "inferencer-saved").exists()


def test_a_rank_that_does_not_obey_torchrun_is_killed_in_seconds(launched: Launched) -> None:
    """As one does that is stuck in native code: torchrun alone would wait for it for half a minute."""
    os.kill(launched.ranks["trainer-0"], signal.SIGSTOP)
    started = time.monotonic()
    os.kill(launched.ranks["trainer-1"], signal.SIGKILL)
    code, message = launched.ends(started)
    assert code == 1 and "trainer rank 1 failed: killed by SIGKILL" in message
