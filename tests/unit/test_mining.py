"""Rotation that visits all, tables that read back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance import artefact
from dance.mining.miner import rotation
from dance.mining.table import Drawn, NegativesTable


@given(st.integers(1, 200), st.floats(0.01, 1.0), st.integers(0, 1000))
def test_rotation_visits_every_query_once_per_round(queries, share, seed):
    rows = np.arange(queries) * 3
    parts = min(max(1, round(1 / share)), queries)
    visited = np.concatenate([rotation(rows, share, turn, seed) for turn in range(parts)])
    assert sorted(visited.tolist()) == rows.tolist()


def test_rotation_changes_from_round_to_round():
    rows = np.arange(100)
    assert not np.array_equal(rotation(rows, 0.5, 0, 1), rotation(rows, 0.5, 2, 1))


def table():
    rows, scores = np.array([10, 11, 12, 13]), np.array([4, 3, 2, 1], dtype=np.float32)
    return NegativesTable(40, Drawn(np.array([2, 5, 9]), np.array([0, 3, 3, 4]), rows, scores), None, {"turn": 2})


def test_table_round_trip_and_refusal_of_a_cut_file(tmp_path):
    path = tmp_path / "negatives" / "step_00000040"
    table().publish(path)
    read = NegativesTable.open(path)
    assert read.step == 40 and read.facts["turn"] == 2 and read.queries is None
    assert read.documents.rows.tolist() == [10, 11, 12, 13] and read.documents.scores.dtype == np.float32
    whole = (path / "documents.rows.npy").read_bytes()
    (path / "documents.rows.npy").write_bytes(whole[:-4])
    with pytest.raises(artefact.Broken, match="expected .* bytes, found"):
        NegativesTable.open(path)


def test_table_of_the_dual_task_holds_both_directions(tmp_path):
    turned = Drawn(np.array([3]), np.array([0, 2]), np.array([8, 9]), np.full(2, np.nan, np.float32))
    NegativesTable(7, table().documents, turned, {}).publish(tmp_path / "step_00000007")
    read = NegativesTable.open(tmp_path / "step_00000007")
    assert read.documents.of(9).tolist() == [13] and read.queries.of(3).tolist() == [8, 9]
    assert np.isnan(read.queries.scores).all() and read.queries.owners().tolist() == [3, 3]


@given(st.dictionaries(st.integers(0, 30), st.lists(st.integers(0, 9), unique=True, max_size=5), max_size=8))
def test_drawn_is_what_was_gathered_in_any_order(lists):
    keys, counts = np.array([*lists], np.int64), np.array([len(rows) for rows in lists.values()], np.int64)
    rows = np.array([row for each in lists.values() for row in each], np.int64)
    drawn = Drawn.gathered(keys, counts, rows, rows.astype(np.float32))
    assert drawn.keys.tolist() == sorted(lists) and drawn.scores.tolist() == drawn.rows.tolist()
    asked = np.arange(-1, 32)
    assert drawn.counts(asked).tolist() == [len(lists.get(key, [])) for key in asked.tolist()]
    for key, padded in zip(asked.tolist(), drawn.padded(asked).tolist()):
        assert drawn.of(key).tolist() == lists.get(key, []) == [row for row in padded if row >= 0]


def test_table_takes_every_negative_in_turn_and_marks_the_missing():
    queries = np.array([2, 2, 5, 9, 7])
    drawn = table().documents
    assert drawn.counts(queries).tolist() == [3, 3, 0, 1, 0]
    taken = drawn.take(queries, np.array([0, 1, 0, 3, 0]), 2)
    assert taken.tolist() == [[10, 11], [12, 10], [-1, -1], [13, -1], [-1, -1]]
    assert drawn.of(2).tolist() == [10, 11, 12] and drawn.of(5).tolist() == drawn.of(7).tolist() == []
