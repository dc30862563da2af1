"""What may oppose a positive, against a slow reading of the rule, in both directions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance
from dance.learning.candidates import candidates, layout
from dance.learning.loss import contrastive

QUERIES, DOCUMENTS = 5, 8


def relevance_of(pairs, twins=None):
    queries, documents = (np.array(column, dtype=np.int64) for column in zip(*pairs))
    return Relevance.of(
        Qrels.of(queries, documents, np.ones_like(queries)), np.arange(DOCUMENTS) if twins is None else np.array(twins)
    )


def both(relevance, direction):
    """``covers`` of a direction: keys are queries, or documents."""
    return relevance.covers if direction == "q2d" else lambda keys, rows: relevance.covers(rows, keys)


@settings(max_examples=100)
@given(st.data(), st.sampled_from(["q2d", "d2q"]))
def test_r07_r11_candidates_agree_with_a_slow_reading_of_the_rule(data, direction):
    batch, k, in_batch = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3)), data.draw(st.booleans())
    pair = st.tuples(st.integers(0, QUERIES - 1), st.integers(0, DOCUMENTS - 1))
    pairs = data.draw(st.lists(pair, min_size=1, max_size=10, unique=True))
    twins = [data.draw(st.sampled_from(sorted({row, row // 2 * 2}))) for row in range(DOCUMENTS)]
    chosen = [data.draw(st.sampled_from(pairs)) for _ in range(batch)]
    most = DOCUMENTS if direction == "q2d" else QUERIES
    negatives = [[data.draw(st.integers(-1, most - 1)) for _ in range(k)] for _ in range(batch)]
    key, own = (0, 1) if direction == "q2d" else (1, 0)
    keys, positives = (np.array([p[side] for p in chosen]) for side in (key, own))
    rows = layout(positives, np.array(negatives, dtype=np.int64).reshape(batch, k))
    found = candidates(keys, k, rows, 0, both(relevance_of(pairs, twins), direction), in_batch)

    def relevant(key, row):
        query, document = (key, row) if direction == "q2d" else (row, key)
        return any(query == q and twins[document] == twins[d] for q, d in pairs)

    flat, masked = positives.tolist() + [row for group in negatives for row in group], 0
    for i in range(batch):
        for column, row in enumerate(flat):
            opposes = in_batch or batch + i * k <= column < batch + (i + 1) * k
            masked += column != i and opposes and row >= 0 and relevant(keys[i], row)
            expected = column == i or (opposes and row >= 0 and not relevant(keys[i], row))
            assert found.allowed[i, column] == expected
    assert found.target.tolist() == list(range(batch)) and found.masked == masked
    assert found.idle == sum(found.allowed[i].sum() == 1 for i in range(batch))


def test_r07_labels_select_the_positives_however_many_negatives_each_has():
    """4 queries with 1 to 3 negatives, padded: the loss of the flat batch is that of each query alone."""
    scores_of = np.random.default_rng(0).normal(size=(4, DOCUMENTS))
    queries, positives = np.arange(4), np.array([0, 1, 2, 3])
    negatives = np.array([[4, 5, 6], [7, -1, -1], [5, 6, -1], [4, -1, -1]])
    rows = layout(positives, negatives)
    found = candidates(queries, 3, rows, 0, relevance_of(list(zip(range(4), range(4)))).covers, in_batch=False)
    scores = torch.tensor(scores_of[:, np.maximum(rows, 0)])
    losses = contrastive(scores, torch.tensor(found.target), torch.tensor(found.allowed))
    for query in range(4):
        against = [scores_of[query, d] for d in (positives[query], *negatives[query]) if d >= 0]
        expected = np.log(np.exp(against).sum()) - scores_of[query, positives[query]]
        assert losses[query].item() == pytest.approx(expected)


def test_r08_an_example_without_opponents_is_counted_and_its_loss_is_0():
    found = candidates(np.array([0]), 2, np.array([1, -1, -1]), 0, relevance_of([(0, 1)]).covers, in_batch=True)
    assert found.idle == 1 and found.allowed.tolist() == [[True, False, False]]
    assert contrastive(torch.randn(1, 3), torch.tensor(found.target), torch.tensor(found.allowed)).item() == 0


def test_r11_shared_positives_do_not_oppose_each_other_and_are_counted():
    relevance = relevance_of([(0, 5), (1, 5), (1, 6)])
    rows = layout(np.array([5, 5]), np.array([[3], [6]]))
    found = candidates(np.array([0, 1]), 1, rows, 0, relevance.covers, True)
    assert found.allowed.tolist() == [[True, False, True, True], [False, True, True, False]]
    assert found.masked == 3
    rows = layout(np.array([0, 1]), np.array([[2], [1]]))  # d2q: both queries want document 5, and 1 was mined too
    found = candidates(np.array([5, 5]), 1, rows, 0, both(relevance, "d2q"), True)
    assert found.allowed.tolist() == [[True, False, True, False], [False, True, True, False]]
    assert found.masked == 4 and found.idle == 0


def test_r11_a_copy_of_a_positive_opposes_neither_its_query_nor_is_it_opposed_by_it():
    twins = [0, 1, 2, 3, 4, 5, 6, 0]  # document 7 has the text of document 0
    relevance = relevance_of([(0, 0), (1, 7)], twins)
    rows = layout(np.array([0, 7]), np.empty((2, 0), dtype=np.int64))
    assert not candidates(np.array([0]), 0, rows, 0, relevance.covers, True).allowed[0, 1]
    assert not candidates(np.array([0]), 0, np.array([0, 1]), 0, both(relevance, "d2q"), True).allowed[0, 1]


def test_r06_offset_points_at_this_ranks_positives():
    joined = np.array([1, 2, 7, 6])  # rank 0's layout, then ours
    found = candidates(np.array([4]), 1, joined, 2, relevance_of([(4, 7)]).covers, True)
    assert found.target.tolist() == [2] and found.allowed.tolist() == [[True, True, True, True]]
    alone = candidates(np.array([4]), 1, joined, 2, relevance_of([(4, 7)]).covers, False)
    assert alone.allowed.tolist() == [[False, False, True, True]]
