"""The run folder: claimed once, filled by a child, gone again where it was made for nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dance import config as schema
from dance.config import Config, Loss, Sources
from dance.paths import RunPaths
from dance.stopping import Locked, hold_lock, is_locked
from launch import prepare, preparing
from launch.compose import compose
from launch.preparing import Answer, Request
from tests.corpora import config_for, small_beir
from tests.tiny import tiny_bert

ANSWER = Answer("/prepared/x", 10, 5, 3)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without the child and what it needs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prepare.preflight, "check", lambda config, paths, both_here: None)
    monkeypatch.setattr(prepare, "_prepare", lambda request, lock: ANSWER)
    return tmp_path


def test_c01_the_folder_is_filled_locked_and_kept(here: Path) -> None:
    with prepare.ready(compose(["run_dir=r"]), run=True) as made:
        assert made.paths.root == here / "r"
        assert is_locked(made.lock)
        written = schema.read(made.paths.config)
        assert written == made.config
        assert (written.prepared, written.run_dir) == ("/prepared/x", str(here / "r"))
        assert [role.role for role in made.plans] == ["trainer", "inferencer"]
    assert not is_locked(RunPaths(here / "r").lock("launcher"))


def test_a_folder_made_for_nothing_is_gone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(request: Request, lock: Path) -> Answer:
        raise prepare.Refused(2)

    monkeypatch.setattr(prepare, "_prepare", refused)
    with pytest.raises(prepare.Refused), prepare.ready(compose(["run_dir=a/b"]), run=True):
        pass
    assert list(here.iterdir()) == []


def test_two_launchers_never_share_a_folder(here: Path) -> None:
    handle = hold_lock(RunPaths(here / "r").lock("launcher"))
    with pytest.raises(Locked, match="still alive"), prepare.ready(compose(["run_dir=r"]), run=True):
        pass
    os.close(handle)


def test_resume_tells_what_changed(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with prepare.ready(compose(["run_dir=r", "train.steps=40", "handover.every=10"]), run=True):
        pass
    changes = ["train.steps=60", "refresh.fraction=0.25", "evaluate.every=30"]
    with prepare.ready(compose(["run_dir=r", "resume=true", *changes]), run=True) as made:
        assert made.config.train.steps == 60
    told = capfd.readouterr().err
    assert "changed on resume: train.steps from 40 to 60" in told and "resume from" not in told
    assert "changed on resume: refresh.fraction from 1.0 to 0.25" in told
    assert "changed on resume: evaluate.every from None to 30" in told


@pytest.mark.slow
def test_stages_are_not_prepared_together(here: Path) -> None:
    with pytest.raises(ValueError, match=r"\(warmup, ance, normalise, dual\) .* stage=NAME"):
        prepare.main(["experiment=dance", "run_dir=r"])
    assert list(here.iterdir()) == []
    assert prepare.main(["experiment=dance", "stage=dual", "run_dir=r"]) == 0
    assert schema.read(RunPaths(here / "r").config).loss.dual_weight == 0.1


def test_d10_an_interrupted_child_takes_its_half_written_folder_along(tmp_path: Path) -> None:
    busy = (
        "import time\nfrom pathlib import Path\nfrom dance import artefact\nfrom launch import preparing\n"
        "preparing._end_when_asked()\n"
        f"with artefact.publishing(Path({str(tmp_path / 'text')!r}), 'text'):\n"
        "    print('writing', flush=True)\n    time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"writing\n"
    assert any(tmp_path.iterdir())
    prepare._end(child)
    assert child.returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_prepare_verb_shows_how_to_start_by_hand(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert prepare.main(["run_dir=r"]) == 0
    shown = capfd.readouterr().out
    assert f"torchrun --standalone --nproc-per-node 1 -m trainer {here / 'r'}" in shown
    assert f"torchrun --standalone --nproc-per-node 1 -m inferencer {here / 'r'}" in shown


@pytest.mark.slow
def test_the_child_says_bad_input_and_the_parent_passes_its_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = Config(run_dir=str(tmp_path), model=schema.Model(path=str(tmp_path / "absent")))
    hold_lock(tmp_path / "lock")
    with pytest.raises(prepare.Refused) as refused:
        prepare._prepare(Request(config, 1, True), tmp_path / "lock")
    assert refused.value.args == (2,)
    assert f"error: model.path={tmp_path / 'absent'}" in capfd.readouterr().err


@pytest.mark.slow
def test_the_child_ends_with_the_launcher(tmp_path: Path) -> None:
    environment = os.environ | {"DANCE_LAUNCHER_LOCK": str(tmp_path / "nobody-holds-it")}
    slow = (
        "import time\nfrom launch import preparing\n"
        "preparing.make_ready = lambda request: time.sleep(60)\npreparing.main()"
    )
    child = subprocess.Popen([sys.executable, "-c", slow], stdin=subprocess.PIPE, env=environment)
    started = time.monotonic()
    child.communicate(msgspec.json.encode(Request(Config(), 1, True)))
    assert child.returncode != 0
    assert time.monotonic() - started < 10


def test_sigterm_while_preparing_unwinds() -> None:
    with pytest.raises(SystemExit) as left, prepare.terminable():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert left.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": Loss(distill="kl")}, "loss.distill=kl needs a teacher's scores.*teacher/train.tsv"),
        ({"sources": Sources(ann=0.0, given=1.0)}, "sources.given=1.0: the data gives no negatives.*set it to 0"),
    ],
)
def test_what_the_data_lacks_is_refused_before_the_roles_start(
    settings: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "_bm25", lambda *_: None)
    plain = config_for(small_beir(tmp_path / "text"), tmp_path / "prepared", tiny_bert(tmp_path / "model"))
    plain = msgspec.structs.replace(plain, run_dir=str(tmp_path / "run"))
    asking = msgspec.structs.replace(plain, **settings)
    with pytest.raises(ValueError, match=message):
        preparing.make_ready(Request(asking, 1, True))
    with pytest.raises(ValueError, match=message):
        preparing.make_ready(Request(plain, 1, True, (asking,)))  # a stage to come
    assert preparing.make_ready(Request(plain, 1, True)).documents == 20


def test_more_processes_than_documents_are_refused() -> None:
    with pytest.raises(ValueError, match="lower launch.inferencer_processes"):
        preparing._refuse_processes(4, 3)
    preparing._refuse_processes(3, 3)
