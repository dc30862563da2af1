"""What the Trainer writes and who may delete it: encoders for the Inferencer, checkpoints for a resume.

An encoder is copied between two steps, which is all that the loop waits for, and written, published and
announced by another thread (see ``writer``). It is joined before the next one, before a checkpoint, so
that a resume finds every encoder up to it, before a wait for its negatives, and at the end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from torch import nn
from torch.optim import Optimizer

from dance import artefact, paths
from dance.config import Config
from dance.encoder import files
from dance.encoder.model import Encoder
from dance.exchange import START, Publisher, Subscriber
from dance.learning import checkpoint
from dance.learning.checkpoint import LoopState
from dance.paths import RunPaths, step_name
from dance.world import World

from .snapshot import Snapshot
from .writer import Writer

log = logging.getLogger(__name__)
_IN_SIGHT = 3  # newest encoders, one of which the Inferencer may just have taken up


class Handover:
    """Rank 0 writes and announces; the verbs do nothing on other ranks."""

    def __init__(
        self,
        config: Config,
        world: World,
        run: RunPaths,
        publisher: Publisher | None,
        subscriber: Subscriber | None,
    ) -> None:
        self.config, self.run, self.publisher, self.subscriber = config, run, publisher, subscriber
        self.seconds = 0.0  # that the loop was held since the last record
        self._leads = world.leads
        self._snapshot, self._writer = Snapshot(), Writer()
        self._saying = threading.Lock()  # whoever speaks last says what is true by then
        self._phase, self._finished, self._final = "start", False, False
        self._using: int | None = None

    def hand_over(self, step: int, encoder: Encoder, final: bool) -> None:
        """Have the encoder of ``step``, as it is now, published and announced; returns when it is copied.

        Raises RuntimeError where the one before could not be written.
        """
        if not self._leads:
            return
        with self._held():
            self._writer.join()
            written = (self.run.published("encoders", step) / artefact.MANIFEST).is_file()  # by who was resumed
            copied = None if written else self._snapshot.take(encoder)
            self._writer.begin(f"handing over the encoder of step {step}", lambda: self._publish(step, copied, final))

    def check(self) -> None:
        """Raises RuntimeError where an encoder could not be written; never waits."""
        self._writer.check()

    def join(self) -> None:
        """Until what was handed over is announced. Raises as ``check`` does."""
        with self._held():
            self._writer.join()

    def close(self) -> None:
        """Nothing is written any more; never raises."""
        self._writer.close()

    def save(self, state: LoopState, model: nn.Module, optimizer: Optimizer) -> None:
        """Publish a checkpoint, then let go of the oldest ones."""
        if not self._leads:
            return
        self.join()
        checkpoint.save(self.run.checkpoints / step_name(state.step), state, model, optimizer)
        paths.prune(self.run.checkpoints, self.config.checkpoint.keep, set())
        log.info("step %d: checkpoint saved", state.step)

    def announce(self, phase: str, using: int | None, finished: bool = False) -> None:
        """The newest encoder, and which negatives must not be deleted; ``using`` is the step of those in use."""
        with self._saying:
            self._phase, self._using, self._finished = phase, using, finished
            needed = self._say()
        if self.subscriber is not None:  # by the loop alone: it knows what it is about to use
            self.subscriber.release(needed)

    @contextmanager
    def _held(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - began

    def _publish(self, step: int, encoder: Encoder | None, final: bool) -> None:
        """In the writer's thread; ``encoder`` is None where it is published already."""
        if encoder is not None:
            with artefact.publishing(self.run.published("encoders", step), "encoder", step) as folder:
                files.save(encoder, folder)
        with self._saying:
            self._final = final
            self._say()
        log.info("step %d: encoder handed over", step)
        self._release_encoders()

    def _say(self) -> set[int]:
        """Returns the steps of the negatives that are said to be held."""
        needed = self._negatives_needed(self._using)
        if self.publisher is not None:
            self.publisher.announce(
                paths.newest(self.run.encoders),
                final=self._final,
                phase=self._phase,
                holds=frozenset(needed),
                finished=self._finished,
            )
        return needed

    def _negatives_needed(self, using: int | None) -> set[int]:
        needed = {s for s in map(self._negatives_of, paths.steps(self.run.checkpoints)) if s is not None}
        return needed | (set() if using is None else {using})

    def _negatives_of(self, step: int) -> int | None:
        facts = artefact.read_manifest(self.run.checkpoints / step_name(step)).facts
        return msgspec.convert(facts, LoopState).negatives_step

    def _release_encoders(self) -> None:
        """Negatives of step S prove that the Inferencer is done with every encoder up to S.

        Of those behind S it skips to the newest once it is done with the one that it says it holds.
        """
        if self.subscriber is None or self.publisher is None:
            return
        peer = self.subscriber.peer()
        if peer.phase == START:  # it was started again and has not said yet what it holds
            return
        done, there = self.subscriber.newest(), paths.steps(self.run.encoders)
        needed = set(there) if done is None else {step for step in there if step >= done}
        if any(done is None or held > done for held in peer.holds):
            needed &= {done, *peer.holds, *there[-_IN_SIGHT:]}
        if self.config.schedule == "static" and done is not None:
            needed = {done}  # no later encoder has a product
        # A resume announces the newest encoder that its checkpoint knows, which must still be there.
        for saved in paths.steps(self.run.checkpoints):
            needed |= {max((step for step in there if step <= saved), default=saved)}
        needed |= peer.holds | self.publisher.being_read()
        paths.prune(self.run.encoders, self.config.handover.keep, needed)
