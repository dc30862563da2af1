import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dance.corpus import elements
from dance.corpus.dpr import DprFolder
from dance.corpus.elements import read_elements
from tests.corpora import dpr_example, small_dpr, write_csv


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_dpr(tmp_path / "dpr", passages=6, questions=4)


def pairs(source: DprFolder, split: str, kind: str = "judgements") -> list[tuple[str, str]]:
    return [j[:2] for j in getattr(source, kind)()[split]]


def test_passages_questions_and_answers(folder: Path) -> None:
    source = DprFolder.open(folder)
    first = next(source.documents())
    assert tuple(first) == ("1", "title 0", "the text of passage 0 says answer0", 2)
    assert [q.id for q in source.queries()] == [
        "nq-dev-0", "nq-dev-1", "nq-train-0", "nq-train-1", "nq-test.qa-0", "nq-test.qa-1", "nq-test.qa-2",
    ]  # fmt: skip
    assert pairs(source, "train") == [("nq-train-0", "1"), ("nq-train-1", "2")]
    assert pairs(source, "dev") == [("nq-dev-0", "3"), ("nq-dev-1", "4")]
    assert pairs(source, "train", "given")[:3] == [("nq-train-0", "2"), ("nq-train-0", "3"), ("nq-train-0", "4")]
    answers = {a.query_id: a for a in source.answers()}
    assert answers["nq-dev-0"].answers == ("answer2",)
    assert answers["nq-test.qa-1"].answers == ("answer1", "x's")
    assert (answers["nq-test.qa-1"].split, answers["nq-test.qa-1"].regex) == ("nq-test", False)


def test_compressed_files_read_the_same(folder: Path, tmp_path: Path) -> None:
    plain, packed = DprFolder.open(folder), DprFolder.open(small_dpr(tmp_path / "gz", 6, 4, end=".gz"))
    assert list(plain.documents()) == list(packed.documents())
    assert list(plain.queries()) == list(packed.queries())
    assert list(plain.answers()) == list(packed.answers())
    assert pairs(plain, "train", "given") == pairs(packed, "train", "given")


def test_all_training_files_together_are_the_split(folder: Path) -> None:
    examples = [dpr_example(0, [5], [6], name="psg_id")]
    (folder / "trivia-train.json").write_text(json.dumps(examples))
    source = DprFolder.open(folder)
    assert pairs(source, "train")[-1] == ("trivia-train-0", "5")
    assert source.place("train", [*source.judgements()["train"]][-1].line) == f"{folder}/trivia-train.json:1"


def test_d01_quotes_of_real_csv_are_undone(folder: Path) -> None:
    (folder / "psgs_w100.tsv").write_text(
        'id\ttext\ttitle\n1\t"He said ""so"" twice"\tT\n2\tplain "inside" it\tT\n3\t"two\nlines"\tT\n4\tlast\tT\n'
    )
    found = [(d.id, d.text, d.line) for d in DprFolder.open(folder).documents()]
    assert found == [("1", 'He said "so" twice', 2), ("2", 'plain "inside" it', 3), ("3", "two\nlines", 4),
                     ("4", "last", 6)]  # fmt: skip


@pytest.mark.parametrize("row", ['1\t"He said so\tT\n2\tx\tT', '1\t"a" b\tT'])
def test_d01_a_quote_that_would_swallow_rows_is_refused(folder: Path, row: str) -> None:
    (folder / "psgs_w100.tsv").write_text(f"id\ttext\ttitle\n{row}\n")
    with pytest.raises(ValueError, match=r"psgs_w100\.tsv:\d: .*quotes"):
        list(DprFolder.open(folder).documents())


def test_d02_bom_and_crlf_do_not_leak(folder: Path) -> None:
    clean = [*DprFolder.open(folder).documents(), *DprFolder.open(folder).answers()]
    for path in folder.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert [*DprFolder.open(folder).documents(), *DprFolder.open(folder).answers()] == clean


def test_d02_an_absent_header_keeps_the_first_row(folder: Path) -> None:
    write_csv(folder / "psgs_w100.tsv", [("0001", "text", "title"), ("1e3", "x", "")])
    assert [d[:3] for d in DprFolder.open(folder).documents()] == [("0001", "title", "text"), ("1e3", "", "x")]


def test_d05_other_columns_name_file_line_and_both_counts(folder: Path) -> None:
    write_csv(folder / "psgs_w100.tsv", [("id", "text", "title"), ("1", "x", "t"), ("2", "x")])
    with pytest.raises(ValueError, match=r"psgs_w100\.tsv:3: expected 3 columns .* found 2"):
        list(DprFolder.open(folder).documents())
    write_csv(folder / "nq-test.qa.csv", [("question", "['a']"), ("no answers",)])
    with pytest.raises(ValueError, match=r"nq-test\.qa\.csv:2: expected 2 columns .* found 1"):
        list(DprFolder.open(folder).answers())


@pytest.mark.parametrize("field", ["['cut", "print()", "'a'", "[1]", "__import__('os')"])
def test_answers_are_a_list_of_strings_and_never_run(folder: Path, field: str) -> None:
    write_csv(folder / "nq-test.qa.csv", [("question", field)])
    with pytest.raises(ValueError, match=r"nq-test\.qa\.csv:1: expected a Python list of strings"):
        list(DprFolder.open(folder).answers())


def test_r08_absent_lists_are_empty(folder: Path) -> None:
    examples = [{"question": "a"}, {"question": "b", "hard_negative_ctxs": [], "negative_ctxs": [{"psg_id": 4}]}]
    (folder / "biencoder-nq-train.json").write_text(json.dumps(examples))
    source = DprFolder.open(folder)
    assert pairs(source, "train") == []
    assert pairs(source, "train", "given") == [("nq-train-1", "4")]


@pytest.mark.parametrize(
    ("content", "match"),
    [('[{"question": 5}]', "element 1: Expected `str`"),
     ('[{"question": "a"}, {"answers": []}]', "element 2: .*question"),
     ('[{"question": "a", "positive_ctxs": [{"title": "t"}]}]', "element 1: .*neither passage_id nor psg_id"),
     ('[{"question": "a"}', "after element 1: expected a comma or the end"), ('[{"question": "a', "element 1: .*cut"),
     ('[{"question": "a"} {"question": "b"}]', "after element 1"),
     ('[{"question": "a"},]', "element 2: expected an object"), ("[5]", "element 1: expected an object, found '5'"),
     ('{"question": "a"}', "expected a JSON array"), ("", "expected a JSON array")],
)  # fmt: skip
def test_d05_broken_examples_name_file_and_element(folder: Path, content: str, match: str) -> None:
    (folder / "biencoder-nq-train.json").write_text(content)
    with pytest.raises(ValueError, match=rf"biencoder-nq-train\.json: {match}"):
        list(DprFolder.open(folder).queries())


@pytest.mark.parametrize("name", ["psgs_w100.tsv", "biencoder-nq-*.json"])
def test_d10_missing_files_are_named_with_all_official_names(folder: Path, name: str) -> None:
    for path in [*folder.glob(name), *folder.glob("*.qa.csv")]:
        path.unlink()
    with pytest.raises(ValueError, match=r"Expected under their official names.*psgs_w100\.tsv.*nq-test\.qa\.csv"):
        DprFolder.open(folder)


json_objects = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(max_examples=40)
@given(st.lists(json_objects, max_size=8), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_elements_come_one_by_one_whatever_is_read_at_a_time(
    tmp_path_factory: pytest.TempPathFactory, values: list[object], size: int, indent: int | None, ascii_only: bool
) -> None:
    path = tmp_path_factory.mktemp("json") / "x.json"
    path.write_text(json.dumps(values, indent=indent, ensure_ascii=ascii_only) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elements, "_READ", size)
        assert list(read_elements(path)) == list(enumerate(values, start=1))


def test_s07_a_long_element_is_not_decoded_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"text": "x" * 20_000_000}, {"text": "y"}]))
    began = time.monotonic()
    assert [len(value["text"]) for _, value in read_elements(path)] == [20_000_000, 1]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["nq-test.csv", "nq-test.csv.gz"])
def test_questions_as_dpr_s_download_names_them(folder: Path, name: str) -> None:
    before = DprFolder.open(folder)
    expected = [*before.queries()], [*before.answers()]
    (folder / "nq-test.qa.csv").unlink()
    write_csv(folder / name, [(f"question {q}", f"['answer{q}', \"x's\"]") for q in range(3)])
    source = DprFolder.open(folder)
    assert ([*source.queries()], [*source.answers()]) == expected
    assert source.unread == ()


def test_what_is_not_read_is_named(folder: Path) -> None:
    write_csv(folder / "nq-test.csv", [("question", "['a']")])  # said twice: the .qa one is left
    (folder / "nq-heldout.json").write_text("[]")
    assert DprFolder.open(folder).unread == ("nq-heldout.json", "nq-test.qa.csv")
    (folder / "psgs_w100.tsv").unlink()
    with pytest.raises(ValueError, match=r"Of unknown names: nq-heldout\.json, nq-test\.qa\.csv$"):
        DprFolder.open(folder)


def test_curated_trec_has_regular_expressions(folder: Path) -> None:
    write_csv(folder / "curatedtrec-test.qa.csv", [("who", "['Jo(hn|e)']")])
    assert {a.regex for a in DprFolder.open(folder).answers() if a.split == "curatedtrec-test"} == {True}
