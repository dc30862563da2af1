"""Groups of close pairs: a partition, tight, reproducible, and never of pairs that answer each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dance.mining import groups
from dance.mining.groups import REACH
from dance.search.neighbours import Neighbours


def vectors(count: int, width: int = 8, seed: int = 0):
    made = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def nearest(queries, positives):
    scores = queries @ positives.T
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :REACH]
    return Neighbours(np.take_along_axis(scores, rows, 1), rows)


def form_groups(queries, positives, size, opposes, seed, step):
    return groups.form_groups(nearest(queries, positives), size, opposes, seed, step)


def others(a, b):
    """Pairs answer themselves alone."""
    return a != b


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 60), size=st.integers(2, 9), seed=st.integers(0, 5))
def test_every_pair_is_in_one_group_and_only_the_last_is_short(count, size, seed):
    groups = form_groups(vectors(count, seed=seed), vectors(count, seed=seed + 9), size, others, seed, step=3)
    assert sorted(groups[groups >= 0].tolist()) == list(range(count))
    assert (groups[:-1] >= 0).all()


def test_every_member_is_the_free_pair_that_those_before_it_pull_most():
    queries, positives = vectors(60), vectors(60, seed=1)
    near = nearest(queries, positives)
    pull = np.zeros((60, 60))  # by definition: what a score is over the last one looked at, both ways
    for pair in range(60):
        pull[pair, near.rows[pair]] += near.scores[pair] - near.scores[pair, -1]
    pull += pull.T
    free = np.ones(60, dtype=bool)
    for group in form_groups(queries, positives, 5, others, seed=5, step=7):
        for place in range(1, 5):
            free[group[:place]] = False
            together = pull[group[:place]].sum(axis=0)
            assert together[group[place]] == pytest.approx(together[free].max())
        free[group] = False


def test_a_crowd_pulls_no_more_than_what_stands_out():
    """The queries of pairs 2 to 41 all score .9 with each other's positives and with 0's, whose query knows 1 alone."""
    scores = np.zeros((42, 42), np.float32)
    scores[2:, 0], scores[2:, 2:], scores[0, 1] = 0.9, 0.9, 0.5
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :REACH]
    pulled, by = groups._Pulls(Neighbours(np.take_along_axis(scores, rows, 1), rows)).of(0)
    assert set(range(2, 42)) <= set(pulled.tolist()) and pulled[by.argmax()] == 1 and by[pulled > 1].max() == 0


def test_groups_are_tighter_than_chance():
    centres = np.repeat(vectors(16), 16, axis=0)
    queries = centres + 0.05 * vectors(256, seed=2)
    positives = centres + 0.05 * vectors(256, seed=3)
    groups = form_groups(queries, positives, 8, others, seed=0, step=0)
    assert np.mean([len(set((group // 16).tolist())) == 1 for group in groups]) > 0.9


def test_pairs_that_answer_each_other_are_kept_apart():
    same = np.ones((24, 8), dtype=np.float32)

    def opposes(a, b):
        return a % 12 != b % 12  # pair i and i + 12 have one text

    groups = form_groups(same, same, 4, opposes, seed=1, step=0)
    assert all(len({place % 12 for place in group}) == 4 for group in groups.tolist())


def test_any_other_pair_goes_before_one_that_would_not_oppose():
    """Each query has twenty positives, all of them near to it, so that its own pairs are its nearest."""
    queries, positives = np.repeat(vectors(40), 20, axis=0), np.repeat(vectors(40), 20, axis=0)

    def opposes(a, b):
        return a // 20 != b // 20

    groups = form_groups(queries, positives, 8, opposes, seed=1, step=0)
    twice = [len({place // 20 for place in group}) < 8 for group in groups.tolist()]
    assert not any(twice[:80]), "then pairs of few queries are left"


def test_the_same_for_one_seed_and_step_and_another_for_others():
    made = [form_groups(vectors(30), vectors(30, seed=1), 3, others, s, t) for s, t in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert (made[0] == made[1]).all() and (made[0] != made[2]).any() and (made[0] != made[3]).any()


def test_a_group_of_one_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        form_groups(vectors(3), vectors(3), 1, others, 0, 0)
