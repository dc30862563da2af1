"""The Inferencer's loop: the newest encoder becomes negatives and metrics, until the last one did.

While it waits it scores, a slice of the corpus at a time, the encoders that are due (see ``passes``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dance import artefact, paths
from dance.config import Config
from dance.encoder.embed import Interrupted
from dance.exchange import Patience, Peer, PeerLost, Publisher, Subscriber
from dance.paths import RunPaths
from dance.progress import Reporter
from dance.stopping import Stop
from dance.tracking import Tracker, forget_after, read_lines
from dance.world import FAR, NOTHING, World

from .best import Best
from .passes import Passes
from .refresh import Refresher

log = logging.getLogger(__name__)

_PAUSE = 0.1  # seconds between two looks while waiting


@dataclass
class Loop:
    """Everything that one Inferencer rank holds."""

    config: Config
    world: World
    paths: RunPaths
    refresher: Refresher
    passes: Passes
    publisher: Publisher | None  # rank 0
    subscriber: Subscriber | None  # one rank per machine
    tracker: Tracker
    reporter: Reporter
    stop: Stop
    done: int | None = None  # step of the newest negatives
    turn: int = 0  # refreshes behind us

    def run(self) -> bool:
        """Refresh until the last encoder is done. False where a stop was asked for first."""
        self.rewind()
        while (step := self.next_encoder()) is not None:
            if not self.refresh(step):
                break
        while self.refreshed() and self.passes.holds and self.advance():
            pass
        return self.refreshed() and not self.passes.holds

    def rewind(self) -> None:
        """Go back to where the Trainer, once heard of, continues: negatives of another future are forgotten."""
        newest = self._wait(self._announced, "the first encoder")
        records: list[dict[str, Any]] = []
        if self.world.leads and newest is not None and self.subscriber is not None:
            needed = self.subscriber.peer().holds
            for later in (step for step in paths.steps(self.paths.negatives) if step > newest):
                if later not in needed:
                    artefact.remove(self.paths.published("negatives", later))
            forget_after(self.paths.metrics("inferencer"), newest)
            records = self._recall(newest)
        self.passes.recall(records)
        # Rank 0 knows, because the negatives lie on its disk.
        mine = [NOTHING if self.done is None else self.done, self.turn] if self.world.leads else [FAR, FAR]
        done, self.turn = self.world.agree_min(mine)
        self.done = None if done == NOTHING else done
        self.announce("wait")

    def _recall(self, newest: int) -> list[dict[str, Any]]:
        """What the newest negatives and the records say of the past; a record that a kill prevented is made good."""
        self.done = max((step for step in paths.steps(self.paths.negatives) if step <= newest), default=None)
        records = read_lines(self.paths.metrics("inferencer"))
        if self.done is not None:
            facts = artefact.read_manifest(self.paths.published("negatives", self.done)).facts
            self.turn = facts["turn"] + 1
            self._tell_change(facts.get("refresh_fraction", 1.0))
            if all(record["step"] < self.done for record in records if "turn" in record):
                records.append({"step": self.done, **{key: value for key, value in facts.items() if key != "text"}})
                self.tracker.record(records[-1])
        self.best.recall(records, newest)
        return records

    def _tell_change(self, before: float) -> None:
        if round(1 / before) != self.config.parts:
            now = self.config.refresh.fraction
            log.warning("refresh.fraction was %s and is %s from here on: the corpus is cut anew", before, now)

    @property
    def best(self) -> Best:
        # Of a static run the first encoder alone is scored, which says nothing about the later ones.
        return Best(self.paths.best, self.world.leads and self.config.schedule != "static")

    def next_encoder(self) -> int | None:
        """Step of the newest encoder that every machine holds, older ones skipped; None where none will come.

        A slice of the pass under way comes first, so that it goes on however fast encoders come.
        """
        if self.passes.holds and not self.advance():
            return None
        self.reporter.begin("wait", message="for the next encoder")
        done = NOTHING if self.done is None else self.done

        def newer() -> int:
            assert self.subscriber is not None
            held = self.subscriber.newest()
            return NOTHING if held is None or held <= done else held

        while (newest := self._wait(newer, f"an encoder newer than step {done}")) is not None:
            # The untrained encoder is never skipped: what training gained is counted from it. Any other may be,
            # so that a machine that was behind may lack one, and all take a later one together.
            for step in (0, newest) if self.done is None else (newest,):
                if self.world.agree_min([int(self.paths.held("encoders", step) is not None)]) == [1]:
                    return step
            time.sleep(_PAUSE)
        return None

    def refreshed(self) -> bool:
        """Whether the last encoder has its negatives; under schedule=static the first is the last."""
        return self.world.agree_min([int(self.subscriber is None or self._complete(self.subscriber.peer()))]) == [1]

    def _complete(self, peer: Peer) -> bool:
        if self.done is None:
            return False
        return self.config.schedule == "static" or (peer.final and peer.step == self.done)

    def _announced(self) -> int:
        assert self.subscriber is not None
        step = self.subscriber.peer().step
        return NOTHING if step is None else step

    def _wait(self, look: Callable[[], int], wanted: str) -> int | None:
        """What all machines agree on once all see something; None where a stop or the end came first.

        Raises exchange.PeerLost or TimeoutError where the wait has no end in sight.
        """
        patience = Patience(self.config.exchange)
        while True:
            seen, go = FAR, not self.stop.requested
            if self.subscriber is not None:
                peer = self.subscriber.peer()
                self._refuse_regress(peer)
                seen, go = look(), go and not peer.finished and not self._complete(peer)
            step, going = self.world.agree_min([seen, int(go)])
            if not going:
                return None
            if step != NOTHING:
                return step
            if self.subscriber is not None:
                patience.check(peer, wanted, self.subscriber.where)
            if not self.passes.holds:
                self.reporter.update(0)  # a sign of life
                time.sleep(_PAUSE)
            elif not self.advance():
                return None

    def _refuse_regress(self, peer: Peer) -> None:
        """Steps only grow here, so that a Trainer that went back needs an Inferencer that goes back with it."""
        if self.done is not None and peer.step is not None and peer.step < self.done:
            raise PeerLost(
                f"the Trainer was started again at an encoder of step {peer.step}, behind the negatives of step "
                f"{self.done} that are made already: start the Inferencer again too, it goes back by itself"
            )

    def refresh(self, step: int) -> bool:
        """False where a stop was asked for in the middle: nothing of it is kept."""
        due, first = self.passes.due(step), self.config.schedule == "sync" or step == self.config.train.steps
        if first and not self._scored(step, due):
            return False
        self.announce(f"refresh of step {step}", at_work=step)
        try:
            record = self.refresher.refresh(step, self.turn, due)
        except Interrupted:
            return False
        self.done, self.turn = step, self.turn + 1
        if due and not first:
            self.passes.note(step)
        self._keep(record)
        return True

    def _scored(self, step: int, due: bool) -> bool:
        """A full pass before the negatives, which may tell the Trainer that all is done. False where a stop came."""
        if due:
            self.passes.note(step)
            self.announce(f"evaluation of step {step}")
        while self.passes.holds:
            if not self.advance():
                return False
        return True

    def advance(self) -> bool:
        """One slice of a full pass. False where a stop was asked for in the middle: nothing of the pass is kept."""
        try:
            record = self.passes.advance()
        except Interrupted:
            return False
        if record is not None:
            self._keep(record)
            self.reporter.begin("wait", message="for the next encoder")
        return True

    def _keep(self, record: dict[str, Any]) -> None:
        self.tracker.record(record)
        self.best.note(record)
        self.announce("wait")
        self._release()
        shown = {key: round(value, 4) if isinstance(value, float) else value for key, value in record.items()}
        log.info("step %d: %s", record["step"], shown)

    def _needed(self) -> frozenset[int]:
        """Steps of the encoders that must not be deleted: the best, and those that are not scored yet."""
        best = self.best.step
        return self.passes.holds | (frozenset() if best is None else {best})

    def announce(self, phase: str, at_work: int | None = None, finished: bool = False) -> None:
        holds = self._needed() | (frozenset() if at_work is None else {at_work})
        if self.publisher is not None:
            self.publisher.announce(self.done, phase=phase, holds=holds, finished=finished)

    def leave(self, complete: bool) -> None:
        """Serve what is announced until the Trainer has it or is gone, then say goodbye."""
        self.reporter.begin("finished" if complete else "stopped")
        self.announce("finished" if complete else "stopped", finished=True)
        silence = 10 * self.config.exchange.heartbeat_seconds
        while self.subscriber is not None and not self.stop.requested:
            peer = self.subscriber.peer()
            taken = self.config.schedule == "static" and self.done in peer.holds
            if peer.finished or taken or (peer.last_seen or 0) > silence:
                return
            time.sleep(_PAUSE)

    def _release(self) -> None:
        """Remove what nobody needs: copies of old encoders, negatives older than all that the Trainer holds."""
        if self.subscriber is not None:
            self.subscriber.release(set(self._needed()))
        if self.publisher is None or self.subscriber is None or not self.subscriber.peer().holds:
            return
        held = self.subscriber.peer().holds
        needed = {step for step in paths.steps(self.paths.negatives) if step >= max(held)}
        paths.prune(self.paths.negatives, 1, needed | held | self.publisher.being_read())
