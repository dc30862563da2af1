import multiprocessing
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.config import Config
from dance.corpus.prepare import Prepared, prepare
from dance.corpus.tokenizer import Chunking, Tokenizer
from tests.corpora import config_for, small_beir, write_jsonl
from tests.tiny import some_texts, tiny_bert, tiny_roberta

CLS, SEP = 2, 3
titles = st.integers(0, 20).map(lambda count: "t" * count and " ".join("t" * count))
bodies = st.integers(0, 80).map(lambda count: " ".join(str(i % 10) for i in range(count)))
narrow = st.integers(6, 20)
most = st.integers(1, 5)


@pytest.fixture(scope="module", params=[tiny_bert, tiny_roberta])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(str(request.param(tmp_path_factory.mktemp("model"))))


def plain(tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids of a text between the special tokens."""
    return tokenizer.encode_queries([text], 1000)[0][1:-1]


def chunks_of(
    tokenizer: Tokenizer, title: str, text: str, limit: int, chunks: int, how: Chunking = "titled"
) -> list[list[int]]:
    return tokenizer.chunk_documents([title], [text], limit, chunks, how)[0]


@given(titles, bodies, narrow, most)
def test_titled_chunks_are_whole_inputs_whose_texts_make_up_the_text(
    tokenizer: Tokenizer, title: str, text: str, limit: int, most: int
) -> None:
    found = chunks_of(tokenizer, title, text, limit, most)
    (start,), end = {chunk[0] for chunk in found}, {chunk[-1] for chunk in found}
    assert end == {tokenizer.separator_id}
    assert all(len(chunk) <= limit for chunk in found)
    if title and text:
        parts = [chunk[1:-1] for chunk in found]
        first = len(parts[0]) - parts[0][::-1].index(tokenizer.separator_id)  # where its text begins
        assert all(part[:first] == parts[0][:first] for part in parts), "each has the title"
        assert start not in parts[0]
        contents = [token for part in parts for token in part[first:]]
    else:
        contents = [token for chunk in found for token in chunk[1:-1]]
    whole = plain(tokenizer, text or title)
    assert contents == whole[: len(contents)]
    assert contents == whole or len(found) == most, "only the number of chunks cuts"


@given(titles, bodies, narrow, st.integers(2, 5))
def test_the_first_titled_chunk_is_the_single_input(
    tokenizer: Tokenizer, title: str, text: str, limit: int, most: int
) -> None:
    (single,) = tokenizer.encode_documents([title], [text], limit)
    assert chunks_of(tokenizer, title, text, limit, most)[0] == single
    for how in ("titled", "raw"):
        assert chunks_of(tokenizer, title, text, limit, 1, how) == [single]


@given(titles, bodies, narrow, most)
def test_raw_chunks_make_up_the_single_long_input(
    tokenizer: Tokenizer, title: str, text: str, limit: int, most: int
) -> None:
    found = chunks_of(tokenizer, title, text, limit, most, "raw")
    (whole,) = tokenizer.encode_documents([title], [text], limit * most)
    assert all(len(chunk) == limit for chunk in found[:-1])
    joined = [token for chunk in found for token in chunk]
    left_out = whole[len(joined) :]
    assert joined + left_out == whole
    assert left_out in ([], [tokenizer.separator_id]), "a chunk of the closing token alone is not made"
    assert all(set(chunk) - {tokenizer.separator_id} for chunk in found)


@pytest.mark.parametrize("how", ["titled", "raw"])
def test_d11_empty_documents_have_one_chunk(tokenizer: Tokenizer, how: Chunking) -> None:
    single = tokenizer.encode_queries([""], 16)
    for title, text in (("", ""), (" ", "\u200b \n")):
        assert tokenizer.chunk_documents([title], [text], 16, 4, how) == [single]


@pytest.mark.parametrize("how", ["titled", "raw"])
@pytest.mark.parametrize("text", ["x" * 5_000_000, "word and " * 250_000, "a" * 1_000_000])
def test_s07_very_long_documents_are_cut_in_bounded_time(tokenizer: Tokenizer, text: str, how: Chunking) -> None:
    began = time.monotonic()
    chunks = chunks_of(tokenizer, "title", text, 128, 4, how)
    assert time.monotonic() - began < 2
    assert len(chunks) <= 4
    assert max(map(len, chunks)) <= 128


@pytest.mark.parametrize("how", ["titled", "raw"])
def test_t02_every_titled_chunk_has_the_separators_of_its_tokenizer(tokenizer: Tokenizer, how: Chunking) -> None:
    chunks = chunks_of(tokenizer, "sort", " ".join("abcdefghij" * 3), 12, 3, how)
    (pair,) = tokenizer.encode_documents(["sort"], ["a"], 12)
    of_a_pair = pair.count(tokenizer.separator_id)
    found = [chunk.count(tokenizer.separator_id) for chunk in chunks]
    assert found == ([of_a_pair] * 3 if how == "titled" else [of_a_pair - 1, 0, 1])


@pytest.mark.filterwarnings("ignore")
def test_t04_a_forked_child_cuts_the_same_in_bounded_time(tokenizer: Tokenizer) -> None:
    texts = some_texts(50, longest=60)
    expected = tokenizer.chunk_documents(texts, texts, 16, 4)  # the thread pool is up
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_cut, (tokenizer, texts)).get(timeout=20) == expected


def _cut(tokenizer: Tokenizer, texts: list[str]) -> list[list[list[int]]]:
    return tokenizer.chunk_documents(texts, texts, 16, 4)


@pytest.mark.parametrize("how", ["titled", "raw"])
def test_t09_chunks_of_text_that_spells_special_tokens(tokenizer: Tokenizer, how: Chunking) -> None:
    chunks = chunks_of(tokenizer, "[SEP] </s>", "[CLS] </s> <s> [SEP] " * 4, 12, 3, how)
    clean = chunks_of(tokenizer, "[SEx] </x>", "[CLx] </x> <x> [SEx] " * 4, 12, 3, how)
    special = {tokenizer.separator_id, tokenizer.pad_id, clean[0][0]}
    assert [[i in special for i in chunk] for chunk in chunks] == [[i in special for i in chunk] for chunk in clean]


def test_a_prompt_goes_before_the_title_or_else_the_text(tokenizer: Tokenizer) -> None:
    with_prompt = tokenizer.encode_documents(["t", "", "t"], ["x", "x", ""], 16, prompt="a b: ")
    spelt = tokenizer.encode_documents(["a b: t", "a b: x", ""], ["x", "", "a b: t"], 16)
    assert with_prompt == spelt
    assert tokenizer.encode_queries(["x"], 16, prompt="a b: ") == tokenizer.encode_queries(["a b: x"], 16)
    chunks = tokenizer.chunk_documents(["t"], ["1 2 3 4 5 6 7"], 12, 3, prompt="a b: ")
    assert chunks == tokenizer.chunk_documents(["a b: t"], ["1 2 3 4 5 6 7"], 12, 3)


def long_beir(folder: Path) -> Path:
    """Every fifth document is empty, the others are of 1 to 60 words."""
    beir = small_beir(folder)
    texts = some_texts(20, longest=60)
    records = [{"_id": f"d{i}", "title": "sort", "text": text if i % 5 else ""} for i, text in enumerate(texts)]
    write_jsonl(beir / "corpus.jsonl", records)
    return beir


def chunked(folder: Path, model: Path, **settings: object) -> Config:
    config = config_for(folder, folder.parent / "prepared", model)
    changed = msgspec.structs.replace(config.model, document_max_tokens=12, **settings)
    return msgspec.structs.replace(config, model=changed)


@pytest.mark.parametrize("how", ["titled", "raw"])
def test_owners_offsets_and_rows_of_chunks_agree(tmp_path: Path, how: Chunking) -> None:
    config = chunked(long_beir(tmp_path / "beir"), tiny_bert(tmp_path / "bert"), chunks=3, chunking=how)
    prepared = Prepared.open(prepare(config))
    tokenizer, texts = Tokenizer.load(config.model.path), prepared.collection
    assert len(prepared.documents) == len(prepared.owners) == prepared.chunk_offsets[-1]
    assert len(prepared.chunk_offsets) == len(texts.document_ids) + 1 == 21
    rows = prepared.chunk_rows(np.arange(20))  # [20, 3]
    assert rows.shape == (20, 3)
    for document in range(20):
        expected = chunks_of(tokenizer, texts.titles[document], texts.texts[document], 12, 3, how)
        own = [row for row in rows[document].tolist() if row >= 0]
        assert own == np.flatnonzero(prepared.owners == document).tolist()
        assert [prepared.documents.row(row).tolist() for row in own] == expected
    assert (rows >= 0).sum() == len(prepared.documents)
    assert {len(chunk[chunk >= 0]) for chunk in rows} == {1, 2, 3}
    assert prepared.chunk_rows(np.array([-1])).tolist() == [[-1, -1, -1]]
    prepared.check(config)


def test_one_chunk_is_one_row_per_document(tmp_path: Path) -> None:
    prepared = Prepared.open(prepare(chunked(long_beir(tmp_path / "beir"), tiny_bert(tmp_path / "bert"))))
    assert prepared.owners.tolist() == list(range(20))
    assert prepared.chunk_rows(np.array([7, 3])).tolist() == [[7], [3]]


@pytest.mark.parametrize(
    ("other", "key"),
    [({"chunks": 2}, "chunks is 3, wanted 2"), ({"chunks": 3, "chunking": "raw"}, "chunking is titled, wanted raw"),
     ({"chunks": 3, "query_prompt": "query: "}, "query_prompt is , wanted query: "),
     ({"chunks": 3, "document_prompt": "text: "}, "document_prompt is , wanted text: ")],
)  # fmt: skip
def test_t10_a_store_of_other_chunks_or_prompts_is_refused(tmp_path: Path, other: dict[str, object], key: str) -> None:
    folder, model = long_beir(tmp_path / "beir"), tiny_bert(tmp_path / "bert")
    prepared = Prepared.open(prepare(chunked(folder, model, chunks=3)))
    with pytest.raises(ValueError, match=key):
        prepared.check(chunked(folder, model, **other))
    assert prepare(chunked(folder, model, **other)) != prepared.path


def test_chunking_does_not_tell_apart_stores_of_one_chunk(tmp_path: Path) -> None:
    folder, model = long_beir(tmp_path / "beir"), tiny_bert(tmp_path / "bert")
    assert prepare(chunked(folder, model, chunking="raw")) == prepare(chunked(folder, model, chunking="titled"))
