"""The hand-over beside the training: what is written, in what order, who waits for whom, and where errors end."""

import threading

import pytest
import torch

from dance import artefact, paths
from dance.config import from_plain
from dance.encoder import files
from dance.exchange import Peer
from dance.learning import optim
from dance.learning.checkpoint import LoopState
from dance.paths import RunPaths
from tests.fakes import FakePublisher, FakeSubscriber, FakeWorld
from tests.tiny import tiny_bert
from trainer import handover
from trainer.encode import Pair
from trainer.handover import Handover
from trainer.snapshot import Snapshot


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny_bert(tmp_path_factory.mktemp("model") / "bert"))


def built(model, **settings):
    return files.build(from_plain({"model": {"path": model, "document_max_tokens": 48, **settings}}).model, 0)


@pytest.fixture
def encoder(model):
    return built(model)


def changed(encoder):
    """As an update would."""
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(1.0)


class Slow:
    """Stands for ``files.save``: writes when it is let, and records what it is given."""

    def __init__(self, monkeypatch, error=None):
        self.go, self.began, self.events, self.error = threading.Event(), threading.Event(), [], error
        monkeypatch.setattr(handover.files, "save", self.save)

    def save(self, encoder, folder):
        self.began.set()
        assert self.go.wait(10)
        if self.error:
            raise self.error
        self.events.append(f"written {folder.name.split('-')[1]}")
        (folder / "first_weight").write_text(repr(float(next(encoder.parameters()).flatten()[0])))


def first_weight(encoder):
    return float(next(encoder.parameters()).detach().flatten()[0])


def made(tmp_path, publisher=None, **settings):
    config = from_plain({"handover": {"every": 10}, **settings})
    subscriber = FakeSubscriber([None], Peer(last_seen=0.0))
    return Handover(config, FakeWorld(), RunPaths(tmp_path), publisher or FakePublisher(), subscriber)


# -- Snapshot ------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"head": 8, "towers": "two"}])
def test_a_snapshot_saves_as_the_encoder_itself_would(model, tmp_path, settings):
    encoder = built(model, **settings)
    snapshot = Snapshot()
    for number in range(2):
        changed(encoder)
        copied = snapshot.take(encoder)
        for name, saved in (("own", encoder), ("copy", copied)):
            with artefact.publishing(tmp_path / f"{name}{number}", "encoder", number) as folder:
                files.save(saved, folder)
        digests = [artefact.digest(tmp_path / f"{name}{number}") for name in ("own", "copy")]
        assert digests[0] == digests[1]


def test_a_snapshot_is_allocated_once_and_shares_no_tensor(encoder):
    snapshot = Snapshot()
    first = snapshot.take(encoder)
    places = [tensor.data_ptr() for tensor in first.parameters()]
    changed(encoder)
    again = snapshot.take(encoder)
    assert [tensor.data_ptr() for tensor in again.parameters()] == places
    assert not set(places) & {tensor.data_ptr() for tensor in encoder.parameters()}
    assert all(torch.equal(*pair) for pair in zip(again.parameters(), encoder.parameters()))
    assert not any(tensor.requires_grad for tensor in again.parameters()) and again.tokenizer is encoder.tokenizer


# -- Handover ------------------------------------------------------------------------------------


def test_the_weights_written_are_those_of_the_step_though_training_went_on(tmp_path, encoder, monkeypatch):
    slow, publisher = Slow(monkeypatch), FakePublisher()
    hand = made(tmp_path, publisher)
    before = first_weight(encoder)
    hand.hand_over(10, encoder, final=False)
    assert slow.began.wait(10)
    changed(encoder)  # three updates beside the write
    changed(encoder)
    slow.events.append("trained")
    assert publisher.said == [] and paths.steps(RunPaths(tmp_path).encoders) == []
    slow.go.set()
    hand.join()
    assert slow.events == ["trained", "written step_00000010"]
    assert float((RunPaths(tmp_path).published("encoders", 10) / "first_weight").read_text()) == before
    assert publisher.said[-1][0] == 10 and first_weight(encoder) == before + 2


def test_the_next_handover_waits_for_the_one_before(tmp_path, encoder, monkeypatch):
    slow = Slow(monkeypatch)
    hand = made(tmp_path)
    hand.hand_over(10, encoder, final=False)
    changed(encoder)
    threading.Timer(0.05, slow.go.set).start()
    hand.hand_over(20, encoder, final=False)
    assert slow.events[0] == "written step_00000010" and hand.seconds >= 0.04
    hand.join()
    weights = [float((RunPaths(tmp_path).published("encoders", s) / "first_weight").read_text()) for s in (10, 20)]
    assert weights[1] == weights[0] + 1


def test_a_checkpoint_finds_every_encoder_up_to_it(tmp_path, encoder, monkeypatch):
    slow, run = Slow(monkeypatch), RunPaths(tmp_path)
    hand, pair = made(tmp_path), Pair(encoder, from_plain({}).loss)
    hand.hand_over(10, encoder, final=False)
    threading.Timer(0.05, slow.go.set).start()
    hand.save(LoopState(step=12), pair, optim.build(pair, from_plain({}).train))
    assert slow.events == ["written step_00000010"]
    assert paths.steps(run.encoders) == [10] and paths.steps(run.checkpoints) == [12]


def test_no_checkpoint_comes_after_an_encoder_that_could_not_be_written(tmp_path, encoder, monkeypatch):
    slow = Slow(monkeypatch, OSError(28, "No space left on device"))
    hand, pair = made(tmp_path), Pair(encoder, from_plain({}).loss)
    hand.hand_over(10, encoder, final=False)
    slow.go.set()
    with pytest.raises(RuntimeError, match="handing over the encoder of step 10: .*No space left"):
        hand.save(LoopState(step=12), pair, optim.build(pair, from_plain({}).train))
    assert not RunPaths(tmp_path).checkpoints.exists()
    assert list(RunPaths(tmp_path).encoders.iterdir()) == [], "nothing half-written stays"
    hand.close()


def test_negatives_adopted_beside_the_write_are_held_by_what_is_said_after_it(tmp_path, encoder, monkeypatch):
    """Announced with what was in use at its beginning, they would be deleted under the Trainer."""
    slow, publisher = Slow(monkeypatch), FakePublisher()
    hand = made(tmp_path, publisher)
    hand.announce("train", 0)
    hand.hand_over(10, encoder, final=False)
    hand.announce("train", 5)
    slow.go.set()
    hand.join()
    step, facts = publisher.said[-1]
    assert step == 10 and facts["holds"] == {5} and facts["phase"] == "train"
    assert hand.subscriber.released[-1] == {5}


def test_the_last_encoder_is_not_called_the_last_before_it_is_there(tmp_path, encoder, monkeypatch):
    slow, publisher = Slow(monkeypatch), FakePublisher()
    slow.go.set()
    hand = made(tmp_path, publisher)
    hand.hand_over(10, encoder, final=False)
    hand.join()
    slow.go.clear()
    hand.hand_over(20, encoder, final=True)
    hand.announce("train", None)
    slow.go.set()
    hand.join()
    assert [(step, facts["final"]) for step, facts in publisher.said] == [(10, False), (10, False), (20, True)]


def test_an_encoder_that_a_resume_finds_is_announced_and_not_written_again(tmp_path, encoder, monkeypatch):
    slow, publisher = Slow(monkeypatch), FakePublisher()
    with artefact.publishing(RunPaths(tmp_path).published("encoders", 10), "encoder", 10):
        pass
    hand = made(tmp_path, publisher)
    hand.hand_over(10, encoder, final=False)
    hand.join()
    assert slow.events == [] and publisher.said[-1][0] == 10


def test_other_ranks_neither_write_nor_wait(tmp_path, encoder):
    config = from_plain({"handover": {"every": 10}})
    hand = Handover(config, FakeWorld(leads=False), RunPaths(tmp_path), None, None)
    hand.hand_over(10, encoder, final=True)
    hand.check()
    hand.join()
    assert not RunPaths(tmp_path).encoders.exists()
    hand.close()
