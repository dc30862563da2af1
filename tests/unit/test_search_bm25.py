"""The lexical baseline."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from dance import artefact
from dance.search.bm25 import K1, LONGEST, B, Index

TEXTS = ["The cat sat", "a dog ran far away home", "Cat cat dog", ""]


def test_scores_are_lucenes() -> None:
    found = Index.of(TEXTS).search(["cat"], 4)
    lengths = [2, 5, 3, 0]  # without "the" and "a"
    idf = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))

    def score(times: int, length: int) -> float:
        return idf * times / (times + K1 * (1 - B + B * length / np.mean(lengths)))

    assert found.rows.tolist() == [[2, 0, -1, -1]]
    np.testing.assert_allclose(found.scores[0, :2], [score(2, 3), score(1, 2)], rtol=1e-5)


def test_documents_that_share_no_word_are_no_results() -> None:
    found = Index.of(TEXTS).search(["zebra", "", "the"], 2)
    assert (found.rows == -1).all() and np.isneginf(found.scores).all()


def test_ties_at_the_last_place_go_to_the_smaller_row() -> None:
    assert Index.of(["cat"] * 50 + ["dog"]).search(["cat"], 3).rows.tolist() == [[0, 1, 2]]


def test_e01_no_documents_or_no_results_asked_for_are_errors() -> None:
    with pytest.raises(ValueError, match="empty corpus"):
        Index.of([])
    with pytest.raises(ValueError, match="k=0"):
        Index.of(TEXTS).search(["cat"], 0)


def test_a_corpus_of_stop_words_and_no_queries_are_no_error() -> None:
    assert (Index.of(["the", "of"]).search(["cat"], 2).rows == -1).all()
    assert Index.of(TEXTS).search([], 2).rows.shape == (0, 2)


def test_documents_may_come_as_a_stream_and_progress_is_told() -> None:
    seen: list[int] = []
    assert Index.of(text for text in TEXTS).search(["cat", "dog"], 1, seen.append).rows.tolist() == [[2], [2]]
    assert seen == [1, 2]


def test_an_index_on_disk_finds_what_it_does_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["cat", "dog", "cow", "the", "ox"], rng.integers(0, 9))) for _ in range(40)]
    made = Index.of(texts)
    made.publish(tmp_path / "index", "here")
    kept = Index.open(tmp_path / "index", "here")
    for ours, theirs in zip(made.search(texts[:10], 7), kept.search(texts[:10], 7)):
        np.testing.assert_array_equal(ours, theirs)


def test_an_index_of_stop_words_alone_is_kept_too(tmp_path: Path) -> None:
    Index.of(["the", "of"]).publish(tmp_path / "index", "here")
    assert (Index.open(tmp_path / "index", "here").search(["cat"], 2).rows == -1).all()


def test_a_cut_index_and_one_of_another_text_are_refused(tmp_path: Path) -> None:
    Index.of(TEXTS).publish(tmp_path / "index", "here")
    with pytest.raises(artefact.Broken, match="was made of text here, not there"):
        Index.open(tmp_path / "index", "there")
    whole = (tmp_path / "index" / "vocab.index.json").read_bytes()
    (tmp_path / "index" / "vocab.index.json").write_bytes(whole[:-3])
    with pytest.raises(artefact.Broken, match="expected .* bytes, found"):
        Index.open(tmp_path / "index", "here")


def test_the_first_words_of_a_long_document_ask() -> None:
    index = Index.of(["cat", "dog"])
    assert index.search(["cat " * LONGEST + "dog"], 2).rows.tolist() == [[0, -1]]
