"""Draws: never what is refused, never twice, independent of order and company, and with the right chances."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.mining.draw import draw, permutation, priorities
from dance.sections import Draw

HOWS = ["uniform", "top", "softmax", "simans"]
# 99.9 % points of the chi-square distribution, by degrees of freedom.
CRITICAL = {3: 16.27, 11: 31.26, 19: 43.82}


def settings(how):
    return Draw(how=how, temperature=0.7, simans_a=0.8, simans_b=-0.3)


@given(st.data(), st.sampled_from(HOWS))
def test_draws_only_what_is_allowed_never_twice_and_all_there_is(data, how):
    keys, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 8))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rows = np.stack([rng.permutation(50)[:k] for _ in range(keys)])
    allowed = rng.random((keys, k)) < 0.6
    scores = rng.normal(size=(keys, k)).astype(np.float32)
    scores[rng.random((keys, k)) < 0.2] = np.nan
    positives = rng.normal(size=keys).astype(np.float32)
    positives[rng.random(keys) < 0.3] = np.nan
    sample = data.draw(st.integers(1, 10))
    at, counts = draw(rows, allowed, np.arange(keys), sample, 1, 2, scores, positives, settings(how))
    assert at.shape == (keys, min(sample, k))
    for i in range(keys):
        drawn = at[i, : counts[i]].tolist()
        assert counts[i] == min(sample, allowed[i].sum()) and len(set(drawn)) == len(drawn)
        assert allowed[i, drawn].all()


@given(st.integers(0, 1000), st.sampled_from(HOWS), st.integers(1, 9))
def test_a_draw_depends_neither_on_the_order_nor_on_other_keys(seed, how, sample):
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.permutation(50)[:9] for _ in range(3)])
    allowed, scores = rng.random((3, 9)) < 0.7, rng.normal(size=(3, 9)).astype(np.float32)
    scores[rng.random((3, 9)) < 0.2] = np.nan
    keys, positives = np.array([4, 0, 9]), rng.normal(size=3).astype(np.float32)

    def drawn(part, order):
        at, counts = draw(
            rows[part][:, order], allowed[part][:, order], keys[part], sample, 3, 8, scores[part][:, order],
            positives[part], settings(how),
        )  # fmt: skip
        return [rows[part][i, order][at[i, : counts[i]]].tolist() for i in range(len(part))]

    straight = np.arange(9)
    together = drawn([0, 1, 2], straight)
    assert drawn([0, 1, 2], rng.permutation(9)) == together
    assert drawn([2], straight) + drawn([1, 0], straight) == [together[2], together[1], together[0]]


def chances(how, scores, positive):
    """Exact chance of each candidate to be the first one drawn, by the formula of the draw."""
    weights = {
        "uniform": np.ones_like(scores),
        "softmax": np.exp(scores / 0.7),
        "simans": np.exp(-0.8 * (scores - positive + 0.3) ** 2),
    }[how]
    return weights / weights.sum()


@pytest.mark.parametrize("how", ["uniform", "softmax", "simans"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chances_of_ordered_pairs_are_exact(how, seed):
    """Two of four, 12 ordered pairs: P(i, j) = p_i p_j / (1 - p_i), chi-square over 12,000 keys."""
    scores, positive, runs = np.array([-1.0, 0.2, 0.9, 1.4]), 1.1, 12_000
    rows = np.tile(np.array([3, 77, 12, 41, 8]), (runs, 1))
    allowed = np.tile(np.array([True, True, False, True, True]), (runs, 1))
    wide = np.tile(np.insert(scores, 2, 9.0).astype(np.float32), (runs, 1))
    best = np.full(runs, positive, np.float32)
    at, counts = draw(rows, allowed, np.arange(runs), 2, seed, 7, wide, best, settings(how))
    assert (counts == 2).all()
    p = chances(how, scores, positive)
    place = np.array([0, 1, -1, 2, 3])[at]  # [runs, 2] among the allowed
    pairs = list(permutations(range(4), 2))
    seen = np.array([((place == pair).all(axis=1)).sum() for pair in pairs])
    expected = runs * np.array([p[i] * p[j] / (1 - p[i]) for i, j in pairs])
    assert ((seen - expected) ** 2 / expected).sum() < CRITICAL[11]


@pytest.mark.parametrize("how", ["softmax", "simans"])
def test_chances_over_seeds_and_steps_are_exact_too(how):
    scores, positive = np.array([[-1.0, 0.2, 0.9, 1.4]], dtype=np.float32), np.array([1.1], dtype=np.float32)
    rows, allowed, seen = np.arange(4)[None], np.ones((1, 4), bool), np.zeros(4)
    for run in range(2000):
        at, _ = draw(rows, allowed, np.array([5]), 1, run // 50, run % 50, scores, positive, settings(how))
        seen[at[0, 0]] += 1
    expected = 2000 * chances(how, scores[0].astype(np.float64), 1.1)
    assert ((seen - expected) ** 2 / expected).sum() < CRITICAL[3]


def test_top_takes_the_best_that_are_allowed_unknown_ones_last():
    scores = np.array([[1.0, np.nan, 5.0, 3.0, 4.0]], dtype=np.float32)
    allowed = np.array([[True, True, False, True, True]])
    at, counts = draw(np.arange(5)[None], allowed, np.array([0]), 5, 1, 1, scores, None, Draw(how="top"))
    assert at[0, : counts[0]].tolist() == [4, 3, 0, 1]


def test_without_scores_a_weighted_draw_is_the_uniform_one():
    rows, unknown = np.arange(30).reshape(2, 15), np.full((2, 15), np.nan, np.float32)
    allowed, keys = np.ones((2, 15), bool), np.array([3, 4])
    plain, _ = draw(rows, allowed, keys, 6, 5, 6)
    for how in ("softmax", "simans"):
        at, _ = draw(rows, allowed, keys, 6, 5, 6, unknown, np.full(2, np.nan, np.float32), settings(how))
        assert at.tolist() == plain.tolist()


def test_unknown_scores_weigh_as_little_as_the_least_that_is_known():
    runs = 20_000
    scores = np.tile(np.array([0.0, 2.0, np.nan, 1.0], np.float32), (runs, 1))
    at, _ = draw(
        np.tile(np.arange(4), (runs, 1)), scores != 9, np.arange(runs), 1, 4, 4, scores, None, settings("softmax")
    )
    weights = np.exp(np.array([0.0, 2.0, 0.0, 1.0]) / 0.7)
    expected = runs * weights / weights.sum()
    seen = np.bincount(at[:, 0], minlength=4)
    assert ((seen - expected) ** 2 / expected).sum() < CRITICAL[3]


def test_large_scores_and_low_temperatures_stay_finite():
    scores = np.array([[700.0, 690.0, -700.0]], dtype=np.float32)
    how = Draw(how="softmax", temperature=1e-3)
    at, counts = draw(np.arange(3)[None], np.ones((1, 3), bool), np.array([0]), 3, 1, 1, scores, None, how)
    assert at.tolist() == [[0, 1, 2]] and counts.tolist() == [3]


def test_priorities_spread_evenly_and_differ_by_purpose():
    bits = priorities(42, 10, np.arange(500)[:, None], np.arange(200))
    assert (bits < np.uint64(2**63)).all() and len(np.unique(bits)) == bits.size
    seen = np.bincount((bits.ravel() * np.uint64(2) >> np.uint64(32)).astype(np.int64) * 20 >> 32, minlength=20)
    assert ((seen - 5000) ** 2 / 5000).sum() < CRITICAL[19]
    assert not (bits == priorities(42, 10, np.arange(500)[:, None], np.arange(200), purpose=1)).any()


def test_permutation_is_a_function_of_its_key():
    assert np.array_equal(permutation(50, 1, 2, 3), permutation(50, 1, 2, 3))
    assert not np.array_equal(permutation(50, 1, 2, 3), permutation(50, 1, 2, 4))
    assert not np.array_equal(permutation(50, 1, 2), permutation(50, 1, 2, 0))
    assert sorted(permutation(50, 9).tolist()) == list(range(50))
