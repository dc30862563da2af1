"""One refresh: an encoder becomes negatives and, where it is scored on the way, metrics, in a straight line of calls.

encoder ── encode documents, queries ──> evaluate ──> metrics.json, run.trec, run-d2q.trec
                                    ├──> mine documents of queries ┐
                                    ├──> mine queries of documents ┼─> negatives/step_S
                                    └──> group pairs               ┘
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dance.encoder.model import Encoder
from dance.mining.finish import finish
from dance.mining.miner import Mined
from dance.mining.table import Drawn, Groups, NegativesTable
from dance.paths import step_name

from .collect import collect
from .context import Context
from .corpus import Corpus
from .documents import DocumentMiner
from .evaluate import evaluate, sample, sampled
from .former import Former, former
from .groups import group
from .oracle import oracle_overlap
from .queries import QueryMiner
from .timing import Seconds
from .vectors import Queries, encode_corpus, encode_queries, load_encoder, make_room
from .window import Scoring, Window, window


@dataclass(frozen=True, eq=False)
class Found:
    """What the ranks together make the table of: this rank's blocks of both directions, and rank 0's groups."""

    documents: list[Mined]
    queries: list[Mined] | None  # None without the dual task
    groups: Groups | None  # None elsewhere, and where batches are ordinary


@dataclass
class Refresher:
    context: Context

    def refresh(self, step: int, turn: int, due: bool = True) -> dict[str, Any]:
        """Encode, evaluate, mine and publish; ``turn`` counts refreshes. Returns the record of rank 0.

        ``due``: the encoder is to be scored over the whole corpus, here or in a full pass. Raises
        embed.Interrupted on every rank that is asked to stop in the middle.
        """
        began, seconds, context = time.monotonic(), Seconds(), self.context
        scoring = self._scoring(due)
        about = window(context, turn, scoring)
        encoder = load_encoder(context, step)
        with seconds.spent_on("encode"):
            corpus = self._encode(encoder, step, about)
        with seconds.spent_on("encode_queries"):
            asked = encode_queries(context, encoder, about.asked)
        with seconds.spent_on("evaluate"):
            scores = self._evaluate(encoder, corpus, asked, step, scoring)
        before = former(context.paths.negatives, step, context.world)
        fresh = oracle_overlap(context, encoder, corpus, about, before, step)
        found = self._mine(corpus, asked, about, before, step, seconds)
        with seconds.spent_on("publish"):
            facts = self._publish(found, before, step, turn, scores)
        if fresh is not None:
            facts["overlap_oracle"] = fresh
        encoded = corpus.documents + (corpus.beside.documents if corpus.beside else 0)
        timings = {f"{name}_seconds": value for name, value in seconds.items()}
        total = {"documents_per_second": encoded / seconds["encode"], "refresh_seconds": time.monotonic() - began}
        return {"step": step, **scores, **timings, "documents_encoded": encoded, **total, **facts}

    @cached_property
    def _documents(self) -> DocumentMiner:
        return DocumentMiner(self.context)

    @cached_property
    def _queries(self) -> QueryMiner:
        return QueryMiner(self.context)

    def _scoring(self, due: bool) -> Scoring:
        if due:
            return "all" if self.context.config.parts == 1 else "none"  # then a full pass follows
        return "none" if self.context.config.evaluate.fraction is None else "sample"

    def _encode(self, encoder: Encoder, step: int, about: Window) -> Corpus:
        context, name = self.context, step_name(step)
        make_room(context)
        corpus = encode_corpus(context, encoder, step, name, about.searched)
        if not len(about.beside):
            return corpus
        return replace(corpus, beside=encode_corpus(context, encoder, step, f"{name}-beside", about.beside))

    def _evaluate(
        self, encoder: Encoder, corpus: Corpus, asked: Queries, step: int, scoring: Scoring
    ) -> dict[str, float]:
        """Dev metrics at rank 0, {} elsewhere; over the full corpus they are written, with run files."""
        if scoring == "sample":
            some = encode_corpus(self.context, encoder, step, f"{step_name(step)}-sample", sample(self.context))
            return sampled(self.context, some, asked)
        found = evaluate(self.context, corpus, asked) if scoring == "all" else None
        if found is None:
            return {}
        found.write(self.context.paths.evaluation / step_name(step), step=step)
        return found.metrics

    def _mine(
        self, corpus: Corpus, asked: Queries, about: Window, before: Former | None, step: int, seconds: Seconds
    ) -> Found:
        context, documents, queries, groups = self.context, list[Mined](), None, None
        if context.mines_documents:
            known = before.documents if before else None
            documents = self._documents.mine(corpus, asked, about.queries, known, step, seconds)
        if context.asks_back:  # without a source of queries those of the batch alone oppose a document's
            known = before.queries if before else None
            queries = self._queries.mine(corpus, asked, about, known, step, seconds) if context.mines_queries else []
        if context.groups_pairs:
            with seconds.spent_on("group"):
                groups = group(context, corpus, asked, about.queries, step)
        return Found(documents, queries, groups)

    def _publish(
        self, found: Found, before: Former | None, step: int, turn: int, scores: dict[str, float]
    ) -> dict[str, Any]:
        """All ranks' negatives become the table of this step. Returns what it is like, at rank 0."""
        context = self.context
        context.reporter.begin("publish")
        documents = collect(found.documents, context.world)
        queries = None if found.queries is None else collect(found.queries, context.world)
        if documents is None:
            return {}
        drawn, facts = self._finish(documents, before, before.documents if before else None, step)
        back: Drawn | None = None
        if queries is not None:
            back, others = self._finish(queries, before, before.queries if before else None, step)
            facts |= {f"d2q_{name}": value for name, value in others.items()}
        if found.groups is not None:
            facts["groups"] = len(found.groups)
        facts |= {"turn": turn, "refresh_fraction": context.config.refresh.fraction, "text": context.prepared.identity}
        table = NegativesTable(step, drawn, back, {**facts, **scores}, found.groups)
        table.refuse_positives(context.relevance)
        table.publish(context.paths.published("negatives", step))
        return {key: value for key, value in facts.items() if key != "text"}

    def _finish(
        self, mined: Mined, before: Former | None, known: Drawn | None, step: int
    ) -> tuple[Drawn, dict[str, Any]]:
        age = step - before.step if before is not None and known is not None else None
        return finish(mined, self.context.config, step, known, age)
