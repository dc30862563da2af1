import time
from pathlib import Path

import pytest

from dance.corpus import msmarco_document, msmarco_passage
from dance.corpus.msmarco import MsMarcoFolder
from tests.corpora import small_msmarco_document, small_msmarco_passage, write_lines

BOM = b"\xef\xbb\xbf"


def read(source: MsMarcoFolder) -> tuple[list[tuple[object, ...]], ...]:
    return (
        [tuple(d) for d in source.documents()],
        [tuple(q)[:2] for q in source.queries()],
        [(split, *j) for split, judgements in source.judgements().items() for j in judgements],
        [(split, *j) for split, pairs in source.given().items() for j in pairs],
    )


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    return small_msmarco_passage(tmp_path / "passages", documents=5, queries=4)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    return small_msmarco_document(tmp_path / "documents", documents=5, queries=4)


def test_passages_queries_judgements_and_triples(passages: Path) -> None:
    texts, queries, judged, given = read(msmarco_passage.open_folder(passages))
    assert texts[:2] == [("0", "", "the text of document 0", 1), ("1", "", "the text of document 1", 2)]
    assert queries == [("0", "query 0"), ("1", "query 1"), ("2", "query 2"), ("3", "query 3")]
    assert judged == [("train", "0", "0", 1, 1), ("train", "1", "1", 1, 2), ("dev", "2", "2", 1, 1),
                      ("dev", "3", "3", 1, 2)]  # fmt: skip
    assert given[:3] == [("train", "0", "1", 1, 1), ("train", "0", "2", 1, 2), ("train", "0", "3", 1, 3)]


def test_documents_have_url_and_title_before_the_body(documents: Path) -> None:
    texts, queries, judged, given = read(msmarco_document.open_folder(documents))
    assert texts[0] == ("D0", "http://x.org/0\ntitle 0", "the text of document 0", 1)
    assert [q for q, _ in queries] == ["0", "1", "2", "3"]
    assert judged[2] == ("dev", "2", "D2", 1, 1)
    assert given[0] == ("train", "0", "D0", 1, 1)
    assert len(given) == 4 * 5


@pytest.mark.parametrize("write", [small_msmarco_passage, small_msmarco_document])
def test_compressed_files_read_the_same(write: object, tmp_path: Path) -> None:
    open_folder = msmarco_passage.open_folder if write is small_msmarco_passage else msmarco_document.open_folder
    plain, packed = (open_folder(write(tmp_path / f"x{end}", end=end)) for end in ("", ".gz"))  # type: ignore[operator]
    assert read(plain) == read(packed)
    assert packed.place("documents", 3).endswith(".tsv.gz:3")


def test_a_compressed_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    folder = small_msmarco_passage(tmp_path / "x", documents=2000, end=".gz")
    path = folder / "collection.tsv.gz"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"collection\.tsv\.gz: not a whole gzip file"):
        read(msmarco_passage.open_folder(folder))


def test_d01_quotes_are_text(passages: Path) -> None:
    rows = [("1", "one"), ("2", '"He said so'), ("3", "three"), ("4", 'a "quoted" word'), ("5", "five")]
    write_lines(passages / "collection.tsv", rows)
    found = list(msmarco_passage.open_folder(passages).documents())
    assert [(d.id, d.text) for d in found] == rows


def test_d02_bom_and_crlf_do_not_leak(passages: Path, documents: Path) -> None:
    for folder, open_folder in ((passages, msmarco_passage.open_folder), (documents, msmarco_document.open_folder)):
        clean = read(open_folder(folder))
        for path in folder.iterdir():
            path.write_bytes(BOM + path.read_bytes().replace(b"\n", b"\r\n"))
        assert read(open_folder(folder)) == clean


def test_d04_ids_are_opaque_strings(passages: Path) -> None:
    ids = ["7", "007", "0007", "1e3", "doc/α-3", "123e4567-e89b-12d3-a456-426614174000"]
    write_lines(passages / "collection.tsv", [(name, "x") for name in ids])
    write_lines(passages / "qrels.train.tsv", [("00", 0, name, 1) for name in ids])
    texts, _, judged, _ = read(msmarco_passage.open_folder(passages))
    assert [d[0] for d in texts] == ids
    assert [j[1:3] for j in judged if j[0] == "train"] == [("00", name) for name in ids]


def test_d05_a_line_is_split_at_the_first_tabs_alone(passages: Path, documents: Path) -> None:
    (passages / "collection.tsv").write_text("1\ta\tb\tc\n\n2\t d \n\n")
    found = list(msmarco_passage.open_folder(passages).documents())
    assert [(d.id, d.text, d.line) for d in found] == [("1", "a\tb\tc", 1), ("2", " d ", 3)]
    (documents / "msmarco-docs.tsv").write_text("D1\turl\t\tbody\twith tab\nD2\t\t\t\n")
    found = list(msmarco_document.open_folder(documents).documents())
    assert [d[:3] for d in found] == [("D1", "url\n", "body\twith tab"), ("D2", "", "")]


def test_d05_too_few_columns_name_file_line_and_both_counts(passages: Path, documents: Path) -> None:
    with (passages / "collection.tsv").open("a") as file:
        file.write("only-an-id\n")
    with pytest.raises(ValueError, match=r"collection\.tsv:6: expected 2 columns \(id, text\) .* found 1: 'only"):
        read(msmarco_passage.open_folder(passages))
    with (documents / "msmarco-docs.tsv").open("a") as file:
        file.write("D9\turl\tbody\n")
    with pytest.raises(ValueError, match=r"msmarco-docs\.tsv:6: expected 4 columns .* found 3"):
        read(msmarco_document.open_folder(documents))
    with (documents / "msmarco-docs.tsv").open("w") as file:
        file.write("\turl\ttitle\tbody\n")
    with pytest.raises(ValueError, match=r"msmarco-docs\.tsv:1: the id is empty"):
        read(msmarco_document.open_folder(documents))


@pytest.mark.parametrize("line", ["0\t0\t3\t1", "0 0 3 1", "0\t3\t1", "0 3 1", "0  Q0   3  1"])
def test_judgements_have_three_or_four_columns(passages: Path, line: str) -> None:
    (passages / "qrels.train.tsv").write_text(f"{line}\n")
    assert read(msmarco_passage.open_folder(passages))[2][0] == ("train", "0", "3", 1, 1)


@pytest.mark.parametrize("line", ["0 3", "0 0 3 1 x"])
def test_d05_judgements_of_other_columns_are_refused(passages: Path, line: str) -> None:
    (passages / "qrels.train.tsv").write_text(f"0 0 1 1\n{line}\n")
    with pytest.raises(ValueError, match=r"qrels\.train\.tsv:2: expected 3 or 4 columns"):
        read(msmarco_passage.open_folder(passages))


def test_d07_an_invalid_byte_names_file_line_and_offset(passages: Path) -> None:
    (passages / "collection.tsv").write_bytes(b"1\ta\n2\t\xe9\n")
    with pytest.raises(ValueError, match=r"collection\.tsv:2: byte 6 of the file \(0xe9\) is not UTF-8"):
        read(msmarco_passage.open_folder(passages))


def test_dev_is_the_small_one_where_both_are_there(passages: Path) -> None:
    write_lines(passages / "qrels.dev.tsv", [(3, 0, 4, 1)])
    assert [j[1] for j in read(msmarco_passage.open_folder(passages))[2] if j[0] == "dev"] == ["2", "3"]
    (passages / "qrels.dev.small.tsv").unlink()
    assert [j[1:3] for j in read(msmarco_passage.open_folder(passages))[2] if j[0] == "dev"] == [("3", "4")]


@pytest.mark.parametrize("name", ["collection.tsv", "queries.train.tsv"])
def test_d10_missing_files_are_named_with_all_official_names(passages: Path, name: str) -> None:
    (passages / name).unlink()
    with pytest.raises(ValueError, match=rf"no {name}\. Expected .*collection\.tsv, .*optional: qidpidtriples"):
        msmarco_passage.open_folder(passages)


def test_d10_an_empty_or_wrong_folder_lists_the_official_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no such folder"):
        msmarco_document.open_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no msmarco-docs\.tsv, no msmarco-doctrain-queries\.tsv.*plain or \.gz"):
        msmarco_document.open_folder(tmp_path)


def test_places_name_the_file_that_a_line_is_in(passages: Path) -> None:
    source = msmarco_passage.open_folder(passages)
    last = list(source.queries())[-1]
    assert source.place("queries", last.line) == f"{passages}/queries.dev.tsv:2"
    assert source.place("negatives/train", 3) == f"{passages}/qidpidtriples.train.full.2.tsv:3"
    assert source.place("dev", 0) == f"{passages}/qrels.dev.small.tsv"
    (passages / "qrels.train.tsv").unlink()
    (passages / "queries.train.tsv").unlink()
    assert msmarco_passage.open_folder(passages).place("train", 0) == f"{passages}/qrels.train.tsv"


def test_s07_lines_of_megabytes_are_read(documents: Path) -> None:
    write_lines(documents / "msmarco-docs.tsv", [("D1", "u", "t", "x " * 2_500_000), ("D2", "u", "t", "y")])
    began = time.monotonic()
    assert [len(d.text) for d in msmarco_document.open_folder(documents).documents()] == [5_000_000, 1]
    assert time.monotonic() - began < 5


def test_fingerprint_is_of_the_contents(tmp_path: Path) -> None:
    here, there = (msmarco_passage.open_folder(small_msmarco_passage(tmp_path / name)) for name in ("a", "b"))
    assert here.fingerprint() == there.fingerprint()
    with (tmp_path / "b" / "qidpidtriples.train.full.2.tsv").open("a") as file:
        file.write("0\t0\t9\n")
    assert here.fingerprint() != there.fingerprint()
