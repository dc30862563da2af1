"""What the Trainer writes and who may delete it: encoders for the Inferencer, checkpoints for a resume."""

from __future__ import annotations

import logging

import msgspec
from torch import nn
from torch.optim import Optimizer

from dance import artefact, paths
from dance.config import Config
from dance.encoder import files
from dance.encoder.model import Encoder
from dance.exchange import Publisher, Subscriber
from dance.learning import checkpoint
from dance.learning.checkpoint import LoopState
from dance.paths import RunPaths, step_name
from dance.world import World

log = logging.getLogger(__name__)


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
        self._leads = world.leads
        self._final = False

    def hand_over(self, step: int, encoder: Encoder, using: int | None, final: bool) -> None:
        """Publish the encoder of ``step`` and announce it; ``using`` is the negatives' step in use."""
        if not self._leads:
            return
        path = self.run.published("encoders", step)
        if not (path / artefact.MANIFEST).is_file():
            with artefact.publishing(path, "encoder", step) as folder:
                files.save(encoder, folder)
        self._final = final
        self.announce("train", using)
        log.info("step %d: encoder handed over", step)
        self._release_encoders()

    def save(self, state: LoopState, model: nn.Module, optimizer: Optimizer) -> None:
        """Publish a checkpoint, then let go of the oldest ones."""
        if not self._leads:
            return
        checkpoint.save(self.run.checkpoints / step_name(state.step), state, model, optimizer)
        paths.prune(self.run.checkpoints, self.config.checkpoint.keep, set())
        log.info("step %d: checkpoint saved", state.step)

    def announce(self, phase: str, using: int | None, finished: bool = False) -> None:
        """The newest encoder, and which negatives must not be deleted."""
        if self.publisher is not None:
            self.publisher.announce(
                paths.newest(self.run.encoders),
                final=self._final,
                phase=phase,
                holds=frozenset(self._negatives_needed(using)),
                finished=finished,
            )

    def _negatives_needed(self, using: int | None) -> set[int]:
        needed = {s for s in map(self._negatives_of, paths.steps(self.run.checkpoints)) if s is not None}
        needed |= set() if using is None else {using}
        if self.subscriber is not None:
            self.subscriber.release(needed)
        return needed

    def _negatives_of(self, step: int) -> int | None:
        facts = artefact.read_manifest(self.run.checkpoints / step_name(step)).facts
        return msgspec.convert(facts, LoopState).negatives_step

    def _release_encoders(self) -> None:
        """Negatives of step S prove that the Inferencer is done with every encoder up to S."""
        if self.subscriber is None or self.publisher is None:
            return
        done, there = self.subscriber.newest(), paths.steps(self.run.encoders)
        needed = set(there) if done is None else {step for step in there if step >= done}
        if self.config.schedule == "static" and done is not None:
            needed = {done}  # no later encoder has a product
        # A resume announces the newest encoder that its checkpoint knows, which must still be there.
        for saved in paths.steps(self.run.checkpoints):
            needed |= {max((step for step in there if step <= saved), default=saved)}
        needed |= self.subscriber.peer().holds | self.publisher.being_read()
        paths.prune(self.run.encoders, self.config.handover.keep, needed)
