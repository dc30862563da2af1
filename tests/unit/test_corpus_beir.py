import json
import time
from pathlib import Path

import pytest

from dance.corpus.beir import BeirFolder
from tests.corpora import HEADER, small_beir, write_beir, write_jsonl, write_qrels

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_beir(
        tmp_path / "beir",
        {"d1": "one", "d2": "two"},
        {"q1": "a", "q2": "b"},
        {"test": [("q1", "d1", 1), ("q2", "d2", 2)]},
    )


def read(folder: Path) -> tuple[list[tuple[object, ...]], ...]:
    source = BeirFolder.open(folder)
    judgements = [tuple(j) for split in source.judgements().values() for j in split]
    return [tuple(d) for d in source.documents()], [tuple(q) for q in source.queries()], judgements


def spoil(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def test_reads_documents_queries_and_judgements_with_their_lines(folder: Path) -> None:
    documents, queries, judgements = read(folder)
    assert documents == [("d1", "", "one", 1), ("d2", "", "two", 2)]
    assert queries == [("q1", "a", 1), ("q2", "b", 2)]
    assert judgements == [("q1", "d1", 1, 2), ("q2", "d2", 2, 3)]


def test_d02_bom_and_crlf_do_not_leak_into_ids(folder: Path) -> None:
    clean = read(folder)
    for path in folder.rglob("*.*"):
        if path.is_file():
            path.write_bytes(BOM + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read(folder) == clean


def test_d02_absent_header_keeps_the_first_row(folder: Path) -> None:
    qrels = folder / "qrels" / "test.tsv"
    qrels.write_bytes(BOM + b"q1\td1\t1\r\nq2\td2\t2\r\n")
    assert [j[:3] for j in read(folder)[2]] == [("q1", "d1", 1), ("q2", "d2", 2)]


@pytest.mark.parametrize(
    "header", ["query-id\tcorpus-id\tscore", "qid\tdocid\tgrade", "Query_ID\tpid\tjudgement", "a\tb\trelevance"]
)
def test_d02_a_header_is_known_by_its_names(folder: Path, header: str) -> None:
    (folder / "qrels" / "test.tsv").write_text(f"{header}\nq1\td1\t1\n")
    assert [j[:3] for j in read(folder)[2]] == [("q1", "d1", 1)]


@pytest.mark.parametrize("line", ["q1\td1\thigh", "q1\td1\t", "qid\td1\tx"])
def test_d02_a_first_line_that_is_no_header_is_an_error_not_a_lost_row(folder: Path, line: str) -> None:
    (folder / "qrels" / "test.tsv").write_text(f"{line}\nq2\td2\t1\n")
    with pytest.raises(ValueError, match=r"test\.tsv:1: grade .* is not a whole number, and this is not a header"):
        read(folder)


def test_d02_ids_that_look_like_a_header_are_data_where_the_grade_is_a_number(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").write_text("qid\tdoc\t1\n")
    assert [j[:3] for j in read(folder)[2]] == [("qid", "doc", 1)]


def test_negatives_teacher_and_answers_are_optional_files(folder: Path) -> None:
    bare = BeirFolder.open(folder)
    assert (bare.given(), bare.teacher(), list(bare.answers())) == ({}, {}, [])
    before = bare.fingerprint()
    for kind, content in (("negatives", "query-id\tcorpus-id\nq1\td2\n"), ("teacher", "q1\td1\t3.5\nq1\td2\t-1\n")):
        (folder / kind).mkdir()
        (folder / kind / "test.tsv").write_text(content)
    write_jsonl(folder / "answers.jsonl", [{"_id": "q1", "answers": ["a", "b"]}, {"_id": 2, "answers": []}])
    source = BeirFolder.open(folder)
    assert [tuple(pair) for pair in source.given()["test"]] == [("q1", "d2", 1, 2)]
    assert [tuple(pair) for pair in source.teacher()["test"]] == [("q1", "d1", 3.5, 1), ("q1", "d2", -1.0, 2)]
    assert [tuple(a) for a in source.answers()] == [("q1", ("a", "b"), False, None, 1), ("2", (), False, None, 2)]
    assert source.place("teacher/test", 2) == f"{folder}/teacher/test.tsv:2"
    assert source.place("answers", 0) == f"{folder}/answers.jsonl"
    assert source.fingerprint() != before


@pytest.mark.parametrize("score", ["nan", "inf", "much"])
def test_a_teacher_gives_finite_numbers(folder: Path, score: str) -> None:
    (folder / "teacher").mkdir()
    (folder / "teacher" / "test.tsv").write_text(f"q1\td1\t1\nq1\td2\t{score}\n")
    with pytest.raises(ValueError, match=rf"test\.tsv:2: score '{score}' is not a number"):
        list(BeirFolder.open(folder).teacher()["test"])


def test_d01_quotes_are_text(folder: Path) -> None:
    write_qrels(folder / "qrels" / "test.tsv", [('"q1', "d1", 1), ('q"2', 'd2"', 1), ("q3", "d3", 1)])
    assert [j[:2] for j in read(folder)[2]] == [('"q1', "d1"), ('q"2', 'd2"'), ("q3", "d3")]


def test_d04_ids_are_opaque_strings(tmp_path: Path) -> None:
    ids = ["7", "007", "0007", "1e3", "doc/α-3", "123e4567-e89b-12d3-a456-426614174000"]
    folder = write_beir(
        tmp_path / "beir", dict.fromkeys(ids, "text"), {"q-12": "a", "00": "b"}, {"dev": [("00", "1e3", 1)]}
    )
    documents, queries, judgements = read(folder)
    assert [d[0] for d in documents] == ids
    assert [q[0] for q in queries] == ["q-12", "00"]
    assert judgements[0][:2] == ("00", "1e3")


def test_d04_ids_written_as_json_numbers_are_taken_as_spelt(folder: Path) -> None:
    spoil(folder / "corpus.jsonl", b'{"_id": 12, "text": "x"}\n')
    assert read(folder)[0][0][0] == "12"


@pytest.mark.parametrize(
    ("row", "found"), [("q1", "found 1"), ("q1\td1", "found 2"), ("q1\t0\td1\t1", "found 4"), ("q1 d1 1", "found 1")]
)
def test_d05_wrong_columns_name_file_line_and_both_counts(folder: Path, row: str, found: str) -> None:
    qrels = folder / "qrels" / "test.tsv"
    qrels.write_text(f"{HEADER}\nq1\td1\t1\n{row}\n")
    with pytest.raises(ValueError, match=rf"test\.tsv:3: expected 3 columns .*{found}"):
        read(folder)


def test_d05_blank_lines_are_ignored(folder: Path) -> None:
    clean = read(folder)
    for path in folder.rglob("*.*"):
        if path.is_file():
            path.write_bytes(path.read_bytes() + b"\r\n\n")
    assert read(folder) == clean


def test_d07_text_is_left_untouched(folder: Path) -> None:
    texts = ["CafÃ©", "Café", "Ã is a letter", "a\u2028b\x0bc\rd", "\t tab "]
    write_jsonl(folder / "corpus.jsonl", [{"_id": str(i), "text": text} for i, text in enumerate(texts)])
    assert [d[2] for d in read(folder)[0]] == texts


def test_d07_invalid_byte_names_file_line_and_offset(folder: Path) -> None:
    spoil(folder / "corpus.jsonl", BOM + b'{"_id": "1", "text": "a"}\n{"_id": "2", "text": "\xe9"}\n')
    with pytest.raises(ValueError, match=r"corpus\.jsonl:2: byte 51 of the file \(0xe9\) is not UTF-8"):
        read(folder)
    assert (folder / "corpus.jsonl").read_bytes()[51] == 0xE9


@pytest.mark.parametrize(
    "line",
    ['{"_id": "2", "text": "cut', "[1, 2]", "not json", '{"text": "no id"}', '{"_id": "2"}', '{"_id": "2", "text": 5}',
     '{"_id": "", "text": "x"}', '{"_id": 1.5, "text": "x"}', '{"_id": "2", "text": "\\ud800"}'],
)  # fmt: skip
def test_broken_record_names_file_and_line(folder: Path, line: str) -> None:
    (folder / "corpus.jsonl").write_text(f'{{"_id": "1", "text": "a"}}\n{line}\n')
    with pytest.raises(ValueError, match=r"corpus\.jsonl:2: "):
        read(folder)


def test_t09_title_absent_null_or_empty_is_empty_and_other_fields_are_left_aside(folder: Path) -> None:
    text = "first\n\n\nsecond [SEP] </s>"
    extra = {"metadata": {"url": "x", "deep": [1]}}
    records = [{"_id": "1"}, {"_id": "2", "title": None}, {"_id": "3", "title": ""}, {"_id": "4", "title": "T"} | extra]
    write_jsonl(folder / "corpus.jsonl", [{"text": text} | record for record in records])
    assert [d[:3] for d in read(folder)[0]] == [("1", "", text), ("2", "", text), ("3", "", text), ("4", "T", text)]


@pytest.mark.parametrize(("field", "grade"), [("1", 1), ("1.0", 1), ("-2", -2), ("0", 0)])
def test_v07_whole_grades_are_taken(folder: Path, field: str, grade: int) -> None:
    write_qrels(folder / "qrels" / "test.tsv", [("q1", "d1", field)])
    assert read(folder)[2][0][2] == grade


@pytest.mark.parametrize("field", ["0.5", "nan", "inf", "high", ""])
def test_v07_other_grades_are_refused_with_their_line(folder: Path, field: str) -> None:
    write_qrels(folder / "qrels" / "test.tsv", [("q1", "d1", 1), ("q2", "d2", field)])
    with pytest.raises(ValueError, match=r"test\.tsv:3: grade"):
        read(folder)


def test_c02_wrong_path_is_shown_whole(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no such folder: {tmp_path}/nowhere"):
        BeirFolder.open(tmp_path / "nowhere")


def test_d10_missing_files_are_named(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").unlink()
    with pytest.raises(ValueError, match=r"qrels: no judgements"):
        BeirFolder.open(folder)
    (folder / "queries.jsonl").unlink()
    with pytest.raises(ValueError, match=r"queries\.jsonl: no such file"):
        BeirFolder.open(folder)


def test_split_names_are_file_names(folder: Path) -> None:
    (folder / "qrels" / "de v.tsv").write_text(HEADER)
    with pytest.raises(ValueError, match="name the split with letters"):
        BeirFolder.open(folder)


def test_fingerprint_is_of_the_contents_wherever_they_lie(tmp_path: Path) -> None:
    here, there = (BeirFolder.open(small_beir(tmp_path / name)) for name in ("here", "there"))
    assert here.fingerprint() == there.fingerprint()
    with (there.root / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "new", "text": ""}) + "\n")
    assert here.fingerprint() != there.fingerprint()


def test_s07_lines_of_megabytes_are_read(folder: Path) -> None:
    write_jsonl(folder / "corpus.jsonl", [{"_id": "long", "text": "x" * 5_000_000}, {"_id": "short", "text": "y"}])
    began = time.monotonic()
    assert [len(str(d[2])) for d in read(folder)[0]] == [5_000_000, 1]
    assert time.monotonic() - began < 5
