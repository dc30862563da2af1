"""The order of examples and its cursor: however it is cut or dealt, the same examples come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.corpus.qrels import Qrels
from dance.learning.order import Stream, deal
from dance.mining.table import Drawn, NegativesTable

FIELDS = ("queries", "positives", "negatives", "query_negatives")


def diagonal(pairs):
    """Document q answers query q."""
    rows = np.arange(pairs)
    return Qrels.of(rows, rows, np.ones_like(rows))


def drawn(keys, each, start=1000):
    keys = np.array(list(keys), dtype=np.int64)
    rows = np.arange(start, start + len(keys) * each)
    return Drawn(keys, np.arange(len(keys) + 1) * each, rows, np.zeros(len(rows), np.float32))


def table_for(keys, each, step=0, queries=None):
    return NegativesTable(step, drawn(keys, each), queries, {})


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 2), st.integers(0, 5), st.integers(1, 40))
def test_stream_is_the_same_however_it_is_cut(pairs, k, k_queries, seed, cut):
    def stream():
        table = table_for(range(pairs), 6, queries=drawn(range(pairs), 5, start=5000))
        return Stream.over(diagonal(pairs), table, k, k_queries, seed)

    whole = stream().take(0, 60)
    first, rest = stream().take(0, cut), stream().take(cut, 60 - cut)
    assert whole.negatives.shape == (60, k) and whole.query_negatives.shape == (60, k_queries)
    for name in FIELDS:
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(first, name), getattr(rest, name)]))


def test_every_epoch_has_each_pair_once_and_moves_on_through_the_negatives():
    table = table_for(range(10), 4, queries=drawn(range(10), 2, start=5000))
    stream = Stream.over(diagonal(10), table, 2, 1, seed=3)
    used, used_queries = {q: [] for q in range(10)}, {q: [] for q in range(10)}
    for start in (0, 10):
        one = stream.take(start, 10)
        assert sorted(one.queries.tolist()) == list(range(10))
        for query, negatives, queries in zip(
            one.queries.tolist(), one.negatives.tolist(), one.query_negatives.tolist()
        ):
            used[query] += negatives
            used_queries[query] += queries
    assert all(sorted(rows) == list(range(1000 + 4 * q, 1004 + 4 * q)) for q, rows in used.items())
    assert all(sorted(rows) == list(range(5000 + 2 * d, 5002 + 2 * d)) for d, rows in used_queries.items())


def test_negative_queries_are_those_of_the_positive_document():
    qrels = Qrels.of(np.array([0, 0, 1]), np.array([20, 30, 30]), np.ones(3, dtype=np.int64))
    table = NegativesTable(0, drawn([0, 1], 1), drawn([20, 30], 1, start=70), {})
    examples = Stream.over(qrels, table, 1, 1, 0).take(0, 30)
    assert set(examples.query_negatives[examples.positives == 20].ravel().tolist()) == {70}
    assert set(examples.query_negatives[examples.positives == 30].ravel().tolist()) == {71}
    assert set(examples.negatives[examples.queries == 0].ravel().tolist()) == {1000}


def test_r03_order_differs_between_epochs_and_tables_but_not_between_runs():
    first = Stream.over(diagonal(64), table_for(range(64), 1), 1, 0, 3)
    other = Stream.over(diagonal(64), table_for(range(64), 1, step=50), 1, 0, 3)
    again = Stream.over(diagonal(64), table_for(range(64), 1), 1, 0, 3)
    assert not np.array_equal(first.take(0, 64).queries, first.take(64, 64).queries)
    assert not np.array_equal(first.take(0, 64).queries, other.take(0, 64).queries)
    assert np.array_equal(first.take(0, 64).queries, again.take(0, 64).queries)


@pytest.mark.parametrize(("size", "pairs"), [(2, 11), (3, 11), (2, 1)])
def test_r01_ranks_always_have_equally_many_examples(size, pairs):
    table = table_for(range(pairs), 2, queries=drawn(range(pairs), 3))
    examples = Stream.over(diagonal(pairs), table, 1, 2, 0).take(0, 2 * 2 * size)
    dealt = [deal(examples, 2, 2, rank, size) for rank in range(size)]
    assert {len(micro.queries) for rank in dealt for micro in rank} == {2}
    for name in FIELDS:
        joined = [np.concatenate([getattr(dealt[rank][micro], name) for rank in range(size)]) for micro in range(2)]
        assert np.array_equal(np.concatenate(joined), getattr(examples, name))


def test_queries_without_negatives_are_left_out_and_none_at_all_is_an_error():
    stream = Stream.over(diagonal(2), table_for([1], 1, step=5), 1, 0, 0)
    assert stream.queries.tolist() == [1]
    with pytest.raises(ValueError, match="none for any training query"):
        Stream.over(diagonal(2), table_for([1], 0, step=5), 1, 0, 0)


def test_without_mined_negatives_all_pairs_serve_whatever_the_table_holds():
    examples = Stream.over(diagonal(3), table_for([], 0), 0, 0, 0).take(0, 3)
    assert sorted(examples.queries.tolist()) == [0, 1, 2]
    assert examples.negatives.shape == examples.query_negatives.shape == (3, 0)


def test_before_the_first_negatives_the_dual_task_is_in_batch_too():
    examples = Stream.over(diagonal(3), None, 2, 1, 0).take(0, 3)
    assert examples.negatives.shape == examples.query_negatives.shape == (3, 0)


def test_with_mined_queries_alone_a_pair_needs_one_of_its_document():
    table = table_for([], 0, queries=drawn([2], 1))
    assert Stream.over(diagonal(3), table, 0, 1, 0).positives.tolist() == [2]


def test_a_table_without_negative_queries_is_refused_where_they_are_wanted():
    with pytest.raises(ValueError, match="no negative queries, which loss.dual_weight needs"):
        Stream.over(diagonal(3), table_for(range(3), 1), 1, 1, 0).take(0, 1)
