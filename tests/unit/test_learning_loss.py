"""Losses against hand-worked cases and numpy, their gradients against differences."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dance.config import Loss
from dance.learning.loss import NOTHING, alignment, best_chunk, contrastive, divergence, margin_mse, uniformity
from dance.learning.weights import weights


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def mask(rows):
    return torch.tensor(rows, dtype=torch.bool)


ALLOWED = mask([[1, 1, 0, 1, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 1]])
TARGET = torch.tensor([0, 2, 4])


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
    scores = random(3, 5)
    loss = contrastive(scores, TARGET, ALLOWED, temperature=0.1)
    loss.sum().backward()
    for row in range(3):
        kept = scores[row].detach().numpy()[ALLOWED[row].numpy()] / 0.1
        own = scores[row, TARGET[row]].item() / 0.1
        assert loss[row].item() == pytest.approx(np.log(np.exp(kept - own).sum()), rel=1e-9)
    assert (scores.grad[~ALLOWED] == 0).all()


def test_a_learnt_temperature_gets_the_gradient_of_the_loss():
    logarithm = torch.tensor(math.log(0.3), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s, t: contrastive(s, TARGET, ALLOWED, t.exp()), (random(3, 5), logarithm))


def test_the_best_chunk_is_a_documents_score_and_padding_never_wins():
    queries, documents = random(4, 6), random(5, 3, 6, seed=1)
    there = mask([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 0, 0], [1, 1, 1]])
    padded = (documents * there[:, :, None]).detach().requires_grad_()  # zeros, as the Trainer has them
    scores = best_chunk(queries, padded, there)
    for q in range(4):
        for d in range(5):
            real = [(queries[q] @ padded[d, c]).item() for c in range(3) if there[d, c]]
            assert scores[q, d].item() == pytest.approx(max(real), rel=1e-12)
    assert (scores < 0).any(), "zeros of padding would have won here"
    scores.sum().backward()
    assert (padded.grad[~there] == 0).all()
    assert torch.autograd.gradcheck(lambda q, d: best_chunk(q, d, there), (queries, padded))


def test_a_missing_document_leaves_a_learnt_temperature_its_gradient():
    queries, documents = random(2, 4), random(3, 2, 4, seed=1)
    there = mask([[1, 1], [1, 0], [0, 0]])
    logarithm = torch.zeros((), dtype=torch.float64, requires_grad=True)
    scores = best_chunk(queries, documents, there)
    contrastive(scores, torch.tensor([0, 1]), mask([[1, 1, 0], [1, 1, 0]]), logarithm.exp()).sum().backward()
    assert logarithm.grad != 0 and all(torch.isfinite(x.grad).all() for x in (logarithm, queries, documents))


def test_with_one_chunk_the_score_is_the_inner_product():
    queries, documents = random(3, 4), random(5, 1, 4, seed=1)
    assert torch.equal(best_chunk(queries, documents, mask([[1]] * 5)), queries @ documents[:, 0].T)


def test_alignment_is_the_squared_distance_to_the_best_chunk():
    queries = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    documents = torch.tensor([[[0.0, 1.0], [3.0, 0.0]], [[0.0, -1.0], [9.0, 9.0]]], dtype=torch.float64)
    found = alignment(queries, documents, mask([[1, 1], [1, 0]]))
    assert found.tolist() == [4.0, 9.0]  # (1,0) to (3,0); (0,2) to (0,-1), for the other chunk is padding
    there = mask([[1, 1], [1, 0]])
    assert torch.autograd.gradcheck(lambda q, d: alignment(q, d, there), (random(2, 3), random(2, 2, 3, seed=1)))


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=6), st.integers(0, 5))
def test_uniformity_is_over_pairs_of_different_texts_alone(texts, seed):
    vectors = torch.nn.functional.normalize(random(len(texts), 3, seed=seed), dim=1).detach().requires_grad_()
    pairs = mask([[a != b and a >= 0 and b >= 0 for b in texts] for a in texts])
    found = uniformity(vectors, pairs)
    points = vectors.detach().numpy()
    terms = [
        math.exp(-5 * float(((points[i] - points[j]) ** 2).sum()))
        for i in range(len(texts)) for j in range(len(texts)) if pairs[i, j]
    ]  # fmt: skip
    assert found.item() == pytest.approx(math.log(sum(terms) / len(terms)) if terms else 0.0, abs=1e-9)
    found.backward()
    assert torch.isfinite(vectors.grad).all() and (terms or (vectors.grad == 0).all())


def test_uniformity_has_the_right_gradient():
    assert torch.autograd.gradcheck(lambda x: uniformity(x, ~torch.eye(4, dtype=torch.bool), 2.0), (random(4, 3),))


TAUGHT = mask([[1, 1, 0, 1, 0], [0, 1, 0, 1, 1], [0, 0, 0, 0, 1]])  # all; not the positive; it alone
TEACHER = torch.tensor(np.where(TAUGHT.numpy(), np.arange(15).reshape(3, 5) / 4.0, np.nan))


def test_margins_follow_the_teachers():
    scores = random(3, 5)
    found = margin_mse(scores, TEACHER, TARGET, TAUGHT)
    s, t = scores.detach().numpy()[0], TEACHER.numpy()[0]
    expected = np.mean([((s[0] - s[c]) - (t[0] - t[c])) ** 2 for c in (1, 3)])
    assert found.tolist() == pytest.approx([expected, 0.0, 0.0])
    assert torch.autograd.gradcheck(lambda x: margin_mse(x, TEACHER, TARGET, TAUGHT), (scores,))


def test_margins_by_hand():
    scores, teacher = torch.tensor([[5.0, 3.0, 1.0]]), torch.tensor([[2.0, 1.0, 0.0]])
    found = margin_mse(scores, teacher, torch.tensor([0]), torch.ones(1, 3, dtype=torch.bool))
    assert found.item() == ((2 - 1) ** 2 + (4 - 2) ** 2) / 2


def test_divergence_from_the_teachers_softmax():
    scores = random(3, 5)
    found = divergence(scores, TEACHER, TAUGHT)
    for row in (0, 1):
        kept = TAUGHT[row].numpy()
        s, t = (x.detach().numpy()[row][kept] for x in (scores, TEACHER))
        p, q = np.exp(t) / np.exp(t).sum(), np.exp(s) / np.exp(s).sum()
        assert found[row].item() == pytest.approx((p * np.log(p / q)).sum(), rel=1e-9)
    assert found[2].item() == 0, "one candidate says nothing"
    assert torch.autograd.gradcheck(lambda x: divergence(x, TEACHER, TAUGHT), (scores,))


@pytest.mark.parametrize("distil", [lambda s, t, m: divergence(s, t, m), lambda s, t, m: margin_mse(s, t, TARGET, m)])
def test_a_document_without_chunks_or_teacher_leaves_gradients_finite(distil):
    scores = random(3, 5)
    missing = scores.masked_fill(~TAUGHT, NOTHING)  # the score of a missing document
    distil(missing, TEACHER, TAUGHT).sum().backward()
    assert torch.isfinite(scores.grad).all() and (scores.grad[~TAUGHT] == 0).all()


def test_the_dual_weight_rises_linearly_from_nothing():
    loss = Loss(dual_weight=0.1, dual_ramp_steps=4)
    assert [weights(loss, step)["loss_d2q"] for step in (0, 1, 2, 4, 9)] == pytest.approx([0, 0.025, 0.05, 0.1, 0.1])
    assert weights(Loss(dual_weight=0.1), 0)["loss_d2q"] == 0.1


def test_the_default_loss_is_document_retrieval_alone():
    assert {name for name, weight in weights(Loss(), 0).items() if weight} == {"loss_q2d"}
    assert weights(Loss(), 0)["loss_q2d"] == 1.0 and weights(Loss(q2d_weight=0.4), 7)["loss_q2d"] == 0.4
    alone = weights(Loss(q2d_weight=0.0, distill="kl"), 0)
    assert {name for name, weight in alone.items() if weight} == {"loss_distill"}
    assert weights(Loss(distill="kl", distill_weight=0.5), 0)["loss_distill"] == 0.5
