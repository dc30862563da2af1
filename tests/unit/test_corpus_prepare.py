import logging
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dance import artefact
from dance.config import Config
from dance.corpus.prepare import Prepared, prepare
from dance.corpus.tokenizer import Tokenizer
from tests.corpora import config_for, small_beir, write_beir
from tests.holding import HOLD_LOCK, held, python
from tests.tiny import tiny_bert, tiny_roberta


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def config(tmp_path: Path, bert: Path) -> Config:
    return config_for(small_beir(tmp_path / "beir"), tmp_path / "prepared", bert)


def contents(path: Path) -> dict[str, artefact.File]:
    return {**artefact.read_manifest(path).files, **artefact.read_manifest(path.parent / "text").files}


def left_behind(config: Config) -> list[Path]:
    return list(Path(config.data.prepared).rglob("*"))


def test_rows_of_text_are_rows_of_tokens(config: Config, bert: Path) -> None:
    done: list[tuple[str, int, int | None]] = []
    prepared = Prepared.open(prepare(config, on_progress=lambda *now: done.append(now)))
    tokenizer, collection = Tokenizer.load(str(bert)), prepared.collection
    for row in range(len(collection.texts)):
        expected = tokenizer.encode_documents([collection.titles[row]], [collection.texts[row]], 32)[0]
        assert prepared.documents.row(row).tolist() == expected
    assert prepared.queries.row(3).tolist() == tokenizer.encode_queries([collection.queries[3]], 16)[0]
    assert (prepared.documents.max_tokens, prepared.queries.max_tokens) == (32, 16)
    assert prepared.documents.fingerprint == tokenizer.fingerprint
    assert done[-1] == ("tokenise documents", 20, 20)
    prepared.check(config)


def test_t10_the_same_is_reused_and_says_so(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    first = prepare(config)
    assert "reused" not in caplog.text
    before = {path: path.stat().st_mtime_ns for path in first.parent.rglob("*")}
    assert prepare(config) == first
    assert {path: path.stat().st_mtime_ns for path in first.parent.rglob("*")} == before
    assert f"reused: {first}" in caplog.text


def test_t10_a_store_of_another_tokenizer_or_length_is_refused_with_both_fingerprints(
    config: Config, tmp_path: Path
) -> None:
    prepared = Prepared.open(prepare(config))
    folder = Path(config.data.path or "")
    roberta = config_for(folder, tmp_path / "prepared", tiny_roberta(tmp_path / "roberta"))
    shorter = config_for(folder, tmp_path / "prepared", config.model.path)
    shorter = type(shorter)(data=shorter.data, model=type(shorter.model)(path=config.model.path, query_max_tokens=8))
    limited = config_for(folder, tmp_path / "prepared", config.model.path, max_documents=10)
    for other, key in (
        (roberta, "tokenizer is"),
        (shorter, "query_max_tokens is 16, wanted 8"),
        (limited, "max_documents"),
    ):
        with pytest.raises(ValueError, match=rf"it is {prepared.fingerprint[:12]}.*needs [0-9a-f]{{12}}.*{key}"):
            prepared.check(other)
        assert prepare(other) != prepared.path


def test_t10_another_text_is_another_folder(config: Config) -> None:
    first = prepare(config)
    with (Path(config.data.path or "") / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "new", "text": "a late document"}\n')
    second = prepare(config)
    assert first.parent != second.parent
    assert len(Prepared.open(second).documents) == 21


def test_t10_tokens_beside_another_text_are_refused(config: Config) -> None:
    first = prepare(config)
    path = Path(config.data.path or "")
    (path / "queries.jsonl").write_text((path / "queries.jsonl").read_text().replace("query 1", "query one"))
    second = prepare(config)
    artefact.remove(first.parent / "text")
    (second.parent / "text").rename(first.parent / "text")
    with pytest.raises(ValueError, match="was made of text [0-9a-f]{12}"):
        Prepared.open(first)


def test_d10_a_cut_file_is_refused_at_open_and_made_again_by_prepare(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    path = prepare(config)
    whole, tokens = contents(path), path / "documents.ids.npy"
    size = tokens.stat().st_size
    os.truncate(tokens, size - 4)
    with pytest.raises(ValueError, match=f"expected {size} bytes, found {size - 4}"):
        Prepared.open(path)
    assert prepare(config) == path
    assert "made again" in caplog.text
    assert contents(path) == whole


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
def test_d10_a_missing_input_is_named_and_leaves_nothing(config: Config, name: str) -> None:
    (Path(config.data.path or "") / name).unlink()
    with pytest.raises(ValueError, match=rf"{name}: no such file"):
        prepare(config)
    assert left_behind(config) == []


def test_d10_an_empty_corpus_leaves_nothing(config: Config) -> None:
    (Path(config.data.path or "") / "corpus.jsonl").write_text("")
    with pytest.raises(ValueError, match="empty corpus"):
        prepare(config)
    assert left_behind(config) == []


def test_a_run_needs_train_and_dev_an_evaluation_only_its_split(tmp_path: Path, bert: Path) -> None:
    folder = write_beir(tmp_path / "beir", {"d": "x"}, {"q": "y"}, {"train": [], "dev": [], "test": [("q", "d", 1)]})
    config = config_for(folder, tmp_path / "prepared", bert)
    with pytest.raises(ValueError, match="split 'train' has no query"):
        prepare(config)
    assert left_behind(config) == []
    prepare(config, splits=["test"])
    with pytest.raises(ValueError, match="split 'train' has no query"):
        prepare(config)


_SLOW_PREPARE = """
import sys, time
from pathlib import Path
from dance.corpus import prepare as preparing, tokenising
from tests.corpora import config_for
tokenising._BATCH = 1
def slowly(phase, done, total):
    if phase == "tokenise documents" and done == 10:
        print("half", flush=True)
        time.sleep(60)
preparing.prepare(config_for(*map(Path, sys.argv[1:])), on_progress=slowly)
"""


@pytest.mark.slow
def test_d10_killed_half_way_it_is_made_again_the_same(config: Config, tmp_path: Path) -> None:
    arguments = [config.data.path or "", config.data.prepared, config.model.path]
    with python(_SLOW_PREPARE, *arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    (home,) = Path(config.data.prepared).iterdir()
    assert not list(home.glob("tokens-*")), "nothing looks finished"
    path = prepare(config)
    assert not list(home.glob(".tmp-*"))
    undisturbed = config_for(Path(config.data.path or ""), tmp_path / "other", config.model.path)
    assert contents(path) == contents(prepare(undisturbed))


@pytest.mark.slow
def test_d10_what_a_killed_one_left_is_swept_by_the_next_for_any_text(config: Config, tmp_path: Path) -> None:
    arguments = [config.data.path or "", config.data.prepared, config.model.path]
    with python(_SLOW_PREPARE, *arguments) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    store = Path(config.data.prepared)
    (killed,) = store.iterdir()
    foreign = store / "somebody-elses"
    (foreign / ".tmp-theirs").mkdir(parents=True)
    artefact.draft(store / "killed-0123456789ab" / "text")
    with held(store / "busy-0123456789ab") as busy:
        made = artefact.draft(busy / "text")
        prepare(config_for(small_beir(tmp_path / "another", documents=9), store, config.model.path))
        assert made.is_dir(), "its maker is alive"
    assert not list(killed.glob(".tmp-*"))
    assert (killed / "text").is_dir(), "what is whole stays"
    assert not (store / "killed-0123456789ab").exists()
    assert (foreign / ".tmp-theirs").is_dir()


def test_two_that_prepare_the_same_at_once_make_it_once(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(prepare, [config, config])
    assert first == second
    assert caplog.text.count("reused") == 2, "the later one reuses text and tokens"


def test_a_held_lock_is_waited_for(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    home = prepare(config).parent
    with python(HOLD_LOCK, str(home)) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        began = time.monotonic()
        prepare(config)
    assert time.monotonic() - began > 0.2
    assert "waiting for another process" in caplog.text
