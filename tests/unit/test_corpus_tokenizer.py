import json
import multiprocessing
import shutil
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Fast
from tokenizers import models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from dance.corpus.tokenizer import Tokenizer
from dance.corpus.tokens import TokenStore, write_tokens
from tests.tiny import some_texts, tiny_bert, tiny_roberta, token_settings

CLS, SEP, UNKNOWN = 2, 3, 1


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_roberta(tmp_path_factory.mktemp("roberta"))


def unigram() -> PreTrainedTokenizerFast:
    """As XLM-RoBERTa's: special tokens are pieces of the vocabulary too, with the best scores."""
    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    fast = Fast(models.Unigram([*special, ("▁", -2.0), ("a", -2.0), ("b", -2.0)], unk_id=3))
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=fast, **names)


def test_title_and_text_are_a_pair_of_the_model_s_template(bert: Path) -> None:
    tokenizer = Tokenizer.load(str(bert))
    (title,), (text,) = (tokenizer.encode_queries([word], 16) for word in ("sort", "a list"))
    (pair,) = tokenizer.encode_documents(["sort"], ["a list"], 16)
    assert pair == title + text[1:]
    assert pair.count(SEP) == 2


def test_d11_empty_fields_leave_a_single_text(bert: Path) -> None:
    tokenizer = Tokenizer.load(str(bert))
    titles, texts = ["sort", "", "", " ", "sort"], ["", "sort", "", "\u200b \n", " \n"]
    only_title, only_text, neither, space, blank = tokenizer.encode_documents(titles, texts, 16)
    assert only_title == only_text == blank == tokenizer.encode_queries(["sort"], 16)[0]
    assert neither == space == [CLS, SEP]


def test_t02_segments_are_those_of_the_tokenizer(bert: Path, roberta: Path) -> None:
    with_types, without = Tokenizer.load(str(bert)), Tokenizer.load(str(roberta))
    assert (with_types.uses_token_types, with_types.separator_id, with_types.pad_id) == (True, SEP, 0)
    assert (without.uses_token_types, without.separator_id, without.pad_id) == (False, 2, 1)
    (pair,) = without.encode_documents(["a"], ["b"], 16)
    assert [i for i in pair if i in (0, 2)] == [0, 2, 2, 2], "<s> a </s></s> b </s>"


@pytest.mark.parametrize("spelling", ["[SEP]", "[CLS] [PAD]", "a [MASK] b"])
def test_t09_text_that_spells_a_special_token_stays_text(bert: Path, spelling: str) -> None:
    tokenizer = Tokenizer.load(str(bert))
    (ids,) = tokenizer.encode_queries([spelling], 32)
    assert [i for i in ids if i in (0, CLS, SEP, 4)] == [CLS, SEP], "the template's own alone"
    (pair,) = tokenizer.encode_documents([spelling], [spelling], 32)
    assert pair.count(SEP) == 2


def test_t09_pieces_of_a_unigram_vocabulary_cannot_be_spelt_either() -> None:
    tokenizer = Tokenizer(unigram(), "unigram")
    assert tokenizer.encode_queries(["a </s>"], 16) == [[0, 4, 5, 4, 3, 2]]
    assert tokenizer.encode_documents(["<pad>"], ["b<s>"], 16) == [[0, 4, 3, 2, 2, 4, 6, 3, 2]]


def test_shipped_padding_and_truncation_are_off(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "shipped")
    shipped = json.loads((folder / "tokenizer.json").read_text())
    shipped["truncation"] = {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    shipped["padding"] = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                          "pad_type_id": 0, "pad_token": "[PAD]"}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(shipped))
    tokenizer, plain = Tokenizer.load(str(folder)), Tokenizer.load(str(bert))
    texts = ["a", "a b c d e f"]
    assert tokenizer.encode_queries(texts, 32) == plain.encode_queries(texts, 32)
    assert [len(ids) for ids in tokenizer.encode_queries(texts, 32)] == [3, 8]
    assert tokenizer.fingerprint == plain.fingerprint


@given(st.integers(4, 40), st.text(max_size=60), st.text(max_size=60))
def test_t01_the_limit_counts_special_tokens_and_truncation_keeps_the_end(
    bert: Path, limit: int, title: str, text: str
) -> None:
    (ids,) = Tokenizer.load(str(bert)).encode_documents([title], [text], limit)
    assert 2 <= len(ids) <= limit
    assert (ids[0], ids[-1]) == (CLS, SEP)


def test_a_limit_without_room_for_text_is_refused(roberta: Path) -> None:
    with pytest.raises(ValueError, match="max_tokens=4 leaves no room"):
        Tokenizer.load(str(roberta)).encode_documents(["a"], ["b"], 4)


@pytest.mark.parametrize("text", ["x" * 5_000_000, "word and " * 25_000, "a" * 1_000_000])
def test_s07_very_long_texts_take_bounded_time(bert: Path, text: str) -> None:
    tokenizer = Tokenizer.load(str(bert))
    began = time.monotonic()
    (document,) = tokenizer.encode_documents(["title"], [text], 512)
    (query,) = tokenizer.encode_queries([text], 64)
    assert time.monotonic() - began < 2
    assert len(document) <= 512
    assert len(query) <= 64


def test_saved_and_loaded_it_is_the_same(bert: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(str(bert))
    tokenizer.encode_queries(["a"], 5)
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(str(tmp_path))
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.encode_queries(["sort a list of words"], 32) == tokenizer.encode_queries(["sort a list of words"], 32)


def test_t10_another_vocabulary_is_another_fingerprint(bert: Path, roberta: Path) -> None:
    assert Tokenizer.load(str(bert)).fingerprint != Tokenizer.load(str(roberta)).fingerprint


def test_a_tokenizer_without_padding_token_is_refused() -> None:
    whole = unigram()
    whole.pad_token = None
    with pytest.raises(ValueError, match="no padding token; name one as pad_token"):
        Tokenizer(whole, "unpadded")


def test_a_pair_without_separator_is_refused() -> None:
    whole = unigram()
    whole.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)]
    )
    with pytest.raises(ValueError, match="no separator between the two texts"):
        Tokenizer(whole, "joined")


def test_a_folder_without_tokenizer_is_refused(bert: Path, tmp_path: Path) -> None:
    shutil.copy(bert / "config.json", tmp_path)
    with pytest.raises(ValueError, match="no vocabulary"):
        Tokenizer.load(str(tmp_path))


@pytest.mark.filterwarnings("ignore")
def test_t04_a_forked_child_encodes_the_same_in_bounded_time(bert: Path) -> None:
    tokenizer, texts = Tokenizer.load(str(bert)), some_texts(200)
    expected = tokenizer.encode_queries(texts, 16)  # the thread pool is up
    here, there = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_encode, args=(tokenizer, texts, there))
    child.start()
    assert here.poll(20), "the child hangs"
    assert here.recv() == expected
    child.join(5)


def _encode(tokenizer: Tokenizer, texts: list[str], answer: Connection) -> None:
    answer.send(tokenizer.encode_queries(texts, 16))


@given(st.lists(st.lists(st.lists(st.integers(0, 65_535), max_size=9), max_size=5), max_size=5), st.booleans())
def test_s01_a_store_gives_back_every_row(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[list[int]]], wide: bool
) -> None:
    folder, vocabulary = tmp_path_factory.mktemp("store"), 65_537 if wide else 65_536
    lengths = write_tokens(folder / "documents", batches, vocabulary)
    store = TokenStore.open(folder / "documents", token_settings(Tokenizer(unigram(), "u"), 16), 16)
    rows = [row for batch in batches for row in batch]
    assert len(store) == len(rows)
    assert store.lengths.tolist() == lengths.tolist() == [len(row) for row in rows]
    assert [store.row(i).tolist() for i in range(len(store))] == rows
    assert store.ids.dtype == (np.uint32 if wide else np.uint16)
