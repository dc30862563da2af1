"""Mining: uniform draws, no positives, rotation that visits all, tables that read back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance import artefact
from dance.config import Negatives
from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance, twins
from dance.mining.draw import draw, permutation
from dance.mining.miner import mine, rotation
from dance.mining.table import NegativesTable
from dance.search.neighbours import Neighbours


def relevance_of(pairs, documents, texts=None):
    queries, relevant = (np.array(column, dtype=np.int64) for column in zip(*pairs))
    same = np.arange(documents) if texts is None else twins(texts)
    return Relevance.of(Qrels.of(queries, relevant, np.ones_like(queries)), same)


def test_draw_is_uniform_over_allowed_candidates():
    """3 of 8 allowed: each drawn with probability 3/8 over many seeds, within five standard deviations."""
    candidates = np.arange(100, 110)[None, :]
    allowed = np.ones((1, 10), dtype=bool)
    allowed[0, [2, 7]] = False
    hits, runs = np.zeros(10), 4000
    for seed in range(runs):
        positions, counts = draw(candidates, allowed, np.array([5]), 3, seed, 7)
        assert counts.tolist() == [3]
        hits[positions[0]] += 1
    assert hits[2] == hits[7] == 0
    spread = np.sqrt(runs * 3 / 8 * 5 / 8)
    assert np.abs(hits[allowed[0]] - runs * 3 / 8).max() < 5 * spread


@given(st.integers(0, 2**31), st.integers(0, 10**6), st.permutations(list(range(12))), st.integers(1, 12))
def test_draw_depends_on_the_candidates_not_on_their_order(seed, step, order, sample):
    rows = np.arange(50, 62)
    allowed = np.ones((1, 12), dtype=bool)
    straight, _ = draw(rows[None], allowed, np.array([3]), sample, seed, step)
    shuffled = rows[np.array(order)]
    other, _ = draw(shuffled[None], allowed, np.array([3]), sample, seed, step)
    assert rows[straight[0]].tolist() == shuffled[other[0]].tolist()
    assert len(set(straight[0].tolist())) == sample


def test_draws_of_other_steps_and_queries_differ():
    rows = np.tile(np.arange(200), (2, 1))
    allowed = np.ones_like(rows, dtype=bool)
    first, _ = draw(rows, allowed, np.array([0, 1]), 20, 42, 0)
    later, _ = draw(rows, allowed, np.array([0, 1]), 20, 42, 1)
    assert set(first[0]) != set(first[1]) and set(first[0]) != set(later[0])


def test_e07_no_positive_and_no_copy_of_one_is_mined():
    texts = ["a", "b", " B ", "c", "d", "e"]  # row 2 is row 1 again, but for case and space
    relevance = relevance_of([(0, 1), (0, 4), (1, 0)], 6, texts)
    neighbours = Neighbours(
        np.array([[9, 8, 7, 6, 5], [5, 4, 3, 2, -np.inf]], dtype=np.float32),
        np.array([[1, 2, 3, 4, 5], [0, 1, 2, 3, -1]]),
    )
    mined = mine(neighbours, np.array([0, 1]), relevance, Negatives(topk=5, sample=5), seed=1, step=0)
    assert mined.counts.tolist() == [2, 3]
    assert sorted(mined.documents[:2].tolist()) == [3, 5]
    assert sorted(mined.documents[2:].tolist()) == [1, 2, 3]
    assert mined.relevant_dropped == 4 and mined.missing == 1 and mined.short == 2
    assert dict(zip(mined.documents[:2].tolist(), mined.scores[:2].tolist())) == {3: 7, 5: 5}


def test_e01_filler_rows_are_never_mined():
    neighbours = Neighbours(np.array([[1, -np.inf, -np.inf]], dtype=np.float32), np.array([[0, -1, -1]]))
    mined = mine(neighbours, np.array([0]), relevance_of([(0, 0)], 3), Negatives(topk=3, sample=3), 1, 0)
    assert mined.counts.tolist() == [0] and len(mined.documents) == 0


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
    return NegativesTable(
        step=40,
        queries=np.array([2, 5, 9]),
        offsets=np.array([0, 3, 3, 4]),
        documents=np.array([10, 11, 12, 13]),
        scores=np.array([4, 3, 2, 1], dtype=np.float32),
        facts={"turn": 2},
    )


def test_table_round_trip_and_refusal_of_a_cut_file(tmp_path):
    path = tmp_path / "negatives" / "step_00000040"
    table().publish(path)
    read = NegativesTable.open(path)
    assert read.step == 40 and read.facts["turn"] == 2
    assert read.documents.tolist() == [10, 11, 12, 13] and read.scores.dtype == np.float32
    whole = (path / "documents.npy").read_bytes()
    (path / "documents.npy").write_bytes(whole[:-4])
    with pytest.raises(artefact.Broken, match="expected .* bytes, found"):
        NegativesTable.open(path)


def test_table_takes_every_negative_in_turn_and_marks_the_missing():
    queries = np.array([2, 2, 5, 9, 7])
    assert table().counts(queries).tolist() == [3, 3, 0, 1, 0]
    taken = table().take(queries, np.array([0, 1, 0, 3, 0]), 2)
    assert taken.tolist() == [[10, 11], [12, 10], [-1, -1], [13, -1], [-1, -1]]


def test_permutation_is_a_function_of_its_key():
    assert np.array_equal(permutation(50, 1, 2, 3), permutation(50, 1, 2, 3))
    assert not np.array_equal(permutation(50, 1, 2, 3), permutation(50, 1, 2, 4))
    assert sorted(permutation(50, 9).tolist()) == list(range(50))


def test_twins_ignore_case_and_space_and_leave_empty_texts_alone():
    assert twins(["One  two", "", "one two", "", "three", "ONE TWO"]).tolist() == [0, 1, 0, 3, 4, 0]


def test_a_corpus_smaller_than_top_k_is_counted():
    neighbours = Neighbours(np.array([[3, 2, 1]], dtype=np.float32), np.array([[0, 1, 2]]))
    mined = mine(neighbours, np.array([0]), relevance_of([(0, 0)], 3), Negatives(topk=200, sample=20), 1, 0)
    assert mined.missing == 197 and mined.short == 1 and mined.counts.tolist() == [2]
