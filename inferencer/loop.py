"""The Inferencer's loop: the newest encoder becomes metrics and negatives, until the last one did."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from dance import artefact, paths
from dance.config import Config
from dance.encoder.embed import Interrupted
from dance.evaluation.held_out import selected_by
from dance.exchange import Patience, Peer, PeerLost, Publisher, Subscriber
from dance.paths import RunPaths
from dance.progress import Reporter
from dance.stopping import Stop
from dance.tracking import Tracker, forget_after, read_lines
from dance.world import World

from .refresh import Refresher

log = logging.getLogger(__name__)

_FAR = 1 << 62  # what a rank without a subscriber answers: it stands in nobody's way
_NOTHING = -1
_PAUSE = 0.1  # seconds between two looks while waiting


@dataclass
class Loop:
    """Everything that one Inferencer rank holds."""

    config: Config
    world: World
    paths: RunPaths
    refresher: Refresher
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
        return self.complete()

    def rewind(self) -> None:
        """Go back to where the Trainer, once heard of, continues: negatives of another future are forgotten."""
        newest = self._wait(self._announced, "the first encoder")
        if self.world.leads and newest is not None and self.subscriber is not None:
            needed = self.subscriber.peer().holds
            for later in (step for step in paths.steps(self.paths.negatives) if step > newest):
                if later not in needed:
                    artefact.remove(self.paths.published("negatives", later))
            forget_after(self.paths.metrics("inferencer"), newest)
            self._recall(newest)
        # Rank 0 knows, because the negatives lie on its disk.
        mine = [_NOTHING if self.done is None else self.done, self.turn] if self.world.leads else [_FAR, _FAR]
        done, self.turn = self.world.agree_min(mine)
        self.done = None if done == _NOTHING else done
        self.announce("wait")

    def _recall(self, newest: int) -> None:
        """What the newest negatives and the records say of the past; a record that a kill prevented is made good."""
        self.done = max((step for step in paths.steps(self.paths.negatives) if step <= newest), default=None)
        records = read_lines(self.paths.metrics("inferencer"))
        if self.done is not None:
            facts = artefact.read_manifest(self.paths.published("negatives", self.done)).facts
            self.turn = facts["turn"] + 1
            if not records or records[-1]["step"] < self.done:
                records.append({"step": self.done, **{key: value for key, value in facts.items() if key != "text"}})
                self.tracker.record(records[-1])
        self.paths.best.unlink(missing_ok=True)
        for record in records:
            self._note_best(record)

    def next_encoder(self) -> int | None:
        """Step of the newest encoder that every machine holds, older ones skipped; None where none will come."""
        self.reporter.begin("wait", message="for the next encoder")
        done = _NOTHING if self.done is None else self.done

        def newer() -> int:
            assert self.subscriber is not None
            held = self.subscriber.newest()
            return _NOTHING if held is None or held <= done else held

        while (newest := self._wait(newer, f"an encoder newer than step {done}")) is not None:
            # The untrained encoder is never skipped: what training gained is counted from it. Any other may be,
            # so that a machine that was behind may lack one, and all take a later one together.
            for step in (0, newest) if self.done is None else (newest,):
                if self.world.agree_min([int(self.paths.held("encoders", step) is not None)]) == [1]:
                    return step
            time.sleep(_PAUSE)
        return None

    def complete(self) -> bool:
        """Whether the last encoder has its negatives; under schedule=static the first is the last."""
        return self.world.agree_min([int(self.subscriber is None or self._complete(self.subscriber.peer()))]) == [1]

    def _complete(self, peer: Peer) -> bool:
        if self.done is None:
            return False
        return self.config.schedule == "static" or (peer.final and peer.step == self.done)

    def _announced(self) -> int:
        assert self.subscriber is not None
        step = self.subscriber.peer().step
        return _NOTHING if step is None else step

    def _wait(self, look: Callable[[], int], wanted: str) -> int | None:
        """What all machines agree on once all see something; None where a stop or the end came first.

        Raises exchange.PeerLost or TimeoutError where the wait has no end in sight.
        """
        patience = Patience(self.config.exchange)
        while True:
            seen, go = _FAR, not self.stop.requested
            if self.subscriber is not None:
                peer = self.subscriber.peer()
                self._refuse_regress(peer)
                seen, go = look(), go and not peer.finished and not self._complete(peer)
            step, going = self.world.agree_min([seen, int(go)])
            if not going:
                return None
            if step != _NOTHING:
                return step
            if self.subscriber is not None:
                patience.check(peer, wanted, self.subscriber.where)
            time.sleep(_PAUSE)

    def _refuse_regress(self, peer: Peer) -> None:
        """Steps only grow here, so that a Trainer that went back needs an Inferencer that goes back with it."""
        if self.done is not None and peer.step is not None and peer.step < self.done:
            raise PeerLost(
                f"the Trainer was started again at an encoder of step {peer.step}, behind the negatives of step "
                f"{self.done} that are made already: start the Inferencer again too, it goes back by itself"
            )

    def refresh(self, step: int) -> bool:
        """False where a stop was asked for in the middle: nothing of it is kept."""
        self.announce(f"refresh of step {step}")
        try:
            record = self.refresher.refresh(step, self.turn)
        except Interrupted:
            return False
        self.done, self.turn = step, self.turn + 1
        self.tracker.record(record)
        self._note_best(record)
        self.announce("wait")
        self._release()
        log.info("step %d: %s", step, {k: round(v, 4) if isinstance(v, float) else v for k, v in record.items()})
        return True

    def announce(self, phase: str, finished: bool = False) -> None:
        if self.publisher is not None:
            best = self._best()
            holds = frozenset() if best is None else frozenset({best["step"]})
            self.publisher.announce(self.done, phase=phase, holds=holds, finished=finished)

    def leave(self, complete: bool) -> None:
        """Serve what is announced until the Trainer has it or is gone, then say goodbye."""
        self.reporter.begin("finished" if complete else "stopped")
        self.announce("finished" if complete else "stopped", finished=True)
        silence = 10 * self.config.exchange.heartbeat_seconds
        while self.subscriber is not None and not self.stop.requested:
            peer = self.subscriber.peer()
            if peer.finished or self._taken(peer) or (peer.last_seen or 0) > silence:
                return
            time.sleep(_PAUSE)

    def _taken(self, peer: Peer) -> bool:
        return self.config.schedule == "static" and self.done in peer.holds

    def _best(self) -> dict[str, Any] | None:
        return msgspec.json.decode(self.paths.best.read_bytes()) if self.paths.best.is_file() else None

    def _note_best(self, record: dict[str, Any]) -> None:
        best = self._best()
        if self.config.schedule == "static":
            return  # it scores the first encoder only, which says nothing about the later ones
        if not self.world.leads:
            return
        key = selected_by(record)
        if best is None or record[key] > best[key]:
            best = {name: record[name] for name in ("step", "ndcg@10", key) if name in record}
            artefact.replace_file(self.paths.best, msgspec.json.encode(best))

    def _release(self) -> None:
        """Remove what nobody needs: copies of old encoders, negatives older than all that the Trainer holds."""
        if self.subscriber is not None:
            best = self._best()
            self.subscriber.release(set() if best is None else {best["step"]})
        if self.publisher is None or self.subscriber is None or not self.subscriber.peer().holds:
            return
        held = self.subscriber.peer().holds
        needed = {step for step in paths.steps(self.paths.negatives) if step >= max(held)}
        paths.prune(self.paths.negatives, 1, needed | held | self.publisher.being_read())
