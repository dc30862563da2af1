"""The Trainer's loop: verbs only. What an update computes is in ``step``, what it learns from in ``negatives``."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, field

import msgspec

from dance.artefact import replace_file
from dance.config import Config
from dance.exchange import Patience
from dance.learning.checkpoint import LoopState
from dance.learning.optim import learning_rate
from dance.learning.order import Examples, deal
from dance.paths import RunPaths
from dance.progress import Reporter
from dance.tracking import Tracker
from dance.world import World

from .handover import Handover
from .negatives import Negatives
from .step import Numbers, Stepper


@dataclass
class Since:
    """What happened since the last record."""

    results: list[Numbers] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    digest: int = 0  # of the example ids of all ranks, in order
    rate: float = 0.0  # learning rate of the last update


@dataclass
class Loop:
    """Everything that one Trainer rank holds while it trains."""

    config: Config
    world: World
    paths: RunPaths
    state: LoopState
    stepper: Stepper
    negatives: Negatives
    handover: Handover
    tracker: Tracker
    reporter: Reporter
    since: Since = field(default_factory=Since)

    def run(self) -> bool:
        """Train to the last step. False where a stop was asked for first; the state is saved either way."""
        train = self.config.train
        self.handover.announce("train", self.negatives.step)
        self._train_phase()
        while self.state.step < train.steps:
            self.save_if_due()
            if self.state.step % train.poll_every == 0 or self.negatives.must_wait(self.state.step):
                self.look()
            if self.negatives.stopping:
                break
            self.step()
        if self.since.results:
            self.record()
        self.save()
        self.world.barrier()  # torchrun ends all ranks soon after the first one leaves: not before it is saved
        return self.state.step == train.steps and self.finish()

    def save_if_due(self) -> None:
        step = self.state.step
        if step % self.config.handover.every == 0:
            self.hand_over(final=False)
        if step and step % self.config.checkpoint.every == 0:
            self.save()

    def hand_over(self, final: bool) -> None:
        self.handover.hand_over(self.state.step, self.stepper.encoder, final)

    def save(self) -> None:
        self.reporter.begin("save", step=self.state.step)
        self.handover.save(self.state, self.stepper.pair, self.stepper.optimizer)
        self.handover.announce("train", self.negatives.step)
        self._train_phase()

    def look(self) -> None:
        """Adopt newer negatives with all other ranks, or wait for them where the schedule says so."""
        waited = self.negatives.clocks.waiting
        self.handover.check()
        if self.negatives.must_wait(self.state.step):
            self.handover.join()  # what is waited for is made of it
        adopted = self.negatives.look(self.state.step)
        if adopted:
            self.state.cursor, self.state.negatives_step = 0, self.negatives.step
            self.state.adopted = self.state.step
            self.handover.announce("train", self.negatives.step)
        if adopted or self.negatives.clocks.waiting - waited > 1.0:
            self._train_phase()

    def step(self) -> None:
        train, size = self.config.train, self.world.size
        count = train.batch * train.accumulation * size
        assert self.negatives.stream is not None
        examples = self.negatives.stream.take(self.state.cursor, count)
        mine = deal(examples, train.batch, train.accumulation, self.world.rank, size)
        in_batch = self.config.loss.in_batch or self.negatives.step is None
        self.since.rate = learning_rate(self.state.step, train, self.state.adopted)
        self.since.results.append(self.stepper.update(self.state.step, self.since.rate, mine, in_batch))
        self.since.digest = _digest(examples, self.since.digest)
        self.state.step += 1
        self.state.cursor += count
        if self.state.step % train.log_every == 0 or self.state.step == train.steps:
            self.record()

    def record(self) -> None:
        """One line of metrics over the steps since the last one, averaged over the ranks."""
        since, clocks, train = self.since, self.negatives.clocks, self.config.train
        seconds = time.monotonic() - since.began
        steps = len(since.results)
        names = list(since.results[0])
        means = self.world.mean([sum(result[name] for result in since.results) / steps for name in names])
        averages = dict(zip(names, means))
        rate = steps * train.batch * train.accumulation * self.world.size / seconds
        shown = {
            "loss": averages["loss"],
            "examples_per_second": rate,
            "negatives_step": self.negatives.step,
            # When the last update used them.
            "staleness": self.negatives.staleness(self.state.step - 1),
        }
        held = {"wait_seconds": clocks.waiting, "adopt_seconds": clocks.adopting}
        timings = {**held, "handover_seconds": self.handover.seconds, "seconds": seconds}
        others = {"learning_rate": since.rate, "examples_digest": since.digest}
        self.tracker.record({"step": self.state.step, **averages, **shown, **others, **timings})
        self.reporter.update(self.state.step, step=self.state.step, total_steps=train.steps, **shown)
        clocks.waiting = clocks.adopting = self.handover.seconds = 0.0
        self.since = Since()

    def finish(self) -> bool:
        """Hand over the last encoder and wait for its metrics. False where a stop was asked for first."""
        last = self.state.step
        self.hand_over(final=True)
        self.handover.join()
        self.reporter.begin("wait", message="for the metrics of the last encoder", step=last)
        patience = Patience(self.config.exchange)
        while self.config.schedule != "static" and not self.negatives.seen(last):
            if self.negatives.subscriber is not None:
                peer = self.negatives.subscriber.peer()
                patience.check(peer, f"the negatives of the last step, {last}", self.negatives.subscriber.where)
            self.reporter.update(last)  # a sign of life
            time.sleep(0.1)
        return not self.negatives.stopping

    def leave(self, done: bool) -> None:
        """Say that this role is done until the other one is too, for a few heartbeats at most."""
        phase, subscriber = "finished" if done else "stopped", self.negatives.subscriber
        self.reporter.begin(phase, self.config.train.steps, "steps", done=self.state.step, step=self.state.step)
        self.handover.announce(phase, self.negatives.step, finished=True)
        if done and self.world.leads:
            replace_file(self.paths.finished, msgspec.json.encode({"step": self.state.step}))
        deadline = time.monotonic() + 10 * self.config.exchange.heartbeat_seconds
        while subscriber is not None and not subscriber.peer().finished and time.monotonic() < deadline:
            time.sleep(0.05)
        self.world.barrier()

    def _train_phase(self) -> None:
        step, total = self.state.step, self.config.train.steps
        self.reporter.begin(
            "train",
            total,
            "steps",
            done=step,
            step=step,
            total_steps=total,
            negatives_step=self.negatives.step,
        )


def _digest(examples: Examples, so_far: int) -> int:
    """A fingerprint of the example ids of a step, to tell whether two runs saw the same."""
    for rows in (examples.queries, examples.positives, examples.negatives, examples.query_negatives):
        so_far = zlib.crc32(rows.tobytes(), so_far)
    return so_far
