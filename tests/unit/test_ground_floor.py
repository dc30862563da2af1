"""Artefacts, paths, stopping, configuration: what everything stands on."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dance import arrays, artefact, paths, stopping
from dance.location import resolve_model
from dance.world import node

ROOT = Path(__file__).parents[2]


# -- artefacts ----------------------------------------------------------------------------------


def publish(path: Path, text: str = "hello", step: int = 3) -> None:
    with artefact.publishing(path, "thing", step, {"count": 1}) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "text.txt").write_text(text)
        arrays.save(folder / "numbers.npy", np.arange(6, dtype=np.uint16).reshape(2, 3))


def test_artefact_is_described_whole(tmp_path):
    publish(tmp_path / "a")
    manifest = artefact.verify(tmp_path / "a", contents=True)
    assert manifest.step == 3 and manifest.facts == {"count": 1}
    assert set(manifest.files) == {"inner/text.txt", "numbers.npy"}
    assert manifest.files["numbers.npy"].dtype == "uint16" and manifest.files["numbers.npy"].shape == (2, 3)


def test_a10_interrupted_writer_leaves_nothing_that_looks_finished(tmp_path):
    with pytest.raises(RuntimeError), artefact.publishing(tmp_path / "a", "thing") as folder:
        (folder / "half").write_text("x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a10_killed_writer_leaves_what_is_swept_and_never_read(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path; from dance import artefact\n"
        "with artefact.publishing(Path(sys.argv[1]) / 'step_00000009', 'thing', 9) as folder:\n"
        "    (folder / 'half').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=False)
    assert len(list(tmp_path.iterdir())) == 1 and paths.newest(tmp_path) is None
    artefact.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_second_writer_of_one_name_leaves_the_first(tmp_path):
    publish(tmp_path / "a", "first")
    publish(tmp_path / "a", "second")
    assert (tmp_path / "a" / "inner" / "text.txt").read_text() == "first"


def test_broken_artefacts_are_refused_with_both_values(tmp_path):
    publish(tmp_path / "a")
    (tmp_path / "a" / "inner" / "text.txt").write_text("hell")
    with pytest.raises(artefact.Broken, match="expected 5 bytes, found 4"):
        artefact.verify(tmp_path / "a")
    (tmp_path / "a" / "inner" / "text.txt").write_text("jello")
    artefact.verify(tmp_path / "a")
    with pytest.raises(artefact.Broken, match="contents differ"):
        artefact.verify(tmp_path / "a", contents=True)
    with pytest.raises(artefact.Broken, match="incomplete or absent"):
        artefact.verify(tmp_path / "b")


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "a/../../b", ".hidden", "", "manifest.json", "a\\b"])
def test_manifests_cannot_name_files_elsewhere(name):
    entry = artefact.File(size=1, sha256="0")
    raw = msgspec.json.encode(artefact.Manifest(kind="k", step=1, files={name: entry}))
    with pytest.raises(artefact.Broken, match="not allowed"):
        artefact.decode_manifest(raw)


def test_growing_array_reads_back(tmp_path):
    growing = arrays.Growing(tmp_path / "a.npy", np.uint16)
    growing.append([np.arange(5), np.arange(70_000) % 9])
    growing.close()
    read = arrays.load(tmp_path / "a.npy")
    assert read.dtype == np.uint16 and len(read) == 70_005 and read[:5].tolist() == [0, 1, 2, 3, 4]
    empty = arrays.Growing(tmp_path / "b.npy", np.uint32)
    empty.close()
    assert len(arrays.load(tmp_path / "b.npy")) == 0


# -- paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "left"), [(None, 5), (-1, 5), (1, 1), (2, 2), (9, 5)])
def test_c06_keep_n_keeps_n_and_null_keeps_all(tmp_path, keep, left):
    for step in range(5):
        publish(tmp_path / paths.step_name(step), step=step)
    paths.prune(tmp_path, keep, set())
    assert len(paths.steps(tmp_path)) == left and paths.newest(tmp_path) == 4


def test_prune_spares_what_is_needed_and_ignores_strangers(tmp_path):
    for step in range(5):
        publish(tmp_path / paths.step_name(step), step=step)
    (tmp_path / "step_00000099").mkdir()  # no manifest: not complete, not an artefact
    (tmp_path / "notes").mkdir()
    assert paths.prune(tmp_path, 1, {0, 2}) == [1, 3]
    assert paths.steps(tmp_path) == [0, 2, 4]


def test_held_finds_what_was_published_here_or_received(tmp_path):
    run = paths.RunPaths(tmp_path)
    assert run.held("negatives", 3) is None
    publish(run.published("negatives", 3))
    assert run.held("negatives", 3) == run.published("negatives", 3)
    publish(run.received("negatives", 3))  # fetched because what lies here was not what was announced
    assert run.held("negatives", 3) == run.received("negatives", 3)
    assert replace(run, node=2).held("negatives", 3) == run.published("negatives", 3)


def test_machines_of_a_role_are_told_apart_by_their_first_rank(monkeypatch):
    assert node() == 0, "started alone"
    found = []
    for rank, local_rank in ((0, 0), (3, 3), (4, 0), (7, 3)):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(local_rank))
        found.append(node())
    assert found == [0, 0, 4, 4]


# -- stopping -----------------------------------------------------------------------------------

_STUCK = """
import sys, time
from dance.stopping import Stop
stop = Stop(float(sys.argv[1]))
print("ready", flush=True)
while not (stop.requested and sys.argv[2] == "obeys"):
    time.sleep(0.01)
print(stop.reason, flush=True)
"""


def start(*arguments: str, **environment: str) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", _STUCK, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_noticed_and_named(number):
    process = start("30", "obeys")
    process.send_signal(number)
    assert process.communicate(timeout=5)[0] == f"{signal.Signals(number).name}\n" and process.returncode == 0


def test_a_process_that_does_not_obey_ends_after_its_grace():
    process = start("0.2", "ignores")
    process.terminate()
    assert process.wait(timeout=5) == 1, "not the code of a clean stop: nothing was saved"


def test_death_of_the_launcher_is_noticed_by_its_lock(tmp_path):
    lock = tmp_path / "lock"
    holder = stopping.hold_lock(lock)
    process = start("30", "obeys", **{stopping.LAUNCHER_LOCK: str(lock)})
    time.sleep(0.7)
    assert process.poll() is None
    os.close(holder)
    assert process.communicate(timeout=5)[0] == "the launcher died\n"


def test_a_lock_has_one_living_holder(tmp_path):
    holder = stopping.hold_lock(tmp_path / "lock")
    assert stopping.is_locked(tmp_path / "lock")
    with pytest.raises(stopping.Locked, match="still alive"):
        stopping.hold_lock(tmp_path / "lock")
    os.close(holder)
    assert not stopping.is_locked(tmp_path / "lock") and not stopping.is_locked(tmp_path / "absent")


# -- models by name -----------------------------------------------------------------------------


def test_model_locations(tmp_path, monkeypatch):
    assert resolve_model(str(tmp_path)) == str(tmp_path.resolve())
    assert resolve_model("org/model") == "org/model"
    assert resolve_model("pkg://dance/corpus") == str(ROOT / "dance" / "corpus")
    for bad, message in {
        "pkg://no_such_package/model": "is not installed",
        "pkg://dance/../trainer": "has no folder",
        "pkg://dance/nothing": "has no folder",
        "./missing": "no such folder",
        "/missing/model": "no such folder",
    }.items():
        with pytest.raises(ValueError, match=message):
            resolve_model(bad)
