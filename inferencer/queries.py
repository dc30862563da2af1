"""Negatives of documents, for the dual task: the training queries that each document is to be told from.

A relevant document of the refresh's queries asks, by the vectors of all its chunks, among all training
queries, or those of the refresh's slice (DANCE section 3). Those are at every rank, the document's vectors
are fetched to the rank that its block falls to, so that all else is done there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dance.corpus.qrels import Qrels
from dance.mining.lot import Judged
from dance.mining.miner import Block, Mined, mine
from dance.mining.mixing import Source
from dance.mining.table import Drawn
from dance.search.bm25 import Index
from dance.search.flat import inner_products, search
from dance.search.lexical import document_texts
from dance.search.merge import fold
from dance.search.neighbours import NONE, Neighbours

from .context import Context
from .corpus import Corpus, Rows
from .lexical import open_index
from .sources import Sources, best_of, pairs_of
from .timing import Seconds
from .vectors import Queries
from .window import Window


class Asking(NamedTuple):
    """A block of documents that ask for queries."""

    part: slice  # of all that ask
    owners: Rows  # [asks] place in the block, ascending
    vectors: NDArray[np.float32]  # [asks, width] of their chunks

    def search(self, pool: Queries, k: int, context: Context) -> Neighbours:
        """The k nearest queries of each document. [documents, at most k]"""
        k = min(k, len(pool.rows))
        found = search(pool.vectors, pool.rows, self.vectors, k, context.world.device)
        return fold(found, self.owners, k)[1]


def asking(context: Context, corpus: Corpus, documents: Rows) -> Iterator[Asking]:
    """The blocks of ``documents`` that fall to this rank. A collective: all ranks run through to the end."""
    fetched = []
    for to, part in context.blocks(len(documents)):
        owners, vectors = corpus.fetch(documents[part], to)
        if context.world.rank == to:
            fetched.append(Asking(part, owners, vectors))
    yield from fetched


@dataclass
class QueryMiner:
    context: Context
    index: Index | None = None  # opened when BM25 is first asked

    def mine(
        self, corpus: Corpus, asked: Queries, about: Window, former: Drawn | None, step: int, seconds: Seconds
    ) -> list[Mined]:
        """This rank's blocks of the window's keys, from its pool.

        ``asked`` holds the pool and all queries that the keys are relevant to.
        """
        context, documents = self.context, about.keys
        sources = Sources(context.config, self.judged, context.qrels.queries, None, former)
        with seconds.spent_on("mine"):
            place, queries = pairs_of(self.by_document, documents)
            scores = corpus.pair_scores(asked.vectors, asked.places(queries), documents[place])
            positives = best_of(scores, place, len(documents))
        if "bm25" in sources.share:
            self.index = self.index or open_index(context, "queries")
        context.reporter.begin("search", len(documents), "documents")
        blocks = list(asking(context, corpus, documents))
        pool = Queries(about.pool, asked.of(about.pool))
        work = partial(self._mine, blocks, documents, pool, asked, sources, positives, step, seconds)
        return context.together(work)

    def _mine(
        self,
        blocks: list[Asking],
        documents: Rows,
        pool: Queries,
        asked: Queries,
        sources: Sources,
        positives: NDArray[np.float32],
        step: int,
        seconds: Seconds,
    ) -> list[Mined]:
        mined = []
        for block in blocks:
            keys = documents[block.part]
            with seconds.spent_on("search"):
                searched = self._search(block, keys, pool, asked, sources)
            with seconds.spent_on("mine"):
                lists = sources.lists(keys, searched, step)
                # What was drawn from another slice is not to be found in this one.
                former = sources.former if "ann" in lists and self.context.config.parts == 1 else None
                known = _scores_of_others(block, lists, asked, len(keys))
                to_mine = Block(keys, lists, positives[block.part], former, known)
                mined.append(mine(to_mine, self.judged, self.context.config, step))
            self.context.tell(block.part.stop)
        return mined

    @cached_property
    def judged(self) -> Judged:
        return Judged.of_documents(self.context.relevance, self.context.config.seed)

    @cached_property
    def by_document(self) -> Qrels:
        """The training judgements the other way: documents as queries."""
        queries, documents = self.context.qrels.pairs()
        return Qrels.of(documents, queries, np.ones_like(queries))

    def _search(
        self, block: Asking, keys: Rows, pool: Queries, asked: Queries, sources: Sources
    ) -> dict[Source, Neighbours]:
        k = self.context.config.depth
        found: dict[Source, Neighbours] = {}
        # Where nothing is drawn from the neighbours, those of one block serve the diagnostics.
        if "ann" in sources.share or block.part.start == 0:
            found["ann"] = block.search(pool, k, self.context)
        if "lookahead" in sources.share:
            place, queries = pairs_of(self.by_document, keys)
            found["lookahead"] = Asking(block.part, place, asked.of(queries)).search(pool, k, self.context)
        if "bm25" in sources.share and self.index is not None:
            texts, rows = document_texts(self.context.prepared.collection, keys.tolist()), self.context.qrels.queries
            places = self.index.search(list(texts), self.context.config.negatives.topk)
            found["bm25"] = Neighbours(places.scores, np.where(places.rows == NONE, NONE, rows[places.rows]))
        return found


def _scores_of_others(
    block: Asking, lists: dict[Source, Neighbours], asked: Queries, documents: int
) -> Neighbours | None:
    """Scores by the encoder of the candidates that no search by the encoder found, nan without a vector."""
    others = [found.rows for source, found in lists.items() if source != "ann"]
    if not others:
        return None
    rows = np.concatenate(others, axis=1)  # [documents, any]
    places = asked.places(rows)
    each = inner_products(block.vectors, asked.vectors, places[block.owners])  # [asks, any]
    scores = np.full(rows.shape, -np.inf, np.float32)
    np.maximum.at(scores, block.owners, each)
    return Neighbours(np.where((places == NONE) & (rows != NONE), np.nan, scores).astype(np.float32), rows)
