"""Optimizers, groups and schedules: LAMB against numpy, layers against what a reader would say."""

import math

import numpy as np
import pytest
import torch

from dance.config import Loss, Train
from dance.encoder import files
from dance.learning import optim
from dance.learning.depth import depths
from dance.learning.lamb import Lamb
from tests.tiny import tiny_bert, tiny_distilbert, tiny_modernbert
from trainer.encode import Pair

# -- LAMB ---------------------------------------------------------------------------------------


def by_hand(start, gradients, lr, decay, betas=(0.9, 0.999), eps=1e-6, most=math.inf):
    """Algorithm 2 of arXiv 1904.00962 in float64, one tensor; ``most`` is phi's bound on |x|."""
    x, m, v = start.astype(np.float64), 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        r = m / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + eps) + decay * x
        norms = min(np.linalg.norm(x), most), np.linalg.norm(r)
        x = x - lr * (norms[0] / norms[1] if all(norms) else 1.0) * r
    return x


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("bound", [None, 10.0])
def test_lamb_is_the_algorithm_of_its_paper(decay, bound):
    """Of one tensor the norm is far over the bound, of the others under it, of the last 0 at first."""
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=(4, 3)), 40 * rng.normal(size=5), np.zeros(3)]
    gradients = [[rng.normal(size=x.shape) for x in starts] for _ in range(7)]
    parameters = [torch.nn.Parameter(torch.tensor(x)) for x in starts]
    optimizer = Lamb(parameters, lr=0.03, weight_decay=decay, bound=bound)
    for step in gradients:
        for parameter, gradient in zip(parameters, step):
            parameter.grad = torch.tensor(gradient)
        optimizer.step()
    for number, parameter in enumerate(parameters):
        own = [step[number] for step in gradients]
        expected = by_hand(starts[number], own, 0.03, decay, most=bound or math.inf)
        assert parameter.detach().numpy() == pytest.approx(expected, abs=1e-9)


def test_the_first_lamb_step_by_hand():
    """Corrected moments of a first gradient are its sign: |x| = 5, |r| = sqrt 2, so each moves by lr 5 / sqrt 2."""
    parameter = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    parameter.grad = torch.tensor([0.2, -7.0])
    Lamb([parameter], lr=0.1).step()
    moved = 0.1 * 5 / math.sqrt(2)
    assert parameter.tolist() == pytest.approx([3 - moved, 4 + moved], rel=1e-4)


def test_a_bounded_norm_moves_a_large_tensor_as_if_it_were_smaller():
    """|x| = 50 counts as 10 as in ANCE's code: each moves by lr 10 / sqrt 2."""
    parameter = torch.nn.Parameter(torch.tensor([30.0, 40.0]))
    parameter.grad = torch.tensor([0.2, -7.0])
    Lamb([parameter], lr=0.1, bound=10.0).step()
    moved = 0.1 * 10 / math.sqrt(2)
    assert parameter.tolist() == pytest.approx([30 - moved, 40 + moved], rel=1e-5)


def test_the_bound_is_that_of_the_settings():
    layer = torch.nn.Linear(2, 2)
    assert [optim.build(layer, Train(optimizer="lamb", lamb_bound=b)).bound for b in (None, 10.0)] == [None, 10.0]
    assert Train().lamb_bound is None


def test_lamb_ignores_the_scale_of_a_loss_and_skips_what_has_no_gradient():
    ends = []
    for scale in (1.0, 1000.0):
        used, unused = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
        used.grad = scale * torch.tensor([1.0, -2.0, 3.0])
        Lamb([used, unused], lr=0.1).step()
        ends.append(used.detach())
        assert torch.equal(unused, torch.ones(3))
    assert torch.allclose(ends[0], ends[1], atol=1e-5)


# -- groups -------------------------------------------------------------------------------------


def pair_of(folder, **model):
    from dance.config import Model

    settings = Model(path=str(folder), head=8, query_max_tokens=16, document_max_tokens=16, **model)
    return Pair(files.build(settings, seed=0), Loss(learn_temperature=True))


def grouped(pair, **train):
    """Name of every parameter with its group."""
    groups = optim.build(pair, Train(weight_decay=0.1, **train)).param_groups
    names = {parameter: name for name, parameter in pair.named_parameters()}
    return {names[parameter]: group for group in groups for parameter in group["params"]}


@pytest.mark.parametrize("towers", ["one", "two"])
def test_every_parameter_is_in_one_group_with_the_rate_of_its_layer(tmp_path, towers):
    pair = pair_of(tiny_bert(tmp_path), towers=towers)
    groups = grouped(pair, layer_decay=0.5)
    assert groups.keys() == {name for name, _ in pair.named_parameters()}
    assert sum(len(g["params"]) for g in {id(g): g for g in groups.values()}.values()) == len(groups)
    for name, group in groups.items():
        share = 0.25 if "embeddings" in name else 0.5 if "layer.0." in name else 1.0
        assert group["share"] == share, name
    assert {"encoder.towers.0.head.linear.weight", "log_temperature"} <= groups.keys()


@pytest.mark.parametrize("make", [tiny_bert, tiny_distilbert, tiny_modernbert])
def test_layers_of_every_family_are_told_apart(tmp_path, make):
    pair = pair_of(make(tmp_path), pooling="mean")
    depth = depths(pair, required=True)
    by_name = {name: depth.get(parameter, 0) for name, parameter in pair.named_parameters()}
    assert set(by_name.values()) == {0, 1, 2}
    assert {d for name, d in by_name.items() if "embeddings" in name} == {2}
    assert {d for name, d in by_name.items() if "head" in name or "final_norm" in name} == {0}


def test_biases_norms_and_the_temperature_are_not_decayed(tmp_path):
    for name, group in grouped(pair_of(tiny_bert(tmp_path))).items():
        plain = name.endswith("bias") or "orm" in name or name == "log_temperature"
        assert group["weight_decay"] == (0.0 if plain else 0.1), name
    square = torch.nn.LayerNorm((3, 3))  # a norm is one whatever its shape
    assert [g["weight_decay"] for g in optim.build(square, Train(weight_decay=0.1)).param_groups] == [0.0]


def test_layers_that_cannot_be_told_apart_are_refused_only_where_it_matters():
    model = torch.nn.Linear(2, 2)
    model.config = type("Shared", (), {"num_hidden_layers": 12})()  # as ALBERT, which has one layer for all
    assert len(optim.build(model, Train()).param_groups) == 2
    with pytest.raises(ValueError, match="train.layer_decay: Linear has no list of its layers"):
        optim.build(model, Train(layer_decay=0.9))


def test_each_group_takes_its_share_of_the_rate(tmp_path):
    optimizer = optim.build(pair_of(tiny_bert(tmp_path)), Train(layer_decay=0.5, optimizer="lamb"))
    optim.set_learning_rate(optimizer, 0.8)
    assert {group["lr"] for group in optimizer.param_groups} == {0.8, 0.4, 0.2}
    assert isinstance(optimizer, Lamb)


# -- schedules ----------------------------------------------------------------------------------


def rates(adopted=lambda step: 0, **train):
    settings = Train(**{"steps": 10, "warmup_steps": 4, "learning_rate": 1.0, **train})
    return [optim.learning_rate(step, settings, adopted(step)) for step in range(settings.steps)]


def test_learning_rate_warms_up_and_decays_linearly():
    assert rates() == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])


def test_learning_rate_decays_along_a_cosine_or_not_at_all():
    cosine = [(1 + math.cos(math.pi * done / 6)) / 2 for done in range(6)]
    assert rates(decay="cosine") == pytest.approx([0.25, 0.5, 0.75, 1.0, *cosine])
    assert rates(decay="none") == [0.25, 0.5, 0.75] + [1.0] * 7


def test_warm_up_begins_again_at_each_adoption_and_the_decay_does_not():
    found = rates(lambda step: 6 if step >= 6 else 0, warmup="per_refresh", warmup_steps=2)
    assert found == pytest.approx([0.5, 1, 1, 7 / 8, 6 / 8, 5 / 8, 0.5 * 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    assert rates(lambda step: 6, warmup_steps=2) == pytest.approx(rates(warmup_steps=2)), "single warms up once"


def test_a_run_without_warm_up_or_shorter_than_it_has_a_rate_at_every_step():
    assert rates(warmup_steps=0)[0] == 1.0
    assert rates(warmup="per_refresh", warmup_steps=100) == pytest.approx([(s + 1) / 100 for s in range(10)])
