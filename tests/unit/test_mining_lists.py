"""Lists of candidates by key, random ones among them, and how sources share out a sample."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.config import from_plain
from dance.corpus.qrels import Qrels
from dance.mining import lists
from dance.mining.mixing import ORDER, mix, quotas, shares
from dance.search.neighbours import Neighbours


def padded(rows):
    width = max(map(len, rows), default=0)
    return np.array([[*row, *[-1] * (width - len(row))] for row in rows], dtype=np.int64).reshape(len(rows), width)


def plain(rows):
    return [[row for row in key if row >= 0] for key in rows.tolist()]


UNIQUE = st.lists(st.integers(0, 15), max_size=8, unique=True)


@given(st.lists(st.tuples(UNIQUE, UNIQUE), min_size=1, max_size=4))
def test_membership_and_look_up_are_those_of_each_keys_own_list(keys):
    rows, among = padded([a for a, _ in keys]), padded([b for _, b in keys])
    scores = (among * 2).astype(np.float32)
    inside, found = lists.member(rows, among), lists.look_up(rows, Neighbours(scores, among))
    for i, (wanted, there) in enumerate(keys):
        for j in range(rows.shape[1]):
            is_in = j < len(wanted) and wanted[j] in there
            assert inside[i, j] == is_in
            assert found[i, j] == 2 * wanted[j] if is_in else math.isnan(found[i, j])


@given(st.lists(st.lists(st.integers(-1, 5), min_size=6, max_size=6), min_size=1, max_size=4), st.integers(0, 8))
def test_repeats_and_gaps_are_found(keys, count):
    rows = np.array(keys)
    again = lists.repeated(rows)
    for i, key in enumerate(keys):
        assert again[i].tolist() == [row in key[:j] for j, row in enumerate(key)]
    assert plain(lists.compact(rows, count)) == [[row for row in key if row >= 0][:count] for key in keys]
    assert lists.compact(rows, count).shape == (len(keys), count)


def test_given_negatives_come_by_key_with_unknown_scores():
    qrels = Qrels.of(np.array([2, 2, 5]), np.array([7, 3, 9]), np.ones(3, np.int64))
    found = lists.listed(qrels.queries, qrels.offsets, qrels.documents, np.array([5, 0, 2, 9]))
    assert found.rows.tolist() == [[9, -1], [-1, -1], [3, 7], [-1, -1]]
    assert np.isnan(found.scores[found.rows >= 0]).all() and np.isneginf(found.scores[found.rows < 0]).all()
    assert lists.listed(qrels.queries[:0], np.zeros(1, np.int64), qrels.documents[:0], np.arange(3)).rows.shape == (
        3,
        0,
    )


@given(st.data())
def test_e01_random_rows_are_real_distinct_and_not_relevant_in_corpora_of_any_size(data):
    corpus, count = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 12))
    pairs = data.draw(st.sets(st.tuples(st.integers(0, 3), st.integers(0, corpus - 1)), max_size=80))
    table = np.zeros((4, corpus), dtype=bool)
    for query, document in pairs:
        table[query, document] = True
    keys = np.array(data.draw(st.permutations(range(4))))
    found = lists.random_rows(keys, count, corpus, lambda k, r: table[k, r], 1, data.draw(st.integers(0, 99)))
    assert found.rows.shape == (4, count)
    for key, rows in zip(keys.tolist(), plain(found.rows)):
        assert len(set(rows)) == len(rows) == min(count, corpus - int(table[key].sum()))
        assert all(0 <= row < corpus and not table[key, row] for row in rows)


def test_random_rows_do_not_depend_on_the_other_keys_and_are_uniform():
    keys = np.arange(4000)

    def covers(keys, rows):
        return rows == 30

    rows = lists.random_rows(keys, 5, 40, covers, 1, 2).rows
    assert np.array_equal(lists.random_rows(keys[100:103], 5, 40, covers, 1, 2).rows, rows[100:103])
    assert not np.array_equal(lists.random_rows(keys, 5, 40, covers, 1, 3).rows, rows)
    seen = np.delete(np.bincount(rows.ravel(), minlength=40), 30)
    assert ((seen - 20000 / 39) ** 2 / (20000 / 39)).sum() < 70.70  # 99.9 % of chi-square with 38 degrees


@given(st.integers(0, 200), st.lists(st.floats(0.01, 10), min_size=1, max_size=5))
def test_quotas_add_up_and_are_within_one_of_the_exact_shares(count, weights):
    parts = quotas(count, weights)
    assert sum(parts) == count
    assert all(abs(part - count * weight / sum(weights)) < 1 + 1e-9 for part, weight in zip(parts, weights))


def test_quotas_go_by_the_largest_remainder():
    assert (
        quotas(20, [1, 1]) == [10, 10] and quotas(7, [1, 1, 1]) == [3, 2, 2] and quotas(5, [0.5, 0.3, 0.2]) == [3, 1, 1]
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"ann": 1.0}),
        ({"sources": {"ann": 0, "bm25": 2, "random": 2}}, {"bm25": 0.5, "random": 0.5}),
        (
            {"draw": {"momentum": 0.25, "lookahead": 0.25}, "negatives": {"queries_per_refresh": 1.0}},
            {"ann": 0.5, "lookahead": 0.25, "former": 0.25},
        ),
        ({"draw": {"lookahead": 1.0}}, {"lookahead": 1.0}),
    ],
)
def test_shares_of_sources(settings, expected):
    assert shares(from_plain(settings)) == pytest.approx(expected)


def slow_mix(sources, parts, order):
    """One key: quota rows from each in order, twice, then all that is left."""
    chosen = []
    for round_of in (parts, parts, dict.fromkeys(order, 999)):
        for name in order:
            fresh = [row for row in sources[name] if row not in chosen]
            chosen += fresh[: round_of[name]]
    return chosen


@given(st.data())
def test_sources_share_out_a_sample_without_repeats_and_fill_in_for_each_other(data):
    names = [name for name in ORDER if data.draw(st.booleans())] or ["ann"]
    weights = {name: data.draw(st.floats(0.1, 3)) for name in names}
    sample, keys = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    sources = [{name: data.draw(UNIQUE) for name in names} for _ in range(keys)]
    mixed = mix({name: padded([key[name] for key in sources]) for name in reversed(names)}, weights, sample)
    parts = dict(zip(names, quotas(sample, list(weights.values()))))
    for key, rows in zip(sources, plain(mixed)):
        assert rows == slow_mix(key, parts, names)
        assert sorted(rows) == sorted(set().union(*key.values()))
