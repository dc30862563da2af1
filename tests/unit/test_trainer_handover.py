"""What the Trainer deletes and what it holds on to, with fakes that record: only what nobody needs goes."""

import torch

from dance import artefact, paths
from dance.config import Config, Train, from_plain
from dance.exchange import START, Peer
from dance.learning import checkpoint, optim
from dance.learning.checkpoint import LoopState
from dance.paths import RunPaths, step_name
from tests.fakes import FakePublisher, FakeSubscriber, FakeWorld
from trainer.handover import Handover


def encoders(run: RunPaths, *steps: int) -> None:
    for step in steps:
        with artefact.publishing(run.published("encoders", step), "encoder", step) as folder:
            (folder / "weights").write_text(str(step))


def released(tmp_path, newest, holds=(), reading=(), keep=1, phase="refresh") -> list[int]:
    run = RunPaths(tmp_path)
    encoders(run, 0, 10, 20, 30, 40)
    subscriber = FakeSubscriber([newest], Peer(last_seen=0.0, holds=frozenset(holds), phase=phase))
    config = from_plain({"handover": {"every": 10, "keep": keep}})
    Handover(config, FakeWorld(), run, FakePublisher(reading=set(reading)), subscriber)._release_encoders()
    return paths.steps(run.encoders)


def test_no_encoder_goes_before_its_product_is_there(tmp_path):
    assert released(tmp_path, None) == [0, 10, 20, 30, 40]


def test_encoders_behind_the_mark_go_but_for_the_best_and_what_is_being_read(tmp_path):
    assert released(tmp_path, 30, holds={10}, reading={0}) == [0, 10, 30, 40]


def test_a_slow_inferencer_does_not_fill_the_disk(tmp_path):
    """It skips to the newest when it is done with 10, so that 20 is of no use to it; it may just have taken 30."""
    encoders(RunPaths(tmp_path), 50)
    assert released(tmp_path, 0, holds={10}) == [0, 10, 30, 40, 50]
    assert released(tmp_path / "first", None, holds={0}) == [0, 20, 30, 40]


def test_what_a_restarted_inferencer_holds_is_not_known_before_it_says_so(tmp_path):
    assert released(tmp_path, 30, phase=START) == [0, 10, 20, 30, 40]


def test_keep_is_on_top_of_what_is_needed(tmp_path):
    assert released(tmp_path, 40, keep=3) == [20, 30, 40]


def test_the_encoder_that_a_resume_announces_is_kept(tmp_path):
    run = RunPaths(tmp_path)
    model, optimizer = _tiny()
    checkpoint.save(run.checkpoints / step_name(15), LoopState(step=15), model, optimizer)
    assert released(tmp_path, 40) == [10, 40]


def test_static_has_products_of_its_first_encoder_only(tmp_path):
    run = RunPaths(tmp_path)
    encoders(run, 0, 10, 20, 30)
    config = from_plain({"handover": {"every": 10, "keep": 1}, "schedule": "static"})
    Handover(config, FakeWorld(), run, FakePublisher(), FakeSubscriber([0]))._release_encoders()
    assert paths.steps(run.encoders) == [0, 30]


def test_negatives_of_every_kept_checkpoint_are_held(tmp_path):
    run = RunPaths(tmp_path)
    encoders(run, 20)
    model, optimizer = _tiny()
    for step, table in ((10, 0), (20, 10)):
        state = LoopState(step=step, negatives_step=table)
        checkpoint.save(run.checkpoints / step_name(step), state, model, optimizer)
    publisher, subscriber = FakePublisher(), FakeSubscriber([20])
    Handover(Config(), FakeWorld(), run, publisher, subscriber).announce("train", 20)
    step, facts = publisher.said[-1]
    assert step == 20 and facts["holds"] == {0, 10, 20}
    assert subscriber.released == [{0, 10, 20}]


def _tiny():
    model = torch.nn.Linear(2, 2)
    return model, optim.build(model, Train())
