import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.corpus import extras
from dance.corpus.build import build
from dance.corpus.collection import Collection
from dance.corpus.reading import open_source
from dance.corpus.teacher import TeacherScores
from tests.corpora import (
    config_for,
    dpr_example,
    small_beir,
    small_dpr,
    write_jsonl,
    write_lines,
)


def built(folder: Path, **data: Any) -> Collection:
    config = config_for(folder, folder.parent / "prepared", **data)
    path = folder.parent / "prepared" / "text"
    build(open_source(config.data), config, path, ("train",), lambda phase, done, total: None)
    return Collection.open(path)


def counts(collection: Collection) -> dict[str, int]:
    return {reason: dropped["count"] for reason, dropped in collection.facts["dropped"].items()}


def named(collection: Collection, queries: Any, documents: Any) -> list[tuple[str, str]]:
    return [(collection.query_ids[q], collection.document_ids[d]) for q, d in zip(queries.tolist(), documents.tolist())]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Queries q0 to q3 train on documents d0 to d3, q4 to q7 are dev; 20 documents."""
    return small_beir(tmp_path / "beir")


def test_data_without_extras_has_none(folder: Path) -> None:
    collection = built(folder)
    assert (collection.given, collection.teacher, collection.answers) == ({}, {}, None)


def test_given_negatives_are_pairs_of_rows(folder: Path) -> None:
    write_lines(folder / "negatives" / "train.tsv", [("q2", "d9"), ("q0", "d5"), ("q0", "d4")])
    collection = built(folder)
    assert named(collection, *collection.given["train"].pairs()) == [("q0", "d4"), ("q0", "d5"), ("q2", "d9")]
    assert collection.facts["given"] == {"train": 3}
    assert counts(collection) == {}


def test_d06_given_pairs_that_cannot_be_used_are_counted_and_named(folder: Path) -> None:
    pairs = [("q0", "d5"), ("q0", "gone"), ("nobody", "d5"), ("q1", "d1"), ("q4", "d9"), ("q0", "d5")]
    write_lines(folder / "negatives" / "train.tsv", pairs)
    collection = built(folder)
    assert named(collection, *collection.given["train"].pairs()) == [("q0", "d5")]
    assert counts(collection) == {
        "train negatives of a document that the corpus lacks": 1,
        "train negatives of a query that is not there": 1,
        "train negatives that are judged relevant": 1,
        "train negatives of a query without a relevant document": 1,
    }
    first = collection.facts["dropped"]["train negatives of a document that the corpus lacks"]["first"]
    assert first == [f"'gone' ({folder}/negatives/train.tsv:2)"]


@pytest.mark.parametrize("kind", ["negatives", "teacher", "answers"])
def test_d06_strict_refuses_what_is_unknown_beside_the_judgements(folder: Path, kind: str) -> None:
    if kind == "answers":
        write_jsonl(folder / "answers.jsonl", [{"_id": "nobody", "answers": ["x"]}])
    else:
        write_lines(folder / kind / "train.tsv", [("nobody", "d5", 1.0)[: 3 if kind == "teacher" else 2]])
    with pytest.raises(
        ValueError, match=r"1 .* of a query that is not there, e\.g\. 'nobody' \(.*:1\).*data\.strict=fa"
    ):
        built(folder, strict=True)
    assert sum(counts(built(folder)).values()) == 1


def test_given_negatives_of_one_query_are_bounded_and_the_first_ones_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "MOST_GIVEN", 3)
    monkeypatch.setattr(extras, "_BLOCK", 4)
    rows = [(query, f"d{d}") for d in (19, 5, 18, 6, 17) for query in ("q0", "q1")] + [("q2", "d7")]
    write_lines(folder / "negatives" / "train.tsv", rows)
    collection = built(folder)
    found = named(collection, *collection.given["train"].pairs())
    assert found == [(q, d) for q in ("q0", "q1") for d in ("d5", "d18", "d19")] + [("q2", "d7")]
    assert counts(collection) == {"train negatives beyond the first 3 of their query": 4}


def test_limited_text_keeps_the_extras_of_what_is_kept(folder: Path) -> None:
    write_lines(folder / "negatives" / "train.tsv", [(f"q{q}", f"d{d}") for q in range(4) for d in range(4, 20)])
    write_lines(folder / "teacher" / "train.tsv", [(f"q{q}", f"d{d}", q + d) for q in range(4) for d in range(20)])
    collection = built(folder, max_documents=10, max_train_queries=2)
    queries, documents = collection.given["train"].pairs()
    assert set(queries.tolist()) == set(collection.splits["train"].queries.tolist())
    assert len(queries) == 2 * sum(int(name[1:]) >= 4 for name in collection.document_ids)
    rows, columns = collection.teacher["train"].pairs()
    assert len(rows) == 2 * 10
    for (query, document), score in zip(named(collection, rows, columns), collection.teacher["train"].scores):
        assert score == int(query[1:]) + int(document[1:])


def test_teacher_scores_are_looked_up_by_row(folder: Path) -> None:
    rows = [("q1", "d1", 2.5), ("q1", "d7", -1), ("q0", "d0", 1e-3), ("q1", "d7", -1.0)]
    write_lines(folder / "teacher" / "train.tsv", rows)
    collection = built(folder)
    found = collection.teacher["train"].lookup(np.array([[0], [1], [-1]]), np.array([0, 1, 7, -1]))  # [3, 4]
    nan = np.nan
    np.testing.assert_array_equal(found, np.float32([[1e-3, nan, nan, nan], [nan, 2.5, -1, nan], [nan] * 4]))
    assert counts(collection) == {"train teacher's scores said twice": 1}


def test_d12_two_scores_of_one_pair_are_refused(folder: Path) -> None:
    write_lines(folder / "teacher" / "train.tsv", [("q1", "d1", 2.5), ("q1", "d1", 2)])
    with pytest.raises(ValueError, match=r"teacher/train\.tsv: query 'q1' and document 'd1' have two scores"):
        built(folder)


@pytest.mark.parametrize("kind", ["negatives", "teacher"])
def test_a_split_without_judgements_is_refused(folder: Path, kind: str) -> None:
    write_lines(folder / kind / "other.tsv", [("q1", "d1", 2.5)])
    with pytest.raises(ValueError, match=rf"{kind}/other\.tsv: no judgements of split 'other' .*qrels/other\.tsv"):
        built(folder)


pairs = st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.floats(width=32, allow_nan=False))


@given(pairs)
def test_lookup_is_what_was_given_and_nan_elsewhere(
    tmp_path_factory: pytest.TempPathFactory, known: dict[tuple[int, int], float]
) -> None:
    rows = np.array(list(known), dtype=np.int64).reshape(-1, 2)
    scores = TeacherScores.of(rows[:, 0], rows[:, 1], np.array(list(known.values()), dtype=np.float32))
    prefix = tmp_path_factory.mktemp("teacher") / "teacher-train"
    scores.save(prefix)
    everything = np.arange(-1, 11)
    found = TeacherScores.load(prefix).lookup(everything[:, None], everything)  # [12, 12]
    expected = [[known.get((int(q), int(d)), np.nan) for d in everything] for q in everything]
    np.testing.assert_array_equal(found, np.array(expected, dtype=np.float32))


def test_answers_are_those_of_the_query_row(folder: Path) -> None:
    records = [
        {"_id": "q5", "answers": ["a", "ß"]},
        {"_id": "q0", "answers": ["x"]},
        {"_id": "q5", "answers": ["a", "ß"]},
    ]
    write_jsonl(folder / "answers.jsonl", [*records, {"_id": "nobody", "answers": ["x"]}])
    collection = built(folder)
    assert collection.answers is not None
    assert not any(collection.answers.regex(row) for row in range(8))
    assert [collection.answers.of(row) for row in range(8)] == [["x"], [], [], [], [], ["a", "ß"], [], []]
    assert collection.facts["answers"] == {"patterns": 0, "queries": 2}


def test_answers_that_contradict_are_refused_and_patterns_are_told_from_strings(folder: Path) -> None:
    write_jsonl(folder / "answers.jsonl", [{"_id": "q0", "answers": ["x"]}, {"_id": "q0", "answers": ["y"]}])
    with pytest.raises(ValueError, match=r"answers\.jsonl:2: query 'q0' came before with other answers"):
        built(folder)
    records = [{"_id": "q0", "answers": ["x"]}, {"_id": "q1", "answers": ["y"], "regex": True}]
    write_jsonl(folder / "answers.jsonl", records)
    found = built(folder)
    assert found.answers is not None
    assert [found.answers.regex(row) for row in range(3)] == [False, True, False]
    assert found.facts["answers"] == {"patterns": 1, "queries": 2}
    write_jsonl(folder / "answers.jsonl", [records[0], records[0] | {"regex": True}])
    with pytest.raises(ValueError, match=r"answers\.jsonl:2: query 'q0' came before with other answers"):
        built(folder)


def test_curated_trec_stands_beside_natural_questions(tmp_path: Path) -> None:
    folder = small_dpr(tmp_path / "dpr")
    example = dpr_example(0, [5], [6]) | {"answers": ["answ.r"]}
    (folder / "biencoder-curatedtrec-train.json").write_text(json.dumps([example]))
    collection = built(folder, format="dpr")
    assert collection.answers is not None
    names = [name for row, name in enumerate(collection.query_ids) if collection.answers.regex(row)]
    assert names == ["curatedtrec-train-0"]
    assert "nq-train-0" in [*collection.query_ids]


def test_files_of_unknown_names_are_in_the_report(tmp_path: Path) -> None:
    folder = small_dpr(tmp_path / "dpr")
    for name in ("nq_test.csv", "notes.json.gz", "readme.txt"):
        (folder / name).write_text("")
    dropped = built(folder, format="dpr").facts["dropped"]
    unread = dropped["files beside of a name that is not known"]
    assert unread == {"count": 2, "first": ["notes.json.gz", "nq_test.csv"]}


def test_questions_with_answers_alone_are_a_split_for_coverage(tmp_path: Path) -> None:
    collection = built(small_dpr(tmp_path / "dpr"), format="dpr")
    asked = collection.asked("nq-test")
    assert [collection.query_ids[row] for row in asked.tolist()] == [f"nq-test.qa-{n}" for n in range(3)]
    assert collection.answers is not None
    assert collection.answers.of(int(asked[2])) == ["answer2", "x's"]
    assert collection.asked("dev").tolist() == collection.splits["dev"].queries.tolist()
    collection.require(["train", "dev", "nq-test"])
    with pytest.raises(ValueError, match="split 'nq-test' has no query with a relevant document"):
        collection.split("nq-test")
    with pytest.raises(ValueError, match="split 'other' has no query"):
        collection.asked("other")


def test_c07_questions_with_answers_alone_are_limited_like_other_held_out_ones(tmp_path: Path) -> None:
    collection = built(small_dpr(tmp_path / "dpr"), format="dpr", max_dev_queries=2)
    assert len(collection.asked("nq-test")) == collection.facts["asked"]["nq-test"] == 2
    assert counts(collection)["nq-test queries beyond data.max_dev_queries"] == 1


def test_d06_passages_that_the_corpus_lacks_are_counted(tmp_path: Path) -> None:
    folder = small_dpr(tmp_path / "dpr", passages=20, questions=8)
    path = folder / "biencoder-nq-train.json"
    examples = json.loads(path.read_text())
    examples[0]["positive_ctxs"].append({"passage_id": "999"})
    examples[1]["positive_ctxs"] = [{"passage_id": "wiki:1"}]
    examples[2]["hard_negative_ctxs"].append({"passage_id": "999"})
    path.write_text(json.dumps(examples))
    collection = built(folder, format="dpr")
    assert counts(collection) == {
        "train judgements of a document that the corpus lacks": 2,
        "train queries without a relevant document": 1,
        "train negatives of a document that the corpus lacks": 1,
        "train negatives of a query without a relevant document": 3,
    }
    assert len(collection.splits["train"]) == 3
