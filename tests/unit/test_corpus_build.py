import logging
from pathlib import Path

import numpy as np
import pytest

from dance.corpus.build import build
from dance.corpus.collection import Collection
from dance.corpus.reading import open_source
from tests.corpora import config_for, small_beir, write_beir, write_jsonl

DOCUMENTS = {"d1": "one", "d2": "two", "d3": "three"}
QUERIES = {"q1": "a", "q2": "b"}


def built(folder: Path, needed: tuple[str, ...] = (), **data: object) -> Collection:
    config = config_for(folder, folder.parent / "prepared", **data)
    path = folder.parent / "prepared" / "text"
    build(open_source(config.data), config, path, needed, lambda phase, done, total: None)
    return Collection.open(path)


def refused(folder: Path, match: str, needed: tuple[str, ...] = (), **data: object) -> None:
    with pytest.raises(ValueError, match=match):
        built(folder, needed, **data)
    assert list((folder.parent / "prepared").iterdir()) == [], "nothing is left behind"


def named(collection: Collection, split: str) -> set[tuple[str, str, int]]:
    queries, documents, grades = (column.tolist() for column in collection.splits[split].judged())
    return {(collection.query_ids[q], collection.document_ids[d], g) for q, d, g in zip(queries, documents, grades)}


def test_rows_are_in_the_order_of_the_files(tmp_path: Path) -> None:
    collection = built(small_beir(tmp_path / "beir", documents=5, queries=4), needed=("train", "dev"))
    assert list(collection.document_ids) == ["d0", "d1", "d2", "d3", "d4"]
    assert collection.texts[3] == "the text of document 3"
    assert list(collection.query_ids) == ["q0", "q1", "q2", "q3"]
    assert named(collection, "train") == {("q0", "d0", 1), ("q1", "d1", 1)}
    assert named(collection, "dev") == {("q2", "d2", 1), ("q3", "d3", 1)}
    assert collection.counts["splits"]["dev"] == {"queries": 2, "relevant": 2, "judged": 2}


def test_d04_awkward_ids_stay_six_documents(tmp_path: Path) -> None:
    ids = ["7", "007", "0007", "1e3", "doc/α-3", "123e4567-e89b-12d3-a456-426614174000"]
    pairs = [("00", name, 1) for name in ids]
    collection = built(write_beir(tmp_path / "beir", dict.fromkeys(ids, "x"), {"00": "a"}, {"dev": pairs}))
    assert list(collection.document_ids) == ids
    assert named(collection, "dev") == set(pairs)


def d06_folder(tmp_path: Path) -> Path:
    """Ten queries: q0 has only grade 0, the positive of q1 is missing, q2 has two and one is missing."""
    rows = [("q0", "d0", 0), ("q1", "gone", 1), ("q2", "d2", 1), ("q2", "gone", 1), ("q10", "d1", 1)]
    rows += [(f"q{i}", f"d{i}", 1) for i in range(3, 10)]
    texts = {f"d{i}": f"text {i}" for i in range(10)}
    return write_beir(tmp_path / "beir", texts, {f"q{i}": f"query {i}" for i in range(10)}, {"train": rows})


def test_d06_queries_that_cannot_be_used_are_dropped_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collection = built(d06_folder(tmp_path))
    assert list(collection.query_ids) == [f"q{i}" for i in range(2, 10)]
    assert {q for q, _, _ in named(collection, "train")} == {f"q{i}" for i in range(2, 10)}
    assert collection.split("train").relevant(0).tolist() == [2]
    counts = {reason: dropped["count"] for reason, dropped in collection.facts["dropped"].items()}
    assert counts == {
        "train judgements of a document that the corpus lacks": 2,
        "train judgements of a query that is not there": 1,
        "train queries without a relevant document": 2,
    }
    assert "left out: 2 train judgements of a document" in caplog.text
    assert "'gone' (" in caplog.text
    assert "train.tsv:3)" in caplog.text


def test_d06_strict_makes_the_drops_an_error_with_file_and_line(tmp_path: Path) -> None:
    refused(
        d06_folder(tmp_path), r"'gone' \(.*train\.tsv:3\).*'q10' \(.*train\.tsv:6\).*data\.strict=false", strict=True
    )


def test_d09_splits_that_share_queries_keep_their_own_judgements(tmp_path: Path) -> None:
    qrels = {"dev": [("q1", "d2", 1)], "train": [("q1", "d1", 1), ("q2", "d3", 1)]}
    collection = built(write_beir(tmp_path / "beir", DOCUMENTS, QUERIES, qrels))
    assert named(collection, "train") == set(qrels["train"])
    assert named(collection, "dev") == set(qrels["dev"])
    assert list(collection.query_ids) == ["q1", "q2"]


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
def test_d10_empty_files_are_refused(tmp_path: Path, name: str) -> None:
    folder = small_beir(tmp_path / "beir")
    (folder / name).write_bytes(b"\n")
    refused(folder, rf"{name}:1: empty")


def test_d10_a_broken_line_late_in_the_corpus_leaves_nothing(tmp_path: Path) -> None:
    folder = small_beir(tmp_path / "beir")
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "cut')
    refused(folder, r"corpus\.jsonl:21: ")


def test_d11_empty_documents_keep_their_rows(tmp_path: Path) -> None:
    records = [
        {"_id": "title", "title": "T", "text": ""},
        {"_id": "text", "title": "", "text": "x"},
        {"_id": "neither", "title": "", "text": ""},
        {"_id": "space", "title": " ", "text": "\u200b \n"},
    ]
    collection = built(write_beir(tmp_path / "beir", records, {"q1": " "}, {"dev": [("q1", "space", 1)]}))
    assert list(collection.document_ids) == ["title", "text", "neither", "space"]
    assert list(collection.texts) == ["", "x", "", "\u200b \n"]
    assert named(collection, "dev") == {("q1", "space", 1)}
    assert collection.facts["noticed"] == {
        "documents without a word": {"count": 2, "first": ["neither", "space"]},
        "queries without a word": {"count": 1, "first": ["q1"]},
    }


MOJIBAKE = {"CafÃ©": "Café", "itâ\x80\x99s â\x82¬5 – DvoÅ\x99Ã¡k": "it’s €5 – Dvořák"}
RIGHT = ["Café", "Ã is a letter", "NÃO, ÃO", "naïve CafÃ©", "plain", "žluť", "Ã"]


@pytest.mark.parametrize("repair", [False, True])
def test_d07_only_text_that_is_certainly_wrong_is_mended_and_only_where_asked(tmp_path: Path, repair: bool) -> None:
    texts = [*MOJIBAKE, *RIGHT]
    folder = write_beir(
        tmp_path / "beir", {f"d{i}": t for i, t in enumerate(texts)}, {"q1": "CafÃ©"}, {"dev": [("q1", "d0", 1)]}
    )
    collection = built(folder, repair=repair)
    assert list(collection.texts) == ([*MOJIBAKE.values(), *RIGHT] if repair else texts)
    assert list(collection.queries) == ["Café" if repair else "CafÃ©"]
    mended = {"texts mended (UTF-8 read as Latin-1)": {"count": 3, "first": ["d0", "d1", "q1"]}}
    assert collection.facts["noticed"] == (mended if repair else {})


def test_d01_rows_read_and_documents_kept_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    collection = built(small_beir(tmp_path / "beir", documents=5, queries=4), max_documents=4)
    assert collection.facts["read"] == {"documents": 5, "queries": 4}
    assert "4 documents of 5 read" in caplog.text
    assert "1 corpus documents beyond data.max_documents" in caplog.text


def test_d12_equal_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    folder = write_beir(
        tmp_path / "beir", DOCUMENTS, QUERIES, {"dev": [("q1", "d3", 1), ("q1", "d3", 1), ("q2", "d2", 1)]}
    )
    records = [{"_id": name, "text": DOCUMENTS[name]} for name in ("d1", "d3", "d2", "d3")]
    write_jsonl(folder / "corpus.jsonl", records)
    write_jsonl(folder / "queries.jsonl", [{"_id": name, "text": "a"} for name in ("q1", "q2", "q1")])
    collection = built(folder)
    assert list(collection.document_ids) == ["d1", "d3", "d2"]
    assert list(collection.query_ids) == ["q1", "q2"]
    assert named(collection, "dev") == {("q1", "d3", 1), ("q2", "d2", 1)}
    assert {r: d["count"] for r, d in collection.facts["dropped"].items()} == {
        "documents said twice": 1,
        "queries said twice": 1,
        "dev judgements said twice": 1,
    }


def test_d12_conflicting_duplicates_name_both_lines(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "beir", DOCUMENTS, QUERIES, {"dev": [("q1", "d1", 1)]})
    write_jsonl(
        folder / "corpus.jsonl", [{"_id": "d5", "text": "a"}, {"_id": "d1", "text": "b"}, {"_id": "d5", "text": "c"}]
    )
    refused(folder, r"corpus\.jsonl:3: id 'd5' was in .*corpus\.jsonl:1 with another text")


@pytest.mark.parametrize(("how", "kept"), [("first", "a"), ("last", "c")])
def test_d12_conflicting_duplicates_are_counted_where_first_or_last_is_asked_for(
    tmp_path: Path, how: str, kept: str
) -> None:
    folder = write_beir(tmp_path / "beir", DOCUMENTS, QUERIES, {"dev": [("q1", "d5", 1)]})
    records = [("d5", "a"), ("d1", "b"), ("d5", "x"), ("d5", "c")]
    write_jsonl(folder / "corpus.jsonl", [{"_id": name, "text": text} for name, text in records])
    write_jsonl(folder / "queries.jsonl", [{"_id": "q1", "text": text} for text in ("a", "a", "c")])
    collection = built(folder, repeats=how)
    assert list(collection.document_ids) == ["d5", "d1"], "each once, where it came first"
    assert list(collection.texts) == [kept, "b"]
    assert list(collection.queries) == [kept]
    assert {r: d["count"] for r, d in collection.facts["dropped"].items()} == {
        f"documents with an id that has another text too, the {how} kept": 2,
        "queries said twice": 1,
        f"queries with an id that has another text too, the {how} kept": 1,
    }


def test_d12_contradicting_grades_name_both_lines(tmp_path: Path) -> None:
    folder = write_beir(
        tmp_path / "beir", DOCUMENTS, QUERIES, {"dev": [("q1", "d1", 1), ("q2", "d2", 1), ("q1", "d1", 0)]}
    )
    refused(folder, r"dev\.tsv:4: .*grade 0 here and 1 in .*dev\.tsv:2")


def test_v06_judged_but_not_relevant_pairs_are_kept_for_metrics(tmp_path: Path) -> None:
    pairs = [("q1", "d1", 2), ("q1", "d2", 0), ("q1", "d3", -1)]
    collection = built(write_beir(tmp_path / "beir", DOCUMENTS, QUERIES, {"dev": pairs}))
    assert named(collection, "dev") == set(pairs)
    assert collection.split("dev").relevant(0).tolist() == [0]


def test_a_split_is_refused_only_where_it_is_asked_for(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "beir", DOCUMENTS, QUERIES, {"train": [], "dev": [], "test": [("q1", "d1", 1)]})
    refused(folder, r"split 'train' has no query .*test \(1 queries\).*qrels/train\.tsv", needed=("train", "dev"))
    collection = built(folder, needed=("test",))
    assert len(collection.split("test")) == 1
    with pytest.raises(ValueError, match="split 'dev' has no query"):
        collection.split("dev")
    with pytest.raises(ValueError, match="split 'nonsense' has no query"):
        collection.split("nonsense")


def test_a_split_emptied_by_unknown_ids_says_so(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "beir", DOCUMENTS, QUERIES, {"train": [("q1", "D1", 1)]})
    refused(
        folder, r"split 'train'.*Left out: 1 train judgements of a document.*'D1' \(.*train\.tsv:2\)", needed=("train",)
    )


def test_twins_share_their_text(tmp_path: Path) -> None:
    collection = built(
        write_beir(tmp_path / "beir", {"a": "x y", "b": "z", "c": "X  y"}, QUERIES, {"dev": [("q1", "a", 1)]})
    )
    assert collection.twins.tolist() == [0, 1, 0]


def test_e09_copies_of_queries_are_found_too(tmp_path: Path) -> None:
    folder = small_beir(tmp_path / "beir")
    texts = ["how to", "why", "How to?", "who", "", "", "when", "how, to"]
    write_jsonl(folder / "queries.jsonl", [{"_id": f"q{i}", "text": text} for i, text in enumerate(texts)])
    collection = built(folder)
    assert collection.query_twins.tolist() == [0, 1, 0, 3, 4, 5, 6, 0]
    for copies in (True, False):  # d0 answers q0, of which q2 and q7 are copies
        found = collection.relevance("train", copies).covers(np.arange(8), np.zeros(8, dtype=np.int64))
        assert found.tolist() == [True, False, copies, False, False, False, False, copies]
