"""The command itself: help at once, messages instead of tracebacks, exit codes."""

import importlib.metadata
import subprocess
import sys
import time

import pytest

from dance.search import flavour
from launch import doctor, main, settings
from launch.overrides import fields


def code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main.main(arguments)
    return int(left.value.code or 0)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "launch.main", *arguments], capture_output=True, text=True, check=False
    )


def test_help_answers_at_once() -> None:
    """Half a second is the promise; the fastest of three, since other tests run beside this one."""
    taken = []
    for _ in range(3):
        started = time.monotonic()
        shown = run("--help")
        taken.append(time.monotonic() - started)
        assert shown.returncode == 0
    assert min(taken) < 0.5
    assert "prepare" in shown.stdout and "exit codes" in shown.stdout


@pytest.mark.parametrize("module", ["launch.main", "launch.run", "launch.status", "launch.doctor"])
def test_the_launcher_never_imports_what_is_heavy(module: str) -> None:
    asked = (
        f"import sys, {module}, launch.compose, dance.search.flavour, dance.exchange.endpoints, dance.corpus.reading\n"
        "print(sorted({'torch', 'transformers', 'faiss', 'bm25s'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_c04_a_mistyped_override_is_one_line_and_code_2(capfd: pytest.CaptureFixture[str]) -> None:
    assert code("run", "loss.temprature=0.1") == 2
    told = capfd.readouterr().err
    assert told == "error: no setting is called 'loss.temprature'; did you mean loss.temperature?\n"


def test_no_verb_and_unknown_verbs_are_bad_input(capfd: pytest.CaptureFixture[str]) -> None:
    assert code() == 2
    assert code("rum") == 2
    assert code("run", "--fast") == 2
    assert "KEY=VALUE" in capfd.readouterr().out + capfd.readouterr().err


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Faiss builds that seem to be installed."""
    found: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in found:
            raise importlib.metadata.PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(flavour, "version", version)
    monkeypatch.setattr(flavour, "find_spec", lambda name: None)
    return found


def test_without_faiss_the_message_says_what_to_install(
    installed: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert code("run") == 2
    assert "pip install 'dance-retrieval[cpu]'" in capfd.readouterr().err


def test_two_faiss_builds_are_refused(installed: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    installed.update({"faiss-cpu": "1.15.1", "faiss-gpu": "1.15.1"})
    assert code("run") == 2
    assert "pip uninstall -y faiss-cpu faiss-gpu" in capfd.readouterr().err
    assert doctor.faiss() is not None


def test_doctor_names_what_will_bite(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "CHECKS", {"fine": lambda: None, "broken": lambda: "mend it so"})
    assert doctor.main() == 1
    shown = capfd.readouterr().out
    assert "ok  fine" in shown and "!!  broken: mend it so" in shown and "torch" in shown


def test_doctor_notes_what_is_no_trouble(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "CHECKS", {"fine": lambda: None})
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert doctor.main() == 0
    assert "--  threads: OMP_NUM_THREADS=1 is replaced for the roles" in capfd.readouterr().out
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert doctor.main() == 0
    assert "threads" not in capfd.readouterr().out


def test_doctor_checks_this_machine() -> None:
    for check in (doctor.packages, doctor.loopback, doctor.local_sockets, doctor.disk):
        assert check() is None


def test_a_gpu_beside_a_cpu_build_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.machine, "gpu_lines", lambda: ["0, H200, 1 MiB"])
    monkeypatch.setattr(doctor.machine, "torch_has_cuda", lambda: False)
    assert "EXTRAS=gpu" in (doctor.torch_and_gpus() or "")


def test_settings_lists_every_key_with_what_it_means(capfd: pytest.CaptureFixture[str]) -> None:
    assert settings.described().keys() == fields().keys()
    assert settings.main() == 0
    shown = capfd.readouterr().out
    assert "exchange.heartbeat_seconds=1.0\n    Seconds between two announcements." in shown
    for group in ("sources.bm25=0.0", "filters.copies=true", "draw.how=uniform", "negatives=NAME", "in_batch, mixture"):
        assert group in shown
    assert "dance: warmup, ance, normalise, dual" in shown
    assert "loss.in_batch=false" in shown and "handover.keep=2" in shown
