"""Full passes: encoders scored over the whole corpus, a slice at a time, while refreshes of a slice go on.

    refresh S (due) ── note ──> waiting ──> under way: queries, slice 1, slice 2, ..., metrics of S
                                               between two slices: a newer encoder's refresh goes first

An encoder is due at step 0, at the first refresh at or behind every multiple of ``evaluate.every``, and at
the last step. One that is due while another one's pass is under way waits its turn; of several that wait
the newest is taken. Under schedule=sync none waits: the loop finishes each pass before it goes on. With
refresh.fraction=1 a refresh has the whole corpus at hand and is scored on the way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dance.encoder.embed import Interrupted
from dance.encoder.model import Encoder
from dance.evaluation.held_out import Evaluation, selected_by
from dance.paths import step_name
from dance.search.merge import merge
from dance.search.neighbours import Neighbours

from .context import Context
from .corpus import Corpus, in_memory
from .evaluate import judged, ranked
from .vectors import Part, encode_corpus, encode_queries, gathered, load_encoder, make_room

log = logging.getLogger(__name__)


class FullPass:
    """One encoder over the whole corpus. A collective: all ranks advance together.

    A slice is so many of the batches that a refresh of the whole corpus would encode, hence every score is
    the same, bit for bit.
    """

    def __init__(self, context: Context, step: int) -> None:
        self.step, self.context = step, context
        self.seconds = 0.0  # spent on it
        self.found: Evaluation | None = None  # at rank 0, once it is through
        self.through = False
        self._slices = self._work()

    def advance(self) -> bool:
        """One slice; False once it is through. Raises embed.Interrupted on every rank that is asked to stop."""
        began = time.monotonic()
        more = next(self._slices, False)
        self.seconds += time.monotonic() - began
        if not more and not self.through:  # one that was stopped in the middle does not go on
            raise Interrupted
        return more

    def record(self) -> dict[str, Any]:
        """Of rank 0, once it is through; the metrics and run files are written."""
        metrics: dict[str, float] = {}
        if self.found is not None:
            self.found.write(self.context.paths.evaluation / step_name(self.step), step=self.step)
            metrics = self.found.metrics
        return {"step": self.step, **metrics, "evaluate_seconds": self.seconds}

    def _work(self) -> Iterator[bool]:
        context, encoder = self.context, load_encoder(self.context, self.step)
        held_out, chunks = context.held_out, context.prepared.settings.chunks
        found: list[Neighbours] = []
        queries, askers = [], []
        for part in self._query_parts():
            queries.append(encode_queries(context, encoder, self._asked(), part))
            yield True
        asked = gathered(queries)
        for number in range(context.config.parts):
            corpus = self._slice(encoder, Part(number, context.config.parts))
            found = [_merged([*found, ranked(context, corpus, asked)])]  # [held-out queries, depth]
            which, vectors = corpus.held(held_out.documents)
            askers.append((held_out.documents[which], vectors))
            yield True
        self.found = judged(context, found[0], in_memory(askers, len(held_out.documents), chunks, context.world), asked)
        self.through = True

    def _asked(self) -> np.ndarray:
        d2q = self.context.config.evaluate.d2q
        return np.arange(len(self.context.prepared.queries)) if d2q else self.context.held_out.queries

    def _query_parts(self) -> list[Part]:
        """So many that one takes no longer than a slice of the corpus."""
        prepared, parts = self.context.prepared, self.context.config.parts
        tokens = int(prepared.queries.lengths[self._asked()].sum())
        count = -(-tokens * parts // max(1, int(prepared.documents.lengths.sum())))
        return [Part(number, count) for number in range(count)]

    def _slice(self, encoder: Encoder, part: Part) -> Corpus:
        make_room(self.context)
        return encode_corpus(self.context, encoder, self.step, f"{step_name(self.step)}-whole", part=part)


@dataclass
class Passes:
    context: Context
    noted: int = -1  # step of the newest encoder that was due
    waiting: int | None = None  # step of the encoder whose pass comes next
    under_way: FullPass | None = None

    @property
    def holds(self) -> frozenset[int]:
        """Steps of the encoders that are not scored yet."""
        under_way = None if self.under_way is None else self.under_way.step
        return frozenset(step for step in (self.waiting, under_way) if step is not None)

    def due(self, step: int) -> bool:
        """Whether the encoder of ``step``, newer than all noted, is to be scored over the whole corpus."""
        every, last = self.context.config.evaluate.every, self.context.config.train.steps
        return every is None or (step > self.noted and (step // every > self.noted // every or step == last))

    def note(self, step: int) -> None:
        """The refresh of an encoder that is due is done."""
        self.noted = step
        if self.context.config.parts == 1:
            return
        if self.waiting is not None:
            log.info("step %d is not scored over the whole corpus: step %d is due already", self.waiting, step)
        self.waiting = step

    def advance(self) -> dict[str, Any] | None:
        """One slice of the pass under way, or of the one that waits; its record once it is through.

        Raises embed.Interrupted on every rank that is asked to stop; the pass is left unfinished then.
        """
        if self.under_way is None:
            assert self.waiting is not None  # nothing is advanced that is not held
            self.under_way, self.waiting = FullPass(self.context, self.waiting), None
        if self.under_way.advance():
            return None
        through, self.under_way = self.under_way, None
        return through.record()

    def recall(self, records: Sequence[dict[str, Any]]) -> None:
        """Go on after a restart, from the records that rank 0 has: a pass that was cut short is done again."""
        world = self.context.world
        if world.leads:
            self.noted = max((record["step"] for record in records if selected_by(record)), default=-1)
            refreshed = sorted(record["step"] for record in records if "turn" in record)
            for step in refreshed:
                if step > self.noted and self.due(step):
                    self.note(step)
                    if self.waiting is None:
                        log.info("step %d is not scored over the whole corpus: no pass follows any more", step)
        self.noted, *waiting = world.from_rank(np.array([self.noted, *self.holds]), 0).tolist()
        self.waiting = waiting[0] if waiting else None
        if waiting and world.agree_min([int(self.context.paths.held("encoders", waiting[0]) is not None)]) == [0]:
            log.info("step %d is not scored over the whole corpus: its encoder is gone", waiting[0])
            self.waiting = None


def _merged(parts: list[Neighbours]) -> Neighbours:
    return merge(parts, parts[0].rows.shape[1])
