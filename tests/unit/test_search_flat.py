"""Exact search: the same answer however the corpus is cut."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import faiss
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dance.search import flat
from dance.search.flat import search
from dance.search.merge import merge
from dance.search.neighbours import Neighbours


def random_vectors(count: int, width: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def by_hand(vectors: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    scores = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def test_e01_fewer_documents_than_k_leave_fillers() -> None:
    found = search(np.eye(3, dtype=np.float32), np.array([10, 20, 30]), np.eye(3, dtype=np.float32)[:1], 5)
    assert found.rows.tolist() == [[10, 20, 30, -1, -1]]
    assert found.scores.tolist() == [[1, 0, 0, -np.inf, -np.inf]]


def test_e01_no_documents_or_no_neighbours_asked_for_are_errors() -> None:
    query = np.zeros((1, 4), dtype=np.float32)
    with pytest.raises(ValueError, match="empty corpus"):
        search(np.zeros((0, 4), dtype=np.float32), np.zeros(0, dtype=np.int64), query, 5)
    with pytest.raises(ValueError, match="k=0"):
        search(np.zeros((1, 4), dtype=np.float32), np.zeros(1, dtype=np.int64), query, 0)


def test_no_queries_are_no_error() -> None:
    found = search(random_vectors(5), np.arange(5), np.zeros((0, 8), dtype=np.float32), 3)
    assert found.rows.shape == found.scores.shape == (0, 3)


def test_widths_that_differ_and_rows_that_are_short_are_errors() -> None:
    with pytest.raises(ValueError, match="width 8, queries 4"):
        search(random_vectors(5), np.arange(5), random_vectors(1, width=4), 3)
    with pytest.raises(ValueError, match="5 vectors for 4 rows"):
        search(random_vectors(5), np.arange(4), random_vectors(1), 3)


@pytest.mark.parametrize("queries", [3, 40])  # below and above where Faiss turns to matrix products
@pytest.mark.parametrize("block", [7, 64, 1000])
def test_it_is_exact(queries: int, block: int) -> None:
    vectors, asked = random_vectors(300), random_vectors(queries, seed=1)
    found = search(vectors, np.arange(300), asked, 20, block=block)
    assert found.rows.tolist() == by_hand(vectors, asked, 20).tolist()
    scores = np.take_along_axis(asked @ vectors.T, found.rows, axis=1)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_e10_ids_and_scores_are_equal_for_any_sharding(shards: int) -> None:
    vectors, queries, k = random_vectors(12), random_vectors(4, seed=1), 4
    offset = 2**31  # rows beyond 32 bits
    parts = [
        search(vectors[rows], rows + offset, queries, k)
        for rows in np.array_split(np.random.default_rng(2).permutation(12), shards)
    ]
    found = merge(parts, k)
    assert found.rows.dtype == np.int64
    assert (found.rows - offset).tolist() == by_hand(vectors, queries, k).tolist()


@given(data=st.data())
def test_e10_close_scores_and_ties_fall_alike_in_any_sharding(data: Any) -> None:
    """Repeated vectors tie at every place, at the last one above all."""
    count = data.draw(st.integers(1, 120))
    kinds = data.draw(st.integers(1, 20))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    vectors = random_vectors(kinds, width=48)[random.integers(0, kinds, count)]
    queries, k = random_vectors(data.draw(st.sampled_from([2, 30])), width=48, seed=1), 9
    whole = search(vectors, np.arange(count), queries, k)
    order, shards = random.permutation(count), data.draw(st.integers(1, min(4, count)))
    parts = [search(vectors[rows], rows, queries, k, block=50) for rows in np.array_split(order, shards)]
    cut = merge(parts, k)
    np.testing.assert_array_equal(whole.rows, cut.rows)
    np.testing.assert_array_equal(whole.scores, cut.scores)
    for scores, rows in zip(*whole):
        assert list(zip(-scores, np.where(rows < 0, count, rows))) == sorted(
            zip(-scores, np.where(rows < 0, count, rows))
        )


def test_e10_rounding_of_the_matrix_product_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A BLAS may round otherwise for other shapes: here every call does, and moves the last places."""
    vectors, queries = random_vectors(500, width=384), random_vectors(40, width=384, seed=1)
    vectors[1:] = vectors[:1] + 1e-6 * vectors[1:]  # a collapsed encoder: all scores are close
    expected = search(vectors, np.arange(500), queries, 30)
    noise, exact = np.random.default_rng(0), faiss.knn

    def rough(queries: np.ndarray, part: np.ndarray, k: int, metric: int) -> Any:
        moved = part + np.float32(1e-8) * noise.standard_normal(part.shape, dtype=np.float32)
        return exact(queries, moved, k, metric=metric)

    monkeypatch.setattr(faiss, "knn", rough)
    for block in (500, 101):
        found = search(vectors, np.arange(500), queries, 30, block=block)
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.scores, expected.scores)


def test_e10_more_ties_than_spare_nominees_are_searched_again() -> None:
    vectors = np.repeat(random_vectors(3), 200, axis=0)
    queries = random_vectors(2, seed=1)
    found = search(vectors[::-1], np.arange(600)[::-1], queries, 5)
    assert found.rows.tolist() == by_hand(vectors, queries, 5).tolist()


def test_e11_dot_and_cosine_rank_differently() -> None:
    documents = np.array([[1, 0], [10, 10]], dtype=np.float32)
    query = np.array([[1, 0]], dtype=np.float32)
    assert search(documents, np.arange(2), query, 2).rows.tolist() == [[1, 0]]
    unit = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    assert search(unit, np.arange(2), query, 2).rows.tolist() == [[0, 1]]


def test_e02_k_beyond_the_gpu_limit_is_searched_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "knn_gpu", lambda *_, **__: pytest.fail("asked the GPU"), raising=False)
    vectors, query = random_vectors(5000), random_vectors(1, seed=1)
    with caplog.at_level(logging.INFO):
        found = search(vectors, np.arange(5000), query, 4096, torch.device("cuda", 0))
    assert "over what Faiss selects on a GPU" in caplog.text
    assert found.rows.tolist() == by_hand(vectors, query, 4096).tolist()


@pytest.mark.parametrize("fails", [False, True])
def test_s03_a_gpu_that_fails_is_replaced_by_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    asked: list[int] = []

    def on_gpu(resources: str, queries: np.ndarray, part: np.ndarray, k: int, metric: int, device: int) -> Any:
        asked.append(device)
        if fails:
            raise RuntimeError("out of memory")
        return faiss.knn(queries, part, k, metric=metric)

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 2)
    monkeypatch.setattr(faiss, "knn_gpu", on_gpu, raising=False)
    monkeypatch.setattr(flat, "_resources", lambda gpu: "shared")
    vectors, queries = random_vectors(50), random_vectors(3, seed=1)
    found = search(vectors, np.arange(50), queries, 5, torch.device("cuda", 1))
    assert asked and set(asked) == {1}
    assert ("out of memory" in caplog.text) == fails
    assert found.rows.tolist() == by_hand(vectors, queries, 5).tolist()


def test_a_faiss_without_gpus_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        search(random_vectors(5), np.arange(5), random_vectors(1), 2, torch.device("cuda", 0))
    assert "no GPU support" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("order", ["import torch, faiss", "import faiss, torch"])
def test_s09_faiss_and_torch_share_a_process(order: str) -> None:
    program = f"""{order}
import numpy as np
x = np.ones((100, 16), dtype=np.float32)
faiss.knn(x, x, 3, metric=faiss.METRIC_INNER_PRODUCT)
assert (torch.ones(100, 100) @ torch.ones(100, 100)).sum() == 1e6
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_s09_the_answer_does_not_depend_on_the_number_of_threads() -> None:
    vectors, queries = random_vectors(3000, width=32), random_vectors(50, width=32, seed=1)
    threads, answers = faiss.omp_get_max_threads(), []
    try:
        for number in (1, 2):
            faiss.omp_set_num_threads(number)
            answers.append(search(vectors, np.arange(3000), queries, 30))
    finally:
        faiss.omp_set_num_threads(threads)
    np.testing.assert_array_equal(answers[0].rows, answers[1].rows)
    np.testing.assert_array_equal(answers[0].scores, answers[1].scores)


def test_e06_a_read_only_memory_map_is_searched_in_place(tmp_path: Any) -> None:
    np.save(tmp_path / "v.npy", random_vectors(20))
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    found: Neighbours = search(mapped, np.arange(20), random_vectors(2, seed=1), 3, block=8)
    assert found.rows.tolist() == by_hand(mapped, random_vectors(2, seed=1), 3).tolist()
