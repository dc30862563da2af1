"""Batches by token budget, and their padding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dance.encoder.batching import pad, plan_batches
from tests.tiny import some_texts, tiny_bert, tiny_store


@given(lengths=st.lists(st.integers(1, 600), max_size=80), budget=st.integers(1, 2000), size=st.integers(1, 5))
def test_e05_every_row_once_within_the_budget_whatever_the_ranks(lengths: list[int], budget: int, size: int) -> None:
    sizes = np.array(lengths, dtype=np.int64)
    batches = plan_batches(sizes, budget)
    shares = [batches[rank::size] for rank in range(size)]
    rows = [row for share in shares for batch in share for row in batch.tolist()]
    assert sorted(rows) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * sizes[batch].max() <= budget
    longest = [int(sizes[batch].max()) for batch in batches]
    assert longest == sorted(longest, reverse=True)


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_ties_keep_their_order(lengths: list[int]) -> None:
    rows = np.concatenate(plan_batches(np.array(lengths), 16)).tolist()
    assert rows == sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))


@given(lengths=st.lists(st.integers(1, 60), max_size=60), size=st.integers(1, 4))
def test_the_share_of_a_rank_is_planned_as_it_was_cut(lengths: list[int], size: int) -> None:
    """Planning again inside a share gives the same batches, so that vectors stay equal bit for bit."""
    sizes = np.array(lengths, dtype=np.int64)
    for rank in range(size):
        share = plan_batches(sizes, 64)[rank::size]
        rows = np.concatenate([np.empty(0, dtype=np.int64), *share])
        again = [rows[batch].tolist() for batch in plan_batches(sizes[rows], 64)]
        assert again == [batch.tolist() for batch in share]


def test_length_sorting_leaves_little_padding() -> None:
    lengths = np.random.default_rng(0).integers(5, 500, 2000)
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in plan_batches(lengths, 8192))
    assert padded < 1.03 * lengths.sum()


def test_t02_types_are_1_behind_the_first_separator(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "model")
    store = tiny_store(tmp_path / "t", folder, ["read a file", "sort", "[SEP] list"], titles=["the title", "", "a"])
    batch = pad(store, np.arange(3))
    assert batch.types is not None
    types = batch.types.tolist()
    for row in range(3):
        text = store.row(row).tolist()
        first = text.index(store.separator_id)
        expected = [int(at > first) for at in range(len(text))]
        assert types[row] == expected + [0] * (len(types[row]) - len(text))


def test_padding_is_exact(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "model")
    store = tiny_store(tmp_path / "t", folder, some_texts(9))
    rows = np.array([7, 0, 3])
    batch = pad(store, rows)
    assert batch.ids.shape == (3, max(store.lengths[rows]))
    for at, row in enumerate(rows):
        assert batch.ids[at][batch.mask[at]].tolist() == store.row(int(row)).tolist()
        assert (batch.ids[at][~batch.mask[at]] == store.pad_id).all()
