"""One refresh: an encoder becomes metrics and negatives, in a straight line of calls.

encoder ── encode corpus, queries ──> evaluate ──> metrics.json, run.trec, run-d2q.trec
                                 └──> mine documents of queries ┐
                                 └──> mine queries of documents ┴─> negatives/step_S
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dance.encoder import files
from dance.encoder.model import Encoder
from dance.encoder.precision import resolve
from dance.mining.finish import finish
from dance.mining.miner import Mined, rotation
from dance.mining.table import Drawn, NegativesTable
from dance.paths import step_name

from .collect import collect
from .context import Context
from .corpus import Corpus, Rows
from .documents import DocumentMiner
from .evaluate import evaluate
from .former import Former, former
from .queries import QueryMiner
from .timing import Seconds
from .vectors import Queries, encode_corpus, encode_queries


@dataclass
class Refresher:
    context: Context

    def refresh(self, step: int, turn: int) -> dict[str, Any]:
        """Encode, evaluate, mine and publish; ``turn`` counts refreshes. Returns the record of rank 0.

        Raises embed.Interrupted on every rank that is asked to stop in the middle.
        """
        began, seconds, context = time.monotonic(), Seconds(), self.context
        queries = self._mined_queries(turn)
        encoder = self._load(step)
        with seconds.spent_on("encode"):
            corpus = encode_corpus(context, encoder, step)
        with seconds.spent_on("encode_queries"):
            asked = encode_queries(context, encoder, self._asked(queries))
        with seconds.spent_on("evaluate"):
            scores = self._evaluate(corpus, asked, step)
        before = former(context.paths.negatives, step, context.world)
        mined = self._mine(corpus, asked, queries, before, step, seconds)
        with seconds.spent_on("publish"):
            facts = self._publish(mined, before, step, turn, scores)
        rate = len(context.prepared.collection.document_ids) / seconds["encode"]
        timings = {f"{name}_seconds": value for name, value in seconds.items()}
        total = {"documents_per_second": rate, "refresh_seconds": time.monotonic() - began}
        return {"step": step, **scores, **timings, **total, **facts}

    @cached_property
    def _documents(self) -> DocumentMiner:
        return DocumentMiner(self.context)

    @cached_property
    def _queries(self) -> QueryMiner:
        return QueryMiner(self.context)

    def _mined_queries(self, turn: int) -> Rows:
        context = self.context
        share, seed = context.config.negatives.queries_per_refresh, context.config.seed
        return rotation(context.qrels.queries, share, turn, seed)

    def _load(self, step: int) -> Encoder:
        context = self.context
        path, device = context.paths.held("encoders", step), context.world.device
        assert path is not None, f"the encoder of step {step} was announced as held"
        return files.load(path, device, resolve(context.config.encode.precision, device))

    def _asked(self, queries: Rows) -> Rows:
        """Rows of all queries whose vectors this refresh needs."""
        context = self.context
        if context.config.evaluate.d2q:
            return np.arange(len(context.prepared.queries))
        mined = context.qrels.queries if context.mines_queries else queries
        return np.union1d(context.held_out.queries, mined)

    def _evaluate(self, corpus: Corpus, asked: Queries, step: int) -> dict[str, float]:
        """Dev metrics over the full corpus at rank 0, {} elsewhere; writes them and the run files."""
        found = evaluate(self.context, corpus, asked)
        if found is None:
            return {}
        found.write(self.context.paths.evaluation / step_name(step), step=step)
        return found.metrics

    def _mine(
        self, corpus: Corpus, asked: Queries, queries: Rows, before: Former | None, step: int, seconds: Seconds
    ) -> tuple[list[Mined], list[Mined] | None]:
        """This rank's blocks of both directions; the second is None without the dual task."""
        context, documents = self.context, list[Mined]()
        if context.mines_documents:
            known = before.documents if before else None
            documents = self._documents.mine(corpus, asked, queries, known, step, seconds)
        if not context.asks_back:
            return documents, None
        if not context.mines_queries:  # those of the batch alone oppose a document's
            return documents, []
        keys = np.unique(context.qrels.subset(queries).documents)
        return documents, self._queries.mine(corpus, asked, keys, before.queries if before else None, step, seconds)

    def _publish(
        self,
        mined: tuple[list[Mined], list[Mined] | None],
        before: Former | None,
        step: int,
        turn: int,
        scores: dict[str, float],
    ) -> dict[str, Any]:
        """All ranks' negatives become the table of this step. Returns what it is like, at rank 0."""
        context = self.context
        context.reporter.begin("publish")
        documents, queries = (None if blocks is None else collect(blocks, context.world) for blocks in mined)
        if documents is None:
            return {}
        drawn, facts = self._finish(documents, before, before.documents if before else None, step)
        back: Drawn | None = None
        if queries is not None:
            back, found = self._finish(queries, before, before.queries if before else None, step)
            facts |= {f"d2q_{name}": value for name, value in found.items()}
        facts |= {"turn": turn, "text": context.prepared.identity}
        table = NegativesTable(step, drawn, back, {**facts, **scores})
        table.refuse_positives(context.relevance)
        table.publish(context.paths.published("negatives", step))
        return {key: value for key, value in facts.items() if key != "text"}

    def _finish(
        self, mined: Mined, before: Former | None, known: Drawn | None, step: int
    ) -> tuple[Drawn, dict[str, Any]]:
        age = step - before.step if before is not None and known is not None else None
        return finish(mined, self.context.config, step, known, age)
