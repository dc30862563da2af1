"""Every filter against a loop that says the same in words."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.mining import filters

SCORE = st.one_of(st.floats(-10, 10, width=32), st.just(math.nan), st.just(-math.inf))
FINITE = st.floats(-10, 10, width=32)


def matrix(data, element, keys, k, dtype):
    return np.array(
        data.draw(st.lists(st.lists(element, min_size=k, max_size=k), min_size=keys, max_size=keys)), dtype
    ).reshape(keys, k)


@given(st.integers(1, 4), st.integers(0, 12), st.integers(0, 12), st.integers(1, 12))
def test_rank_window(keys, k, skip, topk):
    dropped = filters.rank(np.zeros((keys, k), dtype=bool), skip, topk)
    assert dropped.tolist() == [[not skip <= place < topk for place in range(k)]] * keys


def test_v08_what_the_key_is_itself_takes_no_place() -> None:
    own = np.array([[True, False, False, False], [False, False, True, False], [False] * 4])
    dropped = filters.rank(own, 1, 3) | own
    assert dropped.tolist() == [[True, True, False, False], [True, False, True, False], [True, False, False, True]]


@given(st.data(), st.sampled_from(["margin", "relative_margin"]), st.one_of(st.none(), st.floats(-2, 2)))
def test_margins(data, name, least):
    keys, k = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 6))
    scores = matrix(data, SCORE, keys, k, np.float32)
    positive = matrix(data, SCORE, keys, 1, np.float32)[:, 0]
    dropped = getattr(filters, name)(scores, positive, least)
    for i in range(keys):
        best = float(positive[i])
        for j in range(k):
            score, expected = float(scores[i, j]), False
            if least is not None and math.isfinite(best) and math.isfinite(score):
                expected = score > best - (least if name == "margin" else least * abs(best))
            assert dropped[i, j] == expected


@pytest.mark.parametrize(("positive", "dropped"), [(10.0, [True, True, False]), (-10.0, [True, True, False])])
def test_relative_margin_is_below_the_positive_whatever_its_sign(positive, dropped):
    """A tenth of 10 under the positive's score: 9, or -11. Multiplying by 0.9 would be over a negative score."""
    scores = np.array([[positive, positive - 0.5, positive - 1.5]], dtype=np.float32)
    assert filters.relative_margin(scores, np.array([positive], np.float32), 0.1).tolist() == [dropped]


@given(st.data())
def test_e07_positives_are_found_wherever_they_stand(data):
    keys, k = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 6))
    pairs = data.draw(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 5))))
    rows = matrix(data, st.integers(-1, 5), keys, k, np.int64)

    def judged(keys, rows):
        keys, rows = np.broadcast_arrays(keys, rows)
        return np.array([pair in pairs or pair[1] < 0 for pair in zip(keys.flat, rows.flat)], bool).reshape(rows.shape)

    dropped = filters.positives(np.arange(keys), rows, judged)
    for i in range(keys):
        assert dropped[i].tolist() == [(i, row) in pairs for row in rows[i].tolist()]


@given(st.data())
def test_what_passes_passes_all_and_each_dropped_one_is_counted_once_with_the_first(data):
    shape = keys, k = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    real = matrix(data, st.booleans(), *shape, bool)
    masks = {name: matrix(data, st.booleans(), *shape, bool) for name in filters.NAMES}
    allowed, counts = filters.apply(real, masks)
    expected = dict.fromkeys(filters.NAMES, 0)
    for i in range(keys):
        for j in range(k):
            first = next((name for name in filters.NAMES if masks[name][i, j]), None)
            assert allowed[i, j] == (real[i, j] and first is None)
            if real[i, j] and first is not None:
                expected[first] += 1
    assert counts == expected and sum(counts.values()) + allowed.sum() == real.sum()
