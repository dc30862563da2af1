"""What a refresh reports, against counting by hand; the ceiling on hubs, against a slow matching."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.config import from_plain
from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance, twins
from dance.mining.diagnostics import GAPS, SecondLook, Tally, facts, oracle, overlap
from dance.mining.draw import priorities
from dance.mining.finish import settle
from dance.mining.miner import Block, Judged, mine
from dance.mining.table import Drawn
from dance.search.neighbours import Neighbours


def drawn_of(lists, scores=None):
    keys = np.array(sorted(lists))
    counts = np.array([len(lists[key]) for key in keys.tolist()], dtype=np.int64)
    rows = np.array([row for key in keys.tolist() for row in lists[key]], dtype=np.int64)
    return Drawn.gathered(keys, counts, rows, np.zeros(len(rows), np.float32) if scores is None else scores)


def lists_by_key(row=9):
    return st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, row), unique=True, max_size=8), min_size=1)


def slow_settle(lists, sample, hubs, seed, step):
    """Keys ask one row at a time, each a row that refuses whom it likes least: another order, the same outcome."""

    def rank(key, row):
        return int(priorities(seed, step, np.array([key]), np.array([row]), 4)[0])

    refused = {key: set() for key in lists}
    while True:
        asks = {key: [row for row in rows if row not in refused[key]][:sample] for key, rows in lists.items()}
        for row in {row for rows in asks.values() for row in rows}:
            asking = sorted((key for key in lists if row in asks[key]), key=lambda key: rank(key, row))
            if len(asking) > hubs:
                refused[asking[-1]].add(row)
                break
        else:
            return asks


@given(lists_by_key(), st.integers(1, 4), st.integers(1, 4), st.integers(0, 50))
def test_hubs_serve_at_most_so_many_keys_by_hashed_priority(lists, sample, hubs, seed):
    settled, dropped = settle(drawn_of(lists), sample, hubs, seed, 3)
    expected = slow_settle(lists, sample, hubs, seed, 3)
    assert {key: sorted(settled.of(key).tolist()) for key in lists} == {k: sorted(v) for k, v in expected.items()}
    if len(settled.rows):
        assert np.bincount(settled.rows).max() <= hubs
    assert (dropped == 0) == all(sorted(settled.of(k).tolist()) == sorted(lists[k][:sample]) for k in lists)
    assert np.array_equal(settled.counts(settled.keys), np.diff(settled.offsets))


@given(lists_by_key(), st.integers(1, 8))
def test_without_a_ceiling_each_key_keeps_its_first(lists, sample):
    settled, dropped = settle(drawn_of(lists), sample, None, 1, 3)
    assert dropped == 0
    assert all(sorted(settled.of(key).tolist()) == sorted(rows[:sample]) for key, rows in lists.items())


def test_spare_candidates_keep_keys_from_running_short():
    settled, dropped = settle(drawn_of({key: [7, 10 + 2 * key, 11 + 2 * key] for key in range(20)}), 2, 1, 1, 1)
    assert (np.diff(settled.offsets) == 2).all() and dropped == 19 and (settled.rows == 7).sum() == 1


@given(lists_by_key(), lists_by_key())
def test_overlap_with_the_former_table_is_over_keys_in_both(lists, former):
    both = [key for key in lists if former.get(key)]
    again = sum(len(set(lists[key]) & set(former[key])) for key in both)
    whole = sum(len(lists[key]) for key in both)
    assert overlap(drawn_of(lists), drawn_of(former)) == (again / whole if whole else None)


@given(
    lists_by_key(), st.lists(st.lists(st.integers(0, 9), unique=True, min_size=5, max_size=5), min_size=4, max_size=4)
)
def test_oracle_counts_former_negatives_in_the_current_top_k(former, top):
    tally = oracle(drawn_of(former), np.array([3, 0, 7, 5]), np.array(top))
    assert tally.former == sum(len(former.get(key, [])) for key in (3, 0, 7, 5))
    assert tally.held == sum(len(set(former.get(key, [])) & set(rows)) for key, rows in zip((3, 0, 7, 5), top))


@given(st.lists(st.lists(st.integers(0, 99), min_size=11, max_size=11), max_size=5))
def test_tallies_add_up_field_by_field(parts):
    total = sum((Tally(*part) for part in parts), Tally())
    assert total.array().tolist() == [sum(column) for column in zip(*parts)] or not parts
    assert Tally.of(total.array()) == total


def test_facts_by_hand():
    scores = np.array([9, 7, 12, np.nan, 5], dtype=np.float32)
    drawn = drawn_of({1: [4, 5, 6], 2: [4], 3: [], 8: [5]}, scores)
    found = facts(drawn, np.array([10, 10, 10, np.nan], np.float32), 0.5, 3, None, None)
    assert found["keys_mined"] == 4 and found["negatives"] == 5
    assert found["keys_without_negatives"] == 1 and found["short_keys"] == 3
    # Gaps over the temperature: 2, 6 and -4; two are unknown.
    assert found["gaps"] == [0, 0, 1, 0, 0, 0, 0, 1, 1, 0] and len(found["gaps"]) == len(GAPS) + 1
    assert found["share_above_positive"] == pytest.approx(1 / 3)
    assert found["hub_max"] == 2 and found["hub_share"] == 1.0 and found["overlap_former"] is None


def test_facts_of_nothing():
    found = facts(Drawn.empty(), np.empty(0, np.float32), 1.0, 3) | Tally().facts()
    assert found["negatives"] == found["hub_max"] == 0 and sum(found["gaps"]) == 0
    for name in ("share_above_positive", "hub_share", "overlap_former", "overlap_oracle", "false_negative_share"):
        assert found[name] is None


def relevance_of(pairs, texts):
    queries, documents = (np.array(column) for column in zip(*pairs))
    return Relevance.of(Qrels.of(queries, documents, np.ones_like(queries)), twins(texts))


def test_the_second_look_hides_all_positives_but_one_and_the_copies_of_that_one():
    relevance = relevance_of([(0, 0), (0, 1), (0, 2), (1, 3), (2, 4), (2, 5)], list("abcdee"))
    look = SecondLook.of(*relevance.distinct(), 7, relevance.twins)
    assert look.keys.tolist() == [0], "query 1 has a single positive, query 2 two copies of one"
    keys, rows = np.array([1, 0, 2]), np.tile(np.arange(6), (3, 1))
    hidden = look.hidden(keys, rows, relevance.covers(keys[:, None], rows))
    assert hidden[[0, 2]].sum() == 0 and hidden[1].sum() == 2 and not hidden[1, look.known[0]]
    assert {int(SecondLook.of(*relevance.distinct(), seed).known[0]) for seed in range(30)} == {0, 1, 2}


def test_false_negative_share_is_the_chance_to_draw_a_hidden_positive():
    """10 positives of 40 candidates, one known: a uniform draw of 5 from the other 39 holds 9/39 positives."""
    keys = 2000
    pairs = [(key, row) for key in range(keys) for row in range(10)]
    judged = Judged.of_queries(relevance_of(pairs, [str(row) for row in range(40)]), 1)
    rows = np.tile(np.arange(40), (keys, 1))
    config = from_plain({"negatives": {"topk": 40, "sample": 5}})
    block = Block(np.arange(keys), {"ann": Neighbours(np.zeros(rows.shape, np.float32), rows)})
    tally = mine(block, judged, config, 0).tally
    assert tally.looked_at == 5 * keys
    assert tally.facts()["false_negative_share"] == pytest.approx(
        9 / 39, abs=5 * np.sqrt(9 / 39 * 30 / 39 / (5 * keys))
    )
