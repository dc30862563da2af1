"""The loop's few integers: what an adoption resets, what a resume continues."""

from types import SimpleNamespace

import msgspec
import pytest

from dance.config import from_plain
from dance.learning.checkpoint import LoopState
from dance.learning.order import Examples
from tests.fakes import FakeWorld
from trainer.loop import Loop, _digest


class Adopting:
    """Negatives that are adopted at given steps."""

    def __init__(self, at: dict[int, int], stream) -> None:
        self.at, self.stream, self.step, self.stopping = at, stream, None, False
        self.clocks = SimpleNamespace(waiting=0.0, adopting=0.0)

    def look(self, step):
        adopted = step in self.at
        self.step = self.at.get(step, self.step)
        return adopted

    def must_wait(self, step):
        return False

    def staleness(self, step):
        return None


class Recording:
    """A Stepper and a stream that only say what they were asked."""

    def __init__(self) -> None:
        self.rates, self.cursors, self.encoder, self.pair, self.optimizer = [], [], None, None, None

    def take(self, start, count):
        import numpy as np

        self.cursors.append(start)
        return Examples(*(np.zeros(shape, dtype=np.int64) for shape in (count, count, (count, 1), (count, 0))))

    def update(self, step, rate, micro_batches, in_batch):
        self.rates.append((rate, in_batch))
        return {"loss": 1.0, "gradient_norm": 1.0}


def loop(adoptions, state=None, **train):
    settings = from_plain(
        {"train": {"steps": 8, "batch": 2, "learning_rate": 1.0, "log_every": 100, **train}, "handover": {"every": 4},
         "negatives": {"cold_start": "in_batch"}}
    )  # fmt: skip
    world, recording = FakeWorld(), Recording()
    world.rank, world.size, world.mean, world.barrier = 0, 1, lambda values: values, lambda: None
    silent = SimpleNamespace(hand_over=lambda *_: None, save=lambda *_: None, announce=lambda *_: None, seconds=0.0)
    silent.check = silent.join = lambda: None
    silent.begin = silent.update = lambda *_, **__: None
    silent.record = lambda record: records.append(record)
    records = []
    made = Loop(
        settings, world, None, state or LoopState(), recording, Adopting(adoptions, recording), silent, silent, silent
    )
    return made, recording, records


def steps(made, until):
    while made.state.step < until:
        made.look()
        made.step()


def test_warm_up_restarts_with_each_adoption_and_a_resume_goes_on_in_it():
    settings = {"warmup": "per_refresh", "warmup_steps": 4, "decay": "none"}
    made, recording, _ = loop({1: 0, 4: 2}, **settings)
    steps(made, 8)
    assert [rate for rate, _ in recording.rates] == [0.25, 0.25, 0.5, 0.75, 0.25, 0.5, 0.75, 1.0]
    assert (made.state.adopted, made.state.negatives_step) == (4, 2)

    cut, _, _ = loop({1: 0, 4: 2}, **settings)
    steps(cut, 6)
    saved = msgspec.convert(msgspec.to_builtins(cut.state), LoopState)
    resumed, rest, _ = loop({}, saved, **settings)
    steps(resumed, 8)
    assert rest.rates[-1][0] == 1.0 and [rate for rate, _ in rest.rates] == [0.75, 1.0]


def test_an_adoption_begins_the_stream_anew_and_ends_the_cold_start():
    made, recording, _ = loop({2: 0})
    steps(made, 4)
    assert recording.cursors == [0, 2, 0, 2]
    assert [in_batch for _, in_batch in recording.rates] == [True, True, False, False]


def test_the_record_has_the_rate_of_the_last_update_and_every_number_of_a_step():
    made, _, records = loop({0: 0}, warmup_steps=4, log_every=2)
    steps(made, 2)
    assert [record["learning_rate"] for record in records] == pytest.approx([0.5])
    assert {"loss", "gradient_norm", "examples_digest", "negatives_step", "staleness"} <= records[0].keys()


class HandingOver:
    """Records what the loop asks of the hand-over, among other events."""

    def __init__(self, events) -> None:
        self.events, self.seconds = events, 0.25

    def hand_over(self, step, encoder, final):
        self.events.append(f"hand over {step}" + " as the last" * final)

    def join(self):
        self.events.append("join")

    def check(self):
        self.events.append("check")

    def save(self, state, pair, optimizer):
        self.events.append(f"save {state.step}")

    def announce(self, phase, using, finished=False):
        pass


def test_the_loop_goes_on_beside_a_hand_over_and_joins_it_before_a_wait_and_at_the_end():
    made, recording, records = loop({}, log_every=2)
    made.config = from_plain({
        "schedule": "static", "negatives": {"cold_start": "in_batch"}, "handover": {"every": 2},
        "checkpoint": {"every": 3}, "train": {"steps": 4, "batch": 2, "log_every": 4},
    })  # fmt: skip
    events = []
    made.handover = HandingOver(events)
    recording.update = lambda step, *_: events.append(f"step {step}") or {"loss": 1.0}
    made.negatives.must_wait = lambda step: step == 2
    made.negatives.look = lambda step: events.append("wait") is not None if step == 2 else False
    assert made.run()
    assert events == [
        "hand over 0", "check", "step 0", "check", "step 1",
        "hand over 2", "check", "join", "wait", "step 2", "save 3", "check", "step 3",
        "save 4", "hand over 4 as the last", "join",
    ]  # fmt: skip
    assert [record["handover_seconds"] for record in records] == [0.25] and made.handover.seconds == 0


def test_an_encoder_that_could_not_be_written_ends_the_training_at_the_next_look():
    made, recording, _ = loop({})

    def failed():
        raise RuntimeError("handing over the encoder of step 0: No space left on device")

    made.handover.check = failed
    with pytest.raises(RuntimeError, match="encoder of step 0"):
        made.run()
    assert recording.rates == []


def test_the_digest_sees_negative_queries():
    import numpy as np

    rows, none = np.arange(2), np.empty((2, 0), dtype=np.int64)
    one, other = (Examples(rows, rows, none, np.full((2, 1), row)) for row in (3, 4))
    assert _digest(one, 0) != _digest(other, 0)
