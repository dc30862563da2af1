"""Documents as one sequence: their fields, separators, chunks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.config import Config
from dance.corpus.prepare import Prepared, prepare
from dance.corpus.tokenizer import Chunking, Tokenizer
from tests.corpora import config_for, small_beir, small_msmarco_document, write_jsonl
from tests.tiny import tiny_bert, tiny_roberta
from tests.unit.test_corpus_tokenizer import unigram

titles = st.lists(st.integers(0, 6).map(lambda count: "t" * count), max_size=3).map("\n".join)
bodies = st.integers(0, 60).map(lambda count: " ".join(str(i % 10) for i in range(count)))


@pytest.fixture(scope="module", params=[tiny_bert, tiny_roberta])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(str(request.param(tmp_path_factory.mktemp("model"))))


def plain(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode_queries([text], 1000)[0][1:-1]


def by_hand(tokenizer: Tokenizer, title: str, text: str) -> list[int]:
    """Start, fields with one separator between two, end."""
    start, separator = tokenizer.encode_queries([""], 16)[0]
    parts = [*title.split("\n"), text] if title.strip() else [text]
    ids = [start]
    for part in parts:
        ids += [*plain(tokenizer, part), separator]
    return ids


def test_url_title_and_body_are_one_sequence_with_one_separator_between_two(tokenizer: Tokenizer) -> None:
    (ids,) = tokenizer.encode_documents(["a b\nsort"], ["the list"], 32, template="joined")
    assert ids == by_hand(tokenizer, "a b\nsort", "the list")
    assert ids.count(tokenizer.separator_id) == 3
    (pair,) = tokenizer.encode_documents(["a b\nsort"], ["the list"], 32)
    assert [pair] == tokenizer.encode_documents(["a b sort"], ["the list"], 32), "as a pair, on one line"
    (spelt,) = tokenizer.encode_documents(["a b\nsort"], ["the list"], 32, template="spelt")
    assert [spelt] == tokenizer.encode_queries(["a b<sep>sort<sep>the list"], 32)


@given(titles, bodies, st.integers(6, 20), st.integers(1, 5))
def test_raw_chunks_make_up_the_sequence_cut_at_its_end(
    tokenizer: Tokenizer, title: str, text: str, limit: int, most: int
) -> None:
    whole = by_hand(tokenizer, title, text)
    if len(whole) > limit * most:
        whole = [*whole[: limit * most - 1], whole[-1]]
    found = tokenizer.chunk_documents([title], [text], limit, most, "raw", template="joined")[0]
    assert all(len(chunk) == limit for chunk in found[:-1])
    joined = [token for chunk in found for token in chunk]
    assert set(whole[len(joined) :]) <= {tokenizer.separator_id}, "separators alone make no chunk"
    assert joined == whole[: len(joined)]
    if most == 1:
        assert [found[0]] == tokenizer.encode_documents([title], [text], limit, template="joined")


@given(titles, bodies, st.integers(6, 20), st.integers(2, 5))
def test_titled_chunks_each_have_the_fields_before_the_last(
    tokenizer: Tokenizer, title: str, text: str, limit: int, most: int
) -> None:
    found = tokenizer.chunk_documents([title], [text], limit, most, "titled", template="joined")[0]
    start, end = tokenizer.encode_queries([""], 16)[0]
    assert all(chunk[0] == start and chunk[-1] == end and len(chunk) <= limit for chunk in found)
    whole, contents = plain(tokenizer, text), []
    for chunk in found:
        inside = chunk[1:-1]
        at = len(inside) - inside[::-1].index(end) if end in inside else 0
        assert bool(at) == bool(title.strip()) and inside[:at] == found[0][1 : 1 + at]
        contents += inside[at:]
    assert contents == whole or (len(found) == most and contents == whole[: len(contents)])


@pytest.mark.parametrize("how", ["titled", "raw"])
def test_d11_a_document_without_title_is_its_text_in_every_template(tokenizer: Tokenizer, how: Chunking) -> None:
    for text in ("", "sort a list"):
        expected = tokenizer.chunk_documents([""], [text], 16, 2, how)
        assert tokenizer.chunk_documents([" \n"], [text], 16, 2, how, template="joined") == expected
        assert tokenizer.chunk_documents([""], [text], 16, 2, how, template="spelt") == expected


def test_an_empty_title_or_text_leaves_its_separator(tokenizer: Tokenizer) -> None:
    start, end = tokenizer.encode_queries([""], 16)[0]
    word = plain(tokenizer, "sort")
    found = tokenizer.encode_documents(["sort\n", "sort"], ["a", ""], 16, template="joined")
    assert found == [[start, *word, end, end, *plain(tokenizer, "a"), end], [start, *word, end, end]]


@pytest.mark.parametrize("spelling", ["[SEP] </s>", "<s> [CLS] a"])
def test_t09_text_that_spells_a_separator_stays_text(tokenizer: Tokenizer, spelling: str) -> None:
    (ids,) = tokenizer.encode_documents([spelling], [spelling], 64, template="joined")
    start, end = tokenizer.encode_queries([""], 16)[0]
    assert ids.count(end) == 2 and ids.count(start) == 1


def test_t09_pieces_of_a_unigram_vocabulary_cannot_spell_one_either() -> None:
    found = Tokenizer(unigram(), "unigram").encode_documents(["a </s>"], ["b<s>"], 16, template="joined")
    assert found == [[0, 4, 5, 4, 3, 2, 4, 6, 3, 2]]


def test_a_prompt_goes_before_the_first_field(tokenizer: Tokenizer) -> None:
    for template in ("joined", "spelt"):
        found = tokenizer.encode_documents(["t", ""], ["x", "x"], 16, prompt="a b: ", template=template)
        assert found == tokenizer.encode_documents(["a b: t", ""], ["x", "a b: x"], 16, template=template)


def templated(config: Config, template: str) -> Config:
    return msgspec.structs.replace(config, model=msgspec.structs.replace(config.model, document_template=template))


def test_t10_a_store_of_another_template_is_refused(tmp_path: Path) -> None:
    folder = small_beir(tmp_path / "beir")
    write_jsonl(folder / "corpus.jsonl", [{"_id": f"d{i}", "title": "sort", "text": "a list"} for i in range(20)])
    config = config_for(folder, tmp_path / "prepared", tiny_bert(tmp_path / "bert"))
    pair = Prepared.open(prepare(config))
    assert pair.documents.uses_token_types
    with pytest.raises(ValueError, match="document_template is pair, wanted joined"):
        pair.check(templated(config, "joined"))
    joined = Prepared.open(prepare(templated(config, "joined")))
    joined.check(templated(config, "joined"))
    assert joined.path != pair.path and not joined.documents.uses_token_types, "one sequence is one segment"


def test_ms_marco_documents_keep_url_and_title_apart(tmp_path: Path) -> None:
    folder = small_msmarco_document(tmp_path / "docs")
    config = templated(config_for(folder, tmp_path / "prepared", tiny_roberta(tmp_path / "roberta")), "joined")
    store = Prepared.open(prepare(config)).documents
    ids, tokenizer = store.row(3).tolist(), Tokenizer.load(config.model.path)
    assert ids == by_hand(tokenizer, "http://x.org/3\ntitle 3", "the text of document 3")[:31] + [2]
