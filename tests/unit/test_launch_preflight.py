"""What is refused before anything expensive, each with its remedy."""

import shutil
import socket
from pathlib import Path

import msgspec
import pytest

from dance.config import Checkpoint, Config, Evaluate, Exchange, Handover, Model, Refresh, Train, from_plain
from dance.paths import RunPaths
from launch import preflight


def config(tmp_path: Path, **changed: object) -> Config:
    return msgspec.structs.replace(Config(run_dir=str(tmp_path / "run"), run_id="r"), **changed)


def test_a14_a_used_folder_is_refused_with_advice(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    preflight.refuse_used(config(tmp_path), paths)
    paths.root.mkdir()
    (paths.root / ".launcher.lock").touch()
    preflight.refuse_used(config(tmp_path), paths)
    (paths.root / "notes.txt").touch()
    with pytest.raises(ValueError, match="not an empty folder"):
        preflight.refuse_used(config(tmp_path), paths)
    paths.config.touch()
    with pytest.raises(ValueError, match="add resume=true"):
        preflight.refuse_used(config(tmp_path), paths)
    preflight.refuse_used(config(tmp_path, resume=True), paths)


def test_a_finished_run_is_not_resumed_without_more_steps(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    made = paths.checkpoints / "step_00000040"
    made.mkdir(parents=True)
    (made / "manifest.json").touch()
    paths.finished.touch()
    with pytest.raises(ValueError, match="is at step 40, train.steps=.*: raise train.steps"):
        preflight.refuse_used(config(tmp_path, resume=True, train=Train(steps=40)), paths)
    preflight.refuse_used(config(tmp_path, resume=True, train=Train(steps=60)), paths)


def test_c05_a_taken_port_is_named_with_its_setting() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(ValueError, match="exchange.encoders=x: .* another program has that port"):
            preflight.refuse_taken("exchange.encoders=x", address)
    preflight.refuse_taken("exchange.encoders=x", address)
    preflight.refuse_taken("exchange.encoders=auto", "ipc:///tmp/x")


def test_a_foreign_host_cannot_be_bound() -> None:
    with pytest.raises(ValueError, match="HOST an address of this machine"):
        preflight.refuse_taken("exchange.encoders=x", "tcp://192.0.2.1:5000")


def test_c07_a_path_that_does_not_exist_is_an_error_that_shows_it_whole(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    wrong = config(tmp_path, data=msgspec.structs.replace(Config().data, path=absent))
    with pytest.raises(ValueError, match=absent):
        preflight.check(wrong, RunPaths(tmp_path / "run"))
    with pytest.raises(ValueError, match=absent):
        preflight.check(config(tmp_path, model=Model(path=absent)), RunPaths(tmp_path / "run"))


def test_binding_beyond_this_machine_needs_keys(tmp_path: Path) -> None:
    wide = config(tmp_path, exchange=Exchange(encoders="tcp://0.0.0.0:5000"))
    with pytest.raises(ValueError, match="dance keys"):
        preflight.check(wide, RunPaths(tmp_path / "run"))


def test_room_on_disk_counts_what_is_kept() -> None:
    few = Config(train=Train(steps=100), handover=Handover(every=10, keep=2), checkpoint=Checkpoint(every=10, keep=1))
    all_kept = msgspec.structs.replace(
        few, handover=Handover(every=10, keep=None), checkpoint=Checkpoint(every=10, keep=-1)
    )
    assert preflight.needed_bytes(few, weights=1000, width=0, vectors=0, queries=0) == 1000 * 8 + 3000 * 2
    assert preflight.needed_bytes(all_kept, 1000, 0, 0, 0) == 1000 * 11 + 3000 * 12
    sliced = msgspec.structs.replace(few, refresh=Refresh(fraction=0.5))
    assert preflight.needed_bytes(sliced, 1000, 0, 0, 0) == 1000 * 10 + 3000 * 2, "two wait to be scored"
    table = preflight.needed_bytes(few, 0, width=10, vectors=7, queries=5)
    assert table == 7 * 10 * 4 + 3 * 5 * few.negatives.sample * 12


def test_room_on_disk_counts_the_run_files_of_every_evaluation() -> None:
    often = Config(train=Train(steps=100), handover=Handover(every=10))
    rare = msgspec.structs.replace(often, evaluate=Evaluate(every=50))
    static = msgspec.structs.replace(often, schedule="static")
    for made, evaluations in ((often, 11), (rare, 3), (static, 2)):
        assert preflight.needed_bytes(made, 0, 0, 0, 0, ranked=1000) == evaluations * 1000 * 48


def test_weights_of_known_encoders_are_estimated_within_a_tenth() -> None:
    for shape, parameters in (((768, 12, 30_522, None), 109.5e6), ((384, 6, 30_522, None), 22.7e6)):
        assert preflight.weight_bytes(*shape) == pytest.approx(4 * parameters, rel=0.1)


def test_no_room_on_disk_is_refused_with_both_figures(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    preflight.refuse_full(tmp_path / "a" / "b", free // 2)
    with pytest.raises(ValueError, match=r"about .* will be written, .* are free; set run_dir"):
        preflight.refuse_full(tmp_path / "a" / "b", free * 2)


@pytest.mark.parametrize(("count", "text"), [(5, "5 B"), (1500, "1.5 kB"), (2e9, "2.0 GB"), (3.2e13, "32.0 TB")])
def test_sizes(count: float, text: str) -> None:
    assert preflight.size(count) == text


def test_room_for_the_text_is_asked_for_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_bytes(b"x" * 1000)
    (tmp_path / "queries.jsonl").write_bytes(b"x" * 100)
    assert preflight.text_bytes(from_plain({"data": {"path": str(tmp_path)}})) == 3300
    assert preflight.text_bytes(from_plain({})) > 1e8


def test_room_for_official_files_counts_what_they_unpack_to(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_bytes(b"x" * 1000)
    (tmp_path / "queries.train.tsv.gz").write_bytes(b"x" * 100)
    (tmp_path / "qidpidtriples.train.full.2.tsv").write_bytes(b"x" * 9999)
    assert preflight.text_bytes(from_plain({"data": {"path": str(tmp_path)}})) == 3900
