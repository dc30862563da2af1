"""Learning: losses against hand-worked cases, candidates against a slow loop, order and its cursor."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dance.config import Train
from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance
from dance.learning import checkpoint, optim
from dance.learning.candidates import candidates, layout
from dance.learning.loss import contrastive
from dance.learning.order import Examples, Stream, deal
from dance.mining.table import NegativesTable


def qrels_of(pairs):
    queries, documents = (np.array(column, dtype=np.int64) for column in zip(*pairs))
    return Qrels.of(queries, documents, np.ones_like(queries))


# -- loss ---------------------------------------------------------------------------------------


def test_one_opponent_is_the_pairwise_loss_of_ance():
    scores = torch.tensor([[2.0, 0.5], [-1.0, 3.0]], dtype=torch.float64, requires_grad=True)
    loss = contrastive(scores, torch.tensor([0, 1]), torch.ones(2, 2, dtype=torch.bool))
    expected = [-math.log(1 / (1 + math.exp(-1.5))), -math.log(1 / (1 + math.exp(-4.0)))]
    assert loss.tolist() == pytest.approx(expected, rel=1e-12)
    loss.sum().backward()
    # d/ds+ of -log sigmoid(s+ - s-) is sigmoid(s+ - s-) - 1, and its opposite for s-.
    slope = 1 / (1 + math.exp(-1.5)) - 1
    assert scores.grad[0].tolist() == pytest.approx([slope, -slope], rel=1e-12)


def test_masked_candidates_change_neither_loss_nor_gradient():
    scores = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    allowed = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 1]], dtype=torch.bool)
    target = torch.tensor([0, 2, 4])
    loss = contrastive(scores, target, allowed, temperature=0.1)
    loss.sum().backward()
    for row in range(3):
        kept = scores[row].detach().numpy()[allowed[row].numpy()] / 0.1
        own = scores[row, target[row]].item() / 0.1
        assert loss[row].item() == pytest.approx(np.log(np.exp(kept - own).sum()), rel=1e-9)
    assert (scores.grad[~allowed] == 0).all()


# -- candidates ---------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data())
def test_candidates_agree_with_a_slow_reading_of_the_rule(data):
    documents, batch, k = 8, data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3))
    row = st.integers(0, documents - 1)
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 3), row), min_size=1, max_size=10, unique=True))
    chosen = [data.draw(st.sampled_from(pairs)) for _ in range(batch)]
    negatives = [[data.draw(st.integers(-1, documents - 1)) for _ in range(k)] for _ in range(batch)]
    in_batch = data.draw(st.booleans())
    examples = Examples(
        np.array([q for q, _ in chosen]),
        np.array([d for _, d in chosen]),
        np.array(negatives, dtype=np.int64).reshape(batch, k),
    )
    relevance = Relevance.of(qrels_of(pairs), np.arange(documents))
    found = candidates(examples, layout(examples), 0, relevance, in_batch)
    flat = [d for _, d in chosen] + [d for row in negatives for d in row]
    for i, (query, _) in enumerate(chosen):
        for column, document in enumerate(flat):
            own = batch + i * k <= column < batch + (i + 1) * k
            opposes = (own or in_batch) and document >= 0 and (query, document) not in pairs
            assert found.allowed[i, column] == (column == i or opposes)
    assert found.target.tolist() == list(range(batch))


def test_r11_shared_positives_do_not_oppose_each_other_and_are_counted():
    pairs = [(0, 10), (1, 10), (1, 11)]
    examples = Examples(np.array([0, 1]), np.array([10, 10]), np.array([[3], [11]]))
    found = candidates(examples, layout(examples), 0, Relevance.of(qrels_of(pairs), np.arange(20)), True)
    assert found.allowed.tolist() == [[True, False, True, True], [False, True, True, False]]
    assert found.masked == 3


def test_r06_offset_points_at_this_ranks_positives():
    examples = Examples(np.array([4]), np.array([7]), np.array([[8]]))
    joined = np.array([1, 2, 7, 8])  # rank 0's layout, then ours
    found = candidates(examples, joined, 2, Relevance.of(qrels_of([(4, 7)]), np.arange(9)), True)
    assert found.target.tolist() == [2] and found.allowed.tolist() == [[True, True, True, True]]


# -- order --------------------------------------------------------------------------------------


def table_for(queries, each, step=0):
    count = len(queries) * each
    offsets = np.arange(0, count + 1, each)
    return NegativesTable(
        step, np.array(queries), offsets, np.arange(1000, 1000 + count), np.zeros(count, np.float32), {}
    )


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 5), st.integers(1, 40))
def test_stream_is_the_same_however_it_is_cut(pairs, k, seed, cut):
    qrels = qrels_of([(q, q) for q in range(pairs)])
    stream = Stream.over(qrels, table_for(range(pairs), 6), k, seed)
    whole = stream.take(0, 60)
    first, rest = stream.take(0, cut), Stream.over(qrels, table_for(range(pairs), 6), k, seed).take(cut, 60 - cut)
    for name in ("queries", "positives", "negatives"):
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(first, name), getattr(rest, name)]))


def test_every_pass_has_each_pair_once_and_moves_on_through_the_negatives():
    qrels = qrels_of([(q, q) for q in range(10)])
    stream = Stream.over(qrels, table_for(range(10), 4), 2, seed=3)
    passes = [stream.take(start, 10) for start in (0, 10)]
    for one in passes:
        assert sorted(one.queries.tolist()) == list(range(10))
    used = {q: [] for q in range(10)}
    for one in passes:
        for query, negatives in zip(one.queries.tolist(), one.negatives.tolist()):
            used[query] += negatives
    assert all(sorted(rows) == list(range(1000 + 4 * q, 1004 + 4 * q)) for q, rows in used.items())


def test_r03_order_differs_between_passes_and_tables_but_not_between_runs():
    qrels = qrels_of([(q, q) for q in range(64)])
    first = Stream.over(qrels, table_for(range(64), 1), 1, 3)
    other = Stream.over(qrels, table_for(range(64), 1, step=50), 1, 3)
    again = Stream.over(qrels, table_for(range(64), 1), 1, 3)
    assert not np.array_equal(first.take(0, 64).queries, first.take(64, 64).queries)
    assert not np.array_equal(first.take(0, 64).queries, other.take(0, 64).queries)
    assert np.array_equal(first.take(0, 64).queries, again.take(0, 64).queries)


@pytest.mark.parametrize(("size", "pairs"), [(2, 11), (3, 11), (2, 1)])
def test_r01_ranks_always_have_equally_many_examples(size, pairs):
    qrels = qrels_of([(q, q) for q in range(pairs)])
    stream = Stream.over(qrels, table_for(range(pairs), 2), 1, 0)
    examples = stream.take(0, 2 * 2 * size)
    dealt = [deal(examples, 2, 2, rank, size) for rank in range(size)]
    assert {len(micro.queries) for rank in dealt for micro in rank} == {2}
    joined = [np.concatenate([dealt[rank][micro].queries for rank in range(size)]) for micro in range(2)]
    assert np.concatenate(joined).tolist() == examples.queries.tolist()


def test_queries_without_negatives_are_left_out_and_none_at_all_is_an_error():
    table = NegativesTable(5, np.array([1]), np.array([0, 1]), np.array([9]), np.zeros(1, np.float32), {})
    stream = Stream.over(qrels_of([(0, 1), (1, 2)]), table, 1, 0)
    assert stream.queries.tolist() == [1]
    empty = NegativesTable(5, np.array([1]), np.array([0, 0]), np.empty(0, np.int64), np.empty(0, np.float32), {})
    with pytest.raises(ValueError, match="none for any training query"):
        Stream.over(qrels_of([(0, 1)]), empty, 1, 0)


# -- optimisation and checkpoints ---------------------------------------------------------------


def test_learning_rate_warms_up_and_decays_linearly():
    train = Train(steps=10, warmup_steps=4, learning_rate=1.0)
    rates = [optim.learning_rate(step, train) for step in range(10)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])


def test_biases_and_norms_are_not_decayed():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))
    decayed, plain = optim.build(model, Train(weight_decay=0.1)).param_groups
    assert [p.ndim for p in decayed["params"]] == [2] and decayed["weight_decay"] == 0.1
    assert {p.ndim for p in plain["params"]} == {1} and plain["weight_decay"] == 0.0


def _train(model, optimizer, steps, start=0):
    for step in range(start, start + steps):
        checkpoint.reseed(7, step, 0)
        optim.set_learning_rate(optimizer, 0.01)
        torch.nn.functional.dropout(model(torch.randn(8, 4)), 0.5).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def _fresh():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    return model, optim.build(model, Train())


def test_checkpoint_resumes_bit_for_bit(tmp_path):
    model, optimizer = _fresh()
    _train(model, optimizer, 9)
    straight = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    model, optimizer = _fresh()
    _train(model, optimizer, 4)
    state = checkpoint.LoopState(step=4, cursor=32, negatives_step=2)
    checkpoint.save(tmp_path / "step_00000004", state, model, optimizer)
    model, optimizer = _fresh()
    assert checkpoint.load(tmp_path / "step_00000004", model, optimizer) == state
    _train(model, optimizer, 5, start=4)
    assert all(torch.equal(tensor, straight[name]) for name, tensor in model.state_dict().items())


def test_checkpoint_of_another_model_is_refused(tmp_path):
    model, optimizer = _fresh()
    checkpoint.save(tmp_path / "step_00000000", checkpoint.LoopState(), model, optimizer)
    other = torch.nn.Sequential(torch.nn.Linear(4, 4))
    with pytest.raises(ValueError, match="does not fit the configured model"):
        checkpoint.load(tmp_path / "step_00000000", other, optim.build(other, Train()))
