"""Whole runs: by sockets alone, by the command, through kills; each in real processes."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from dance import paths, progress, tracking
from launch import processes
from tests.exchanging import free_port
from tests.proxy import Damage, proxy
from tests.running import ROOT, finish, make_run, plain, records, start, wait_until

pytestmark = pytest.mark.slow


def test_roles_started_by_hand_meet_over_sockets_alone(tmp_path):
    """Two folders that share nothing; a bit flips in the files that go each way, and they are fetched again."""
    ports = {"encoders": free_port(), "negatives": free_port()}
    behind = {kind: free_port() for kind in ports}
    damages = {kind: Damage(at=20_000 if kind == "encoders" else 1_000) for kind in ports}
    seen = {  # each role binds its own port and reaches the other through a proxy
        "trainer": {"encoders": behind["encoders"], "negatives": ports["negatives"]},
        "inferencer": {"encoders": ports["encoders"], "negatives": behind["negatives"]},
    }
    run = {}
    for role, where in seen.items():
        (tmp_path / role).mkdir()
        exchange = {kind: f"tcp://127.0.0.1:{port}" for kind, port in where.items()}
        run[role] = make_run(
            tmp_path / role, schedule="sync", run_id="by-hand", train={"steps": 30},
            exchange={**exchange, "chunk_bytes": 4096},
        )  # fmt: skip
    with ExitStack() as stack:
        for kind, port in ports.items():
            stack.enter_context(proxy(port, behind[kind]))
            stack.enter_context(proxy(port + 1, behind[kind] + 1, damages[kind]))
        codes = finish(start("trainer", run["trainer"]), start("inferencer", run["inferencer"]))
    assert codes == [0, 0], "\n".join(p.read_text()[-2000:] for r in run.values() for p in r.logs.glob("*.log"))
    assert damages["encoders"].done and damages["negatives"].done
    adopted = [record["negatives_step"] for record in tracking.read_lines(run["trainer"].journal)]
    assert adopted == [0, 10, 20]
    assert not run["trainer"].negatives.exists() and not run["inferencer"].encoders.exists()
    assert 30 in paths.steps(run["inferencer"].received("encoders", 0).parent)
    assert [record["step"] for record in records(run["inferencer"], "inferencer")] == [0, 10, 20, 30]


def overrides(settings: dict, prefix: str = "") -> list[str]:
    """Nested settings as they are typed."""
    typed = []
    for key, value in settings.items():
        if isinstance(value, dict):
            typed += overrides(value, f"{prefix}{key}.")
        else:
            typed.append(f"{prefix}{key}={str(value).lower() if isinstance(value, bool) else value}")
    return typed


def command(folder: Path, *verb: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "launch.main", *verb], cwd=folder, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def typed_run(folder: Path, **groups) -> list[str]:
    make_run(folder, run_dir=str(folder / "unused"))  # makes the text and the model
    return overrides(plain(folder, experiment="ance_passage", model={"head": 8}, **groups))


def test_dance_run_reports_refuses_resumes_and_evaluates(tmp_path):
    settings = typed_run(tmp_path)
    first = command(tmp_path, "run", *settings)
    output = first.communicate(timeout=150)[0]
    assert first.returncode == 0, output
    for expected in ("step 0 (before training)", "BM25", "trained encoder (step", "three held-out queries"):
        assert expected in output
    again = command(tmp_path, "run", *settings)
    assert "resume=true" in again.communicate(timeout=60)[0] and again.returncode == 2
    status = command(tmp_path, "status", str(tmp_path / "run"))
    told = status.communicate(timeout=60)[0]
    assert status.returncode == 0 and "checkpoint: step 40" in told
    scored = command(tmp_path, "evaluate", f"run={tmp_path / 'run'}", "step=40", "split=dev")
    told = scored.communicate(timeout=60)[0]
    assert scored.returncode == 0, told
    at_40 = next(r for r in records(paths.RunPaths(tmp_path / "run"), "inferencer") if r["step"] == 40)
    assert f"{at_40['ndcg@10']:.4f}" in told
    assert (tmp_path / "run" / "evaluation" / "step_00000040-dev" / "run.trec").stat().st_size > 0


@pytest.mark.parametrize("victim", ["trainer", "launcher", pytest.param("inferencer", marks=pytest.mark.thorough)])
def test_sigkill_in_a_real_run_leaves_nothing_alive_and_the_checkpoint_whole(tmp_path, victim):
    settings = typed_run(tmp_path, train={"steps": 1_000_000}, launch={"trainer_processes": 2})
    run = paths.RunPaths(tmp_path / "run")
    launcher = command(tmp_path, "run", *settings)
    try:
        wait_until(lambda: (paths.newest(run.checkpoints) or 0) >= 10, "a checkpoint", 100)
        pid = launcher.pid if victim == "launcher" else progress.read(run.status(victim)).pid
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        output = launcher.communicate(timeout=30)[0]
        wait_until(lambda: not processes.family(run.lock("launcher")), "the end of all processes", 10)
        assert time.monotonic() - began < 10
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        if victim != "launcher":
            assert launcher.returncode == 1
            assert f"{victim} rank 0 failed: killed by SIGKILL" in output and str(run.log(victim, 0)) in output
    finally:
        launcher.kill()
        processes.end(run.lock("launcher"))
