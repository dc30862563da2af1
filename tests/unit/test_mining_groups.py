"""Groups of close pairs: a partition, tight, reproducible, and never of pairs that answer each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dance.mining import groups
from dance.mining.groups import REACH


def vectors(count: int, width: int = 8, seed: int = 0):
    made = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def form_groups(queries, positives, size, answers, seed, step):
    near = np.argsort(-(queries @ positives.T), axis=1, kind="stable")[:, : REACH * size]
    return groups.form_groups(near, size, answers, seed, step)


def own(a, b):
    """Pairs answer themselves alone."""
    return a[:, None] == b[None, :]


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 60), size=st.integers(2, 9), seed=st.integers(0, 5))
def test_every_pair_is_in_one_group_and_only_the_last_is_short(count, size, seed):
    groups = form_groups(vectors(count, seed=seed), vectors(count, seed=seed + 9), size, own, seed, step=3)
    assert sorted(groups[groups >= 0].tolist()) == list(range(count))
    assert (groups[:-1] >= 0).all()


def test_groups_are_those_of_a_plain_greedy_search():
    queries, positives = vectors(40), vectors(40, seed=1)
    groups = form_groups(queries, positives, 4, own, seed=5, step=7)
    free = set(range(40))
    for group in groups.tolist():
        ranked = sorted(free - {group[0]}, key=lambda place: -float(queries[group[0]] @ positives[place]))
        assert group[1:] == ranked[:3]
        free -= set(group)


def test_groups_are_tighter_than_chance():
    centres = np.repeat(vectors(16), 16, axis=0)
    queries = centres + 0.05 * vectors(256, seed=2)
    positives = centres + 0.05 * vectors(256, seed=3)
    groups = form_groups(queries, positives, 8, own, seed=0, step=0)
    assert np.mean([len(set((group // 16).tolist())) == 1 for group in groups]) > 0.9


def test_pairs_that_answer_each_other_are_kept_apart():
    same = np.ones((24, 8), dtype=np.float32)

    def answers(a, b):
        return a[:, None] % 12 == b[None, :] % 12  # pair i and i + 12 have one text

    groups = form_groups(same, same, 4, answers, seed=1, step=0)
    assert all(len({place % 12 for place in group}) == 4 for group in groups.tolist())


def test_any_other_pair_goes_before_one_that_would_not_oppose():
    """Each query has twenty positives, all of them near to it, so that its own pairs are its nearest."""
    queries, positives = np.repeat(vectors(40), 20, axis=0), np.repeat(vectors(40), 20, axis=0)

    def answers(a, b):
        return a[:, None] // 20 == b[None, :] // 20

    groups = form_groups(queries, positives, 8, answers, seed=1, step=0)
    twice = [len({place // 20 for place in group}) < 8 for group in groups.tolist()]
    assert not any(twice[:80]), "then pairs of few queries are left"


def test_the_same_for_one_seed_and_step_and_another_for_others():
    made = [form_groups(vectors(30), vectors(30, seed=1), 3, own, s, t) for s, t in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert (made[0] == made[1]).all() and (made[0] != made[2]).any() and (made[0] != made[3]).any()


def test_a_group_of_one_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        form_groups(vectors(3), vectors(3), 1, own, 0, 0)
