"""The lexical baseline."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dance.search.bm25 import K1, B, bm25

TEXTS = ["The cat sat", "a dog ran far away home", "Cat cat dog", ""]


def test_scores_are_lucenes() -> None:
    found = bm25(TEXTS, ["cat"], 4)
    lengths = [2, 5, 3, 0]  # without "the" and "a"
    idf = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))

    def score(times: int, length: int) -> float:
        return idf * times / (times + K1 * (1 - B + B * length / np.mean(lengths)))

    assert found.rows.tolist() == [[2, 0, -1, -1]]
    np.testing.assert_allclose(found.scores[0, :2], [score(2, 3), score(1, 2)], rtol=1e-5)


def test_documents_that_share_no_word_are_no_results() -> None:
    found = bm25(TEXTS, ["zebra", "", "the"], 2)
    assert (found.rows == -1).all() and np.isneginf(found.scores).all()


def test_ties_at_the_last_place_go_to_the_smaller_row() -> None:
    assert bm25(["cat"] * 50 + ["dog"], ["cat"], 3).rows.tolist() == [[0, 1, 2]]


def test_e01_no_documents_or_no_results_asked_for_are_errors() -> None:
    with pytest.raises(ValueError, match="empty corpus"):
        bm25([], ["cat"], 3)
    with pytest.raises(ValueError, match="k=0"):
        bm25(TEXTS, ["cat"], 0)


def test_a_corpus_of_stop_words_and_no_queries_are_no_error() -> None:
    assert (bm25(["the", "of"], ["cat"], 2).rows == -1).all()
    assert bm25(TEXTS, [], 2).rows.shape == (0, 2)


def test_documents_may_come_as_a_stream_and_progress_is_told() -> None:
    seen: list[int] = []
    assert bm25((text for text in TEXTS), ["cat", "dog"], 1, seen.append).rows.tolist() == [[2], [2]]
    assert seen == [1, 2]
