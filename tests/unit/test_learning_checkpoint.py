"""Checkpoints: whatever the optimizer, a resume goes on bit for bit."""

import pytest
import torch

from dance.config import Train
from dance.learning import checkpoint, optim


def train(model, optimizer, steps, start=0):
    for step in range(start, start + steps):
        checkpoint.reseed(7, step, 0)
        optim.set_learning_rate(optimizer, 0.01)
        torch.nn.functional.dropout(model(torch.randn(8, 4)), 0.5).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def fresh(kind="adamw"):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    return model, optim.build(model, Train(optimizer=kind))


@pytest.mark.parametrize("kind", ["adamw", "lamb"])
def test_checkpoint_resumes_bit_for_bit(tmp_path, kind):
    model, optimizer = fresh(kind)
    train(model, optimizer, 9)
    straight = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    model, optimizer = fresh(kind)
    train(model, optimizer, 4)
    state = checkpoint.LoopState(step=4, cursor=32, negatives_step=2, adopted=3)
    checkpoint.save(tmp_path / "step_00000004", state, model, optimizer)
    model, optimizer = fresh(kind)
    assert checkpoint.load(tmp_path / "step_00000004", model, optimizer) == state
    train(model, optimizer, 5, start=4)
    assert all(torch.equal(tensor, straight[name]) for name, tensor in model.state_dict().items())


def test_checkpoint_of_another_model_is_refused(tmp_path):
    model, optimizer = fresh()
    checkpoint.save(tmp_path / "step_00000000", checkpoint.LoopState(), model, optimizer)
    other = torch.nn.Sequential(torch.nn.Linear(4, 4))
    with pytest.raises(ValueError, match="does not fit the configured model"):
        checkpoint.load(tmp_path / "step_00000000", other, optim.build(other, Train()))
