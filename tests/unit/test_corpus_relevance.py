"""Relevance widened by text, and what counts as the same text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance, normal, twins


def qrels_of(pairs):
    queries, documents = (np.array(column, dtype=np.int64) for column in zip(*pairs))
    return Qrels.of(queries, documents, np.ones_like(queries))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("One  two", "one TWO"),
        ("One, two!", "one two"),
        ("“e-mail”", "EMAIL."),
        ("café", "CAFE\N{COMBINING ACUTE ACCENT}"),
        ("ﬁne", "fine"),
    ],
)
def test_e09_texts_that_differ_in_case_space_punctuation_or_spelling_of_letters_are_one(one, other):
    assert normal(one) == normal(other)
    assert twins(["x", one, other]).tolist() == [0, 1, 1]


@pytest.mark.parametrize(("one", "other"), [("कि", "का"), ("a1", "a2"), ("+ +", "+ -"), ("naïve", "naive")])
def test_texts_that_differ_in_letters_marks_or_digits_are_two(one, other):
    assert twins([one, other]).tolist() == [0, 1]


def test_texts_of_symbols_alone_are_told_apart_and_empty_ones_are_nobodys_copy():
    assert twins(["!!!", "???", "! !!", "", " ", ""]).tolist() == [0, 1, 0, 3, 4, 5]


@given(st.lists(st.sampled_from(["a", "A.", "b", "B ", "", "c d", "C-D"]), min_size=1, max_size=20))
def test_twins_are_the_first_with_the_same_normal_text(texts):
    for row, first in enumerate(twins(texts).tolist()):
        same = [i for i, text in enumerate(texts) if normal(text) == normal(texts[row])]
        assert first == (same[0] if normal(texts[row]) else row)


@given(st.data())
def test_covers_and_judged_agree_with_a_slow_reading(data):
    texts = data.draw(st.lists(st.sampled_from("aAbBc"), min_size=1, max_size=8))
    row = st.integers(0, len(texts) - 1)
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 3), row), min_size=1, max_size=10, unique=True))
    copies = data.draw(st.booleans())
    relevance = Relevance.of(qrels_of(pairs), twins(texts), copies)
    queries, rows = np.arange(4)[:, None], np.tile(np.arange(-1, len(texts)), (4, 1))
    covers, judged = relevance.covers(queries, rows), relevance.judged(queries, rows)
    for query in range(4):
        wide = {texts[d].lower() for q, d in pairs if q == query}
        for document in range(len(texts)):
            plain = (query, document) in pairs
            assert judged[query, document + 1] == plain
            assert covers[query, document + 1] == (plain or (copies and texts[document].lower() in wide))
    assert not covers[:, 0].any() and not judged[:, 0].any()


@given(st.data())
def test_copies_of_a_query_share_its_documents(data):
    texts, asked = (data.draw(st.lists(st.sampled_from("aAbBc"), min_size=1, max_size=6)) for _ in range(2))
    rows = st.tuples(st.integers(0, len(asked) - 1), st.integers(0, len(texts) - 1))
    pairs = data.draw(st.lists(rows, min_size=1, max_size=8, unique=True))
    copies = data.draw(st.booleans())
    relevance = Relevance.of(qrels_of(pairs), twins(texts), copies, twins(asked))
    queries, documents = np.arange(-1, len(asked))[:, None], np.arange(-1, len(texts))[None, :]
    covers, judged = relevance.covers(queries, documents), relevance.judged(queries, documents)
    words = {(asked[q].lower(), texts[d].lower()) for q, d in pairs}
    for query in range(len(asked)):
        for document in range(len(texts)):
            copy = copies and (asked[query].lower(), texts[document].lower()) in words
            assert covers[query + 1, document + 1] == (copy or (query, document) in pairs)
            assert judged[query + 1, document + 1] == ((query, document) in pairs)
    assert not covers[0].any() and not covers[:, 0].any()


def test_distinct_counts_copies_of_a_document_once():
    relevance = Relevance.of(qrels_of([(0, 0), (0, 2), (1, 1)]), twins(["a", "b", "A"]))
    assert [part.tolist() for part in relevance.distinct()] == [[0, 1], [0, 1]]
