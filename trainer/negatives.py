"""How the Trainer comes by its negatives: all ranks adopt together, and waits have an end."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from dance.config import Config
from dance.corpus.prepare import Prepared
from dance.corpus.relevance import Relevance
from dance.exchange import Patience, Subscriber
from dance.learning.grouped import Grouping
from dance.learning.order import COLD, Stream
from dance.mining.table import NegativesTable
from dance.paths import RunPaths
from dance.progress import Reporter
from dance.stopping import Stop
from dance.tracking import note
from dance.world import FAR, NOTHING, World

log = logging.getLogger(__name__)

_PAUSE = 0.05  # seconds between two looks while waiting


@dataclass
class Clocks:
    """Seconds since the last record."""

    waiting: float = 0.0
    adopting: float = 0.0


class Negatives:
    """The stream of examples in use, and its replacement by newer ones."""

    def __init__(
        self,
        config: Config,
        world: World,
        paths: RunPaths,
        prepared: Prepared,
        relevance: Relevance,
        subscriber: Subscriber | None,
        stop: Stop,
        reporter: Reporter,
    ) -> None:
        self.config, self.world, self.paths = config, world, paths
        self.text, self.qrels = prepared.identity, prepared.collection.split(config.data.train_split)
        self.relevance = relevance
        self.subscriber, self.stop, self.reporter = subscriber, stop, reporter
        self.clocks = Clocks()
        self.stream: Stream | None = None

    @property
    def step(self) -> int | None:
        """Step of the table in use; None before the first."""
        return None if self.stream is None or self.stream.step == COLD else self.stream.step

    def staleness(self, step: int) -> int | None:
        return None if self.step is None else step - self.step

    def start(self, resumed: int | None) -> None:
        """Reopen the table that a checkpoint used, or begin without one."""
        if resumed is not None:
            self._open(resumed)
        elif self.config.negatives.cold_start == "in_batch" and self.config.schedule != "sync":
            self.stream = self._stream(None)

    def look(self, step: int) -> bool:
        """Adopt what all ranks hold, waiting as long as the schedule asks. True where it was adopted.

        Every rank calls this at the same steps. Returns early once a stop is requested anywhere;
        raises exchange.PeerLost or TimeoutError where the wait has no end in sight.
        """
        if self.subscriber is not None:
            self.subscriber.reached = step
        self._warn_of_silence(step)
        began, adopting = time.monotonic(), self.clocks.adopting
        adopted = self._adopt(self._agreed(), step)
        if self.must_wait(step) and not self.stopping:
            adopted = self._wait(step) or adopted
        self.clocks.waiting += time.monotonic() - began - (self.clocks.adopting - adopting)
        return adopted

    def _wait(self, step: int) -> bool:
        adopted, patience = False, Patience(self.config.exchange)
        self.reporter.begin("wait", message=self._wanted(step), step=step)
        log.info("step %d: waiting for %s", step, self._wanted(step))
        while self.must_wait(step) and not self.stopping:
            if self.subscriber is not None:
                patience.check(self.subscriber.peer(), self._wanted(step), self.subscriber.where)
            self.reporter.update(step)  # a sign of life
            time.sleep(_PAUSE)
            adopted = self._adopt(self._agreed(), step) or adopted
        return adopted

    def _warn_of_silence(self, step: int) -> None:
        """Training goes on without the Inferencer, but not without a word."""
        if self.subscriber is None or (peer := self.subscriber.peer()).finished:
            return
        silence = peer.last_seen or 0.0
        if silence > self.config.exchange.peer_timeout_seconds and not self._warned:
            log.warning(
                "step %d: the Inferencer has been silent for %.0f s; training goes on with negatives %s steps old",
                step, silence, self.staleness(step),
            )  # fmt: skip
        self._warned = silence > self.config.exchange.peer_timeout_seconds

    _warned = False

    def seen(self, step: int) -> bool:
        """Whether every node holds the negatives of ``step``, or a stop was asked for. All ranks call this."""
        if self.subscriber is not None:
            self.subscriber.reached = step
        return self._agreed() >= step or self.stopping

    stopping = False  # agreed by all ranks at the last look

    def _agreed(self) -> int:
        """Newest step that every node holds complete; also settles whether to stop."""
        held = FAR if self.subscriber is None else self.subscriber.newest()
        newest, go = self.world.agree_min([NOTHING if held is None else held, 0 if self.stop.requested else 1])
        self.stopping = go == 0
        return newest

    def must_wait(self, step: int) -> bool:
        """Whether the schedule forbids a step with what is in use; the same on every rank."""
        if self.stream is None:
            return True
        bound, staleness = self.config.staleness_bound, self.staleness(step)
        return bound is not None and staleness is not None and staleness > bound

    def _adopt(self, newest: int, step: int) -> bool:
        # Negatives from the future are left over from before a resume; static takes its first only.
        current = COLD if self.step is None else self.step
        frozen = self.config.schedule == "static" and self.step is not None
        if frozen or not current < newest <= step:
            return False
        # A machine that was behind may have skipped this step, and takes a later one together with the others.
        if self.world.agree_min([int(self.paths.held("negatives", newest) is not None)]) == [0]:
            return False
        began = time.monotonic()
        self._open(newest)
        if self.world.leads:
            note(self.paths.journal, {"step": step, "negatives_step": newest})
        self.clocks.adopting += time.monotonic() - began
        log.info("step %d: negatives of step %d adopted", step, newest)
        return True

    def _open(self, table_step: int) -> None:
        path = self.paths.held("negatives", table_step)
        if path is None:
            raise ValueError(
                f"{self.paths.published('negatives', table_step)} is gone, which the checkpoint needs: "
                "put it back, or start a new run from the newest encoder with model.path"
            )
        table = NegativesTable.open(path)
        mined_from = table.facts.get("text", "unknown")
        if mined_from != self.text:
            raise ValueError(
                f"{path} was mined from another text ({mined_from[:12]}, here {self.text[:12]}): its row "
                "numbers would name other documents. Prepare both machines from the same files and settings"
            )
        table.refuse_positives(self.relevance, path)
        self.stream = self._stream(table)

    def _stream(self, table: NegativesTable | None) -> Stream:
        negatives = self.config.negatives
        queries = negatives.queries_per_example if self.config.loss.dual_weight else 0
        batches = self.config.batches
        grouping = Grouping(self.config.train.batch, batches.grouped_share) if batches.how == "hard_groups" else None
        return Stream.over(self.qrels, table, negatives.per_example, queries, self.config.seed, grouping)

    def _wanted(self, step: int) -> str:
        bound = self.config.staleness_bound
        oldest = 0 if self.stream is None or bound is None else max(0, step - bound)
        return f"negatives of step {oldest} or newer, at step {step}"
