"""Merging the results of shards."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dance.search.merge import merge
from dance.search.neighbours import Neighbours, empty


def found(scores: list[list[float]], rows: list[list[int]]) -> Neighbours:
    return Neighbours(np.array(scores, dtype=np.float32), np.array(rows, dtype=np.int64))


def test_e10_ties_go_to_the_smaller_row() -> None:
    merged = merge([found([[2, 1]], [[9, 4]]), found([[2, 1]], [[3, 5]])], 3)
    assert merged.rows.tolist() == [[3, 9, 4]]
    assert merged.scores.tolist() == [[2, 2, 1]]


def test_e01_fillers_never_win() -> None:
    merged = merge([found([[-5, -np.inf]], [[7, -1]]), found([[3.0, 0.0]], [[-1, -1]])], 3)
    assert merged.rows.tolist() == [[7, -1, -1]]
    assert merged.scores.tolist() == [[-5, -np.inf, -np.inf]]


def test_e10_rows_keep_64_bits() -> None:
    big = 2**40 + 1
    assert merge([found([[1.0]], [[big]]), found([[1.0]], [[big + 1]])], 2).rows.tolist() == [[big, big + 1]]


def test_k_beyond_all_candidates_is_filled_up() -> None:
    merged = merge([found([[1.0]], [[4]]), empty(1, 1)], 5)
    assert merged.rows.tolist() == [[4, -1, -1, -1, -1]]


@given(data=st.data())
def test_e10_it_is_the_sorted_union_in_any_order(data: Any) -> None:
    """Against plain sorting, with many equal scores."""
    rows = data.draw(st.lists(st.integers(0, 2**40), min_size=1, max_size=30, unique=True))
    scores = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=len(rows), max_size=len(rows)))
    k, shards = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4))
    parts = []
    for shard in range(shards):
        pairs = sorted((-s, r) for s, r in zip(scores[shard::shards], rows[shard::shards]))[:k]
        pairs += [(np.inf, -1)] * (k - len(pairs))
        parts.append(found([[-s for s, _ in pairs]], [[r for _, r in pairs]]))
    expected = [row for _, row in sorted((-s, r) for s, r in zip(scores, rows))][:k]
    for order in (parts, parts[::-1]):
        merged = merge(order, k)
        assert merged.rows[0].tolist() == expected + [-1] * (k - len(expected))
