"""Documents of several vectors against brute force over all chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.search import flat
from dance.search.flat import inner_products, search
from dance.search.merge import fold, merge
from dance.search.neighbours import NONE, Neighbours, best, empty


def random_vectors(count: int, width: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def by_hand(vectors: np.ndarray, owners: np.ndarray, queries: np.ndarray, k: int) -> list[list[int]]:
    """Rows of each query by the best of their vectors, ties to the smaller row; in float64."""
    lists = []
    for query in queries.astype(np.float64):
        top: dict[int, float] = {}
        for vector, row in zip(vectors.astype(np.float64), owners.tolist()):
            top[row] = max(top.get(row, -np.inf), float(query @ vector))
        lists.append([row for _, row in sorted((-score, row) for row, score in top.items())][:k])
    return lists


@pytest.mark.parametrize("block", [7, 50, 1000])
@pytest.mark.parametrize("queries", [3, 30])
def test_a_document_ranks_by_its_best_chunk_and_comes_out_once(block: int, queries: int) -> None:
    vectors, asked = random_vectors(200), random_vectors(queries, seed=1)
    owners = np.sort(np.random.default_rng(2).integers(0, 70, 200))
    found = search(vectors, owners, asked, 10, block=block, per_row=int(np.bincount(owners).max()))
    assert found.rows.tolist() == by_hand(vectors, owners, asked, 10)


@given(data=st.data())
def test_e10_chunks_in_any_sharding_are_brute_force_over_all_chunks(data: Any) -> None:
    """A document's chunks may lie in several shards, and repeated vectors tie at every place."""
    documents, chunks = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 5))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    owners = np.repeat(np.arange(documents), random.integers(1, chunks + 1, documents))
    vectors = random_vectors(data.draw(st.integers(1, 20)), width=24)
    vectors = vectors[random.integers(0, len(vectors), len(owners))]
    queries, k = random_vectors(data.draw(st.sampled_from([2, 25])), width=24, seed=1), data.draw(st.integers(1, 9))
    shards = np.array_split(random.permutation(len(owners)), data.draw(st.integers(1, min(4, len(owners)))))
    parts = [search(vectors[rows], owners[rows], queries, k, block=30, per_row=chunks) for rows in shards]
    found = merge(parts, k)
    scores = exact_scores(vectors, owners, queries, documents)  # [queries, documents]
    expected = best(scores, np.broadcast_to(np.arange(documents), scores.shape), k)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.scores, expected.scores)


def exact_scores(vectors: np.ndarray, owners: np.ndarray, queries: np.ndarray, documents: int) -> np.ndarray:
    """The best over all chunks of each document, by the inner products that the search ranks by."""
    places = np.tile(np.arange(len(vectors)), (len(queries), 1))
    every = inner_products(queries, vectors, places)  # [queries, chunks]
    scores = np.full((len(queries), documents), -np.inf, np.float32)
    for column, row in enumerate(owners.tolist()):
        scores[:, row] = np.maximum(scores[:, row], every[:, column])
    return scores


def test_v05_documents_whose_chunks_fill_all_first_places_leave_room_for_others() -> None:
    """The best 60 vectors are three documents' own, as many as are nominated at first and more."""
    close = np.repeat(np.eye(4, dtype=np.float32)[:1], 60, axis=0) + np.linspace(0, 0.1, 60, dtype=np.float32)[:, None]
    far = random_vectors(200, width=4) * np.float32(0.01)
    owners = np.concatenate([np.repeat([5, 6, 7], 20), np.arange(10, 210)])
    vectors, query = np.concatenate([close, far]), np.eye(4, dtype=np.float32)[:1]
    found = search(vectors, owners, query, 6, per_row=20)
    assert found.rows.tolist() == by_hand(vectors, owners, query, 6)
    assert sorted(found.rows[0, :3].tolist()) == [5, 6, 7] and len(set(found.rows[0].tolist())) == 6


def test_only_what_is_in_doubt_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    nominate = flat._nominate

    def counted(queries: np.ndarray, part: np.ndarray, k: int, gpu: int | None) -> Any:
        asked.append(len(queries))
        return nominate(queries, part, k, gpu)

    monkeypatch.setattr(flat, "_nominate", counted)
    search(random_vectors(2000), np.arange(2000) // 4, random_vectors(9, seed=1), 10, per_row=4)
    assert asked == [9]


def test_e01_fewer_documents_than_k_leave_fillers() -> None:
    found = search(np.eye(4, dtype=np.float32), np.array([3, 3, 8, 8]), np.ones((1, 4), np.float32), 5, per_row=2)
    assert found.rows.tolist() == [[3, 8, NONE, NONE, NONE]] and np.isneginf(found.scores[0, 2:]).all()


@given(data=st.data())
def test_a_row_counts_once_by_its_best(data: Any) -> None:
    width, k = data.draw(st.integers(0, 12)), data.draw(st.integers(1, 6))
    rows = data.draw(st.lists(st.integers(-1, 4), min_size=width, max_size=width))
    scores = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=width, max_size=width))
    found = best(np.array([scores], np.float32), np.array([rows], np.int64).reshape(1, width), k, repeats=True)
    top = {row: max(s for s, r in zip(scores, rows) if r == row) for row in rows if row != NONE}
    expected = sorted(top, key=lambda row: (-top[row], row))[:k]
    assert found.rows[0].tolist() == expected + [NONE] * (k - len(expected))
    assert found.scores[0, : len(expected)].tolist() == [top[row] for row in expected]


@given(data=st.data())
def test_folding_the_asks_of_one_asker_is_brute_force_over_them(data: Any) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    owners = np.sort(random.integers(0, 8, data.draw(st.integers(0, 20))))
    pool, asks, k = random_vectors(30), random_vectors(len(owners), seed=1), data.draw(st.integers(1, 40))
    keys, found = fold(search(pool, np.arange(30), asks, k), owners, k)
    assert keys.tolist() == sorted(set(owners.tolist())) and found.rows.shape == (len(keys), k)
    for key, scores, rows in zip(keys, *found):
        top = inner_products(asks[owners == key], pool, np.tile(np.arange(30), (int((owners == key).sum()), 1))).max(0)
        expected = best(top[None], np.arange(30)[None], k)
        assert rows.tolist() == expected.rows[0].tolist() and scores.tolist() == expected.scores[0].tolist()


def test_no_asks_are_no_askers() -> None:
    keys, found = fold(empty(0, 3), np.zeros(0, np.int64), 3)
    assert len(keys) == 0 and found.rows.shape == (0, 3)


def test_inner_products_skip_what_is_not_there() -> None:
    scores = inner_products(random_vectors(2), random_vectors(5, seed=1), np.array([[0, NONE], [NONE, 4]]))
    assert np.isneginf(scores).tolist() == [[False, True], [True, False]]


def test_merging_keeps_a_row_of_two_shards_once() -> None:
    parts = [Neighbours(np.array([[s, 0.5]], np.float32), np.array([[7, r]])) for s, r in ((1.0, 3), (2.0, 4))]
    merged = merge(parts, 4)
    assert merged.rows.tolist() == [[7, 3, 4, NONE]] and merged.scores[0, 0] == 2.0
