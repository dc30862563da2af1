"""One refresh: an encoder becomes metrics and negatives, in a straight line of calls."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dance.artefact import replace_file
from dance.config import Config
from dance.corpus.prepare import Prepared
from dance.corpus.qrels import Qrels, Rows
from dance.corpus.relevance import Relevance
from dance.encoder import files
from dance.encoder.embed import embed_shard
from dance.encoder.model import Encoder
from dance.encoder.precision import resolve
from dance.encoder.store import EmbeddingShard
from dance.evaluation import metrics, runfile
from dance.mining.miner import Mined, mine, rotation
from dance.paths import RunPaths, step_name
from dance.progress import Reporter
from dance.search.neighbours import Neighbours
from dance.stopping import Stop
from dance.world import World

from .collect import collect
from .neighbours import search_everywhere
from .vectors import embed_everywhere, together


class Seconds(dict[str, float]):
    """Wall time by what it was spent on."""

    @contextmanager
    def spent_on(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self[name] = self.get(name, 0.0) + time.monotonic() - began


@dataclass
class Refresher:
    """What stays the same between refreshes."""

    config: Config
    world: World
    paths: RunPaths
    prepared: Prepared
    reporter: Reporter
    stop: Stop

    @cached_property
    def qrels(self) -> Qrels:
        return self.prepared.collection.splits[self.config.data.train_split]

    @cached_property
    def relevance(self) -> Relevance:
        return Relevance.of(self.qrels, self.prepared.collection.twins)

    def refresh(self, step: int, turn: int) -> dict[str, Any]:
        """Encode, evaluate, mine and publish; ``turn`` counts refreshes. Returns the record of rank 0.

        Raises embed.Interrupted on every rank that is asked to stop in the middle.
        """
        began, seconds = time.monotonic(), Seconds()
        encoder = self._load(step)
        with seconds.spent_on("encode"):
            shard = self._encode(encoder, step)
        with seconds.spent_on("evaluate"):
            scores = self._evaluate(encoder, shard, step)
        mined, spent = self._mine(encoder, shard, step, turn)
        with seconds.spent_on("publish"):
            facts = self._publish(mined, step, turn, scores)
        rate = len(self.prepared.documents) / seconds["encode"]
        timings = {f"{name}_seconds": value for name, value in (seconds | spent).items()}
        total = {"documents_per_second": rate, "refresh_seconds": time.monotonic() - began}
        return {"step": step, **scores, **timings, **total, **facts}

    def _load(self, step: int) -> Encoder:
        path = self.paths.held("encoders", step)
        assert path is not None, f"the encoder of step {step} was announced as held"
        return files.load(path, self.world.device, resolve(self.config.encode.precision, self.world.device))

    def _encode(self, encoder: Encoder, step: int) -> EmbeddingShard:
        """This rank's share of the corpus; vectors of earlier encoders make room first."""
        documents, world = self.prepared.documents, self.world
        folder = self.paths.embeddings / step_name(step)
        if world.leads_node:
            shutil.rmtree(self.paths.embeddings, ignore_errors=True)
        world.barrier()
        share = -(-len(documents) // world.size)
        self.reporter.begin("encode", share, "documents", step=step)
        embed = partial(
            embed_shard,
            encoder,
            documents,
            np.arange(len(documents)),
            world.rank,
            world.size,
            folder,
            self.config.encode.tokens_per_batch,
            self.reporter.update,
            lambda: self.stop.requested,
            step=step,
        )
        return together(world, embed)

    def _evaluate(self, encoder: Encoder, shard: EmbeddingShard, step: int) -> dict[str, float]:
        """Dev metrics over the full corpus at rank 0, {} elsewhere; writes metrics.json and run.trec."""
        collection = self.prepared.collection
        qrels = collection.splits[self.config.data.dev_split]
        self.reporter.begin("evaluate", len(qrels.queries), "queries")
        ranking: metrics.Ranking = {}
        for part, found in self._search(shard, self._vectors(encoder, qrels.queries), metrics.DEPTH, owners=1):
            ranking |= metrics.ranking(collection, qrels.queries[part], found)
            self.reporter.update(part.stop)
        if not self.world.leads:
            return {}
        scores = metrics.measure(metrics.judgements(collection, qrels), ranking)
        folder = self.paths.evaluation / step_name(step)
        folder.mkdir(parents=True, exist_ok=True)
        runfile.write(folder / "run.trec", ranking)
        replace_file(folder / "metrics.json", msgspec.json.encode({"step": step, **scores}))
        return scores

    def _mine(self, encoder: Encoder, shard: EmbeddingShard, step: int, turn: int) -> tuple[list[Mined], Seconds]:
        """This rank's blocks of mined queries, and where the time went."""
        negatives, seed, seconds = self.config.negatives, self.config.seed, Seconds()
        mined: list[Mined] = []
        queries = rotation(self.qrels.queries, negatives.queries_per_refresh, turn, seed)
        self.reporter.begin("encode", len(queries), "queries")
        with seconds.spent_on("encode_queries"):
            vectors = self._vectors(encoder, queries)
        self.reporter.begin("search", len(queries), "queries")
        found = self._search(shard, vectors, negatives.topk, self.world.size)
        while True:
            with seconds.spent_on("search"):
                block = next(found, None)
            if block is None:
                return mined, seconds
            with seconds.spent_on("mine"):
                mined.append(mine(block[1], queries[block[0]], self.relevance, negatives, seed, step))
            self.reporter.update(block[0].stop)

    def _vectors(self, encoder: Encoder, queries: Rows) -> NDArray[np.float32]:
        budget = self.config.encode.tokens_per_batch
        return embed_everywhere(encoder, self.prepared.queries, queries, budget, self.world, self.stop)

    def _search(
        self, shard: EmbeddingShard, vectors: NDArray[np.float32], k: int, owners: int
    ) -> Iterator[tuple[slice, Neighbours]]:
        k = min(k, len(self.prepared.documents))
        return search_everywhere(shard, vectors, k, self.config.encode.queries_per_search, self.world, owners)

    def _publish(self, mined: list[Mined], step: int, turn: int, scores: dict[str, float]) -> dict[str, Any]:
        """All ranks' negatives become the table of this step. Returns its counts, at rank 0."""
        self.reporter.begin("publish")
        table = collect(mined, step, self.world)
        if table is None:
            return {}
        table.facts.update(turn=turn, text=self.prepared.identity, **scores)
        table.publish(self.paths.published("negatives", step))
        return {key: value for key, value in table.facts.items() if key not in scores and key != "text"}
