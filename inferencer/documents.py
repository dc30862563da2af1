"""Negatives of queries: the documents that each query of a refresh is to be told from (ANCE section 3).

all ranks, block by block          the rank that a block falls to
  positives' scores, once     ──>    filters, draws, diagnostics
  ann: search, merge          ──>    lists of candidates ── mine ──> Mined
  lookahead: fetch, search    ──>         ^
                              bm25, random, given, former
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dance.corpus.qrels import Qrels
from dance.mining.lot import Judged
from dance.mining.miner import Block, Mined, mine
from dance.mining.mixing import Source
from dance.mining.table import Drawn
from dance.search.merge import fold
from dance.search.neighbours import Neighbours

from .context import Context
from .corpus import Corpus, Rows
from .lexical import Lists, open_index
from .sources import Sources, best_of, pairs_of
from .timing import Seconds
from .vectors import Queries


@dataclass
class DocumentMiner:
    context: Context
    lexical: Lists | None = None  # opened when BM25 is first asked

    def mine(
        self, corpus: Corpus, asked: Queries, queries: Rows, former: Drawn | None, step: int, seconds: Seconds
    ) -> list[Mined]:
        """This rank's blocks of ``queries`` [queries] rows, ascending, which are among ``asked``."""
        config = self.context.config
        sources = Sources(config, self.judged, self._pool, self._given, former)
        vectors, mined = asked.of(queries), []
        with seconds.spent_on("search"):
            lexical_lists = self._bm25(queries) if "bm25" in sources.share else {}
        with seconds.spent_on("mine"):
            positives = self._positives(corpus, vectors, queries)
        self.context.reporter.begin("search", len(queries), "queries")
        for to, part in self.context.blocks(len(queries)):
            with seconds.spent_on("search"):
                searched = self._search(corpus, sources, vectors[part], queries[part], part, to)
                if part.start in lexical_lists:
                    searched["bm25"] = lexical_lists[part.start]
            with seconds.spent_on("mine"):
                lists = sources.lists(queries[part], searched, step) if self.context.world.rank == to else {}
                known = self._scores_of_others(corpus, lists, vectors[part], to)
                if lists:
                    # What was drawn from another slice is not to be found in this one.
                    nearest = former if "ann" in lists and config.parts == 1 else None
                    block = Block(queries[part], lists, positives[part], nearest, known)
                    mined.append(mine(block, self.judged, config, step))
            self.context.all_tell(part.stop)
        return mined

    @cached_property
    def judged(self) -> Judged:
        return Judged.of_queries(self.context.relevance, self.context.config.seed)

    @cached_property
    def _pool(self) -> Rows:
        return np.arange(len(self.context.prepared.collection.document_ids))

    @property
    def _given(self) -> Qrels | None:
        return self.context.prepared.collection.given.get(self.context.config.data.train_split)

    def _bm25(self, queries: Rows) -> dict[int, Neighbours]:
        """The lists of this rank's blocks, by where they start: before the searches that all ranks do together."""
        context, texts = self.context, self.context.prepared.collection.queries
        self.lexical = lists = self.lexical or Lists(open_index(context, "documents"))
        parts = [part for to, part in context.blocks(len(queries)) if to == context.world.rank]
        context.reporter.begin("search", sum(part.stop - part.start for part in parts), "queries", message="BM25")

        def work() -> dict[int, Neighbours]:
            found, done = {}, 0
            for part in parts:
                rows = queries[part].tolist()
                found[part.start] = lists.of(rows, texts, context.config.negatives.topk)
                context.tell(done := done + len(rows))
            return found

        return context.together(work)

    def _positives(self, corpus: Corpus, vectors: NDArray[np.float32], queries: Rows) -> NDArray[np.float32]:
        """Score of each query's best relevant document, nan where it has one whose vectors are not here. [queries]"""
        place, documents = pairs_of(self.context.qrels, queries)
        return best_of(corpus.pair_scores(vectors, place, documents), place, len(queries))

    def _search(
        self, corpus: Corpus, sources: Sources, vectors: NDArray[np.float32], queries: Rows, part: slice, to: int
    ) -> dict[Source, Neighbours]:
        """The lists that all ranks search for together, at rank ``to``; {} elsewhere."""
        found: dict[Source, Neighbours | None] = {}
        # Where nothing is drawn from the neighbours, those of one block serve the diagnostics.
        if "ann" in sources.share or (part.start == 0 and corpus.documents):
            found["ann"] = corpus.search(vectors, self.context.config.depth, to)
        if "lookahead" in sources.share:
            found["lookahead"] = self._lookahead(corpus, queries, to)
        return {source: each for source, each in found.items() if each is not None}

    def _lookahead(self, corpus: Corpus, queries: Rows, to: int) -> Neighbours | None:
        """What lies nearest to the documents relevant to each query."""
        place, documents = pairs_of(self.context.qrels, queries)
        which, vectors = corpus.fetch(documents)
        found = corpus.search(vectors, self.context.config.depth, to)
        return None if found is None else fold(found, place[which], found.rows.shape[1])[1]

    def _scores_of_others(
        self, corpus: Corpus, lists: dict[Source, Neighbours], vectors: NDArray[np.float32], to: int
    ) -> Neighbours | None:
        """Scores by the encoder of the candidates that no search by the encoder found; rows at rank ``to`` alone."""
        others = [found.rows for source, found in lists.items() if source != "ann"]
        here = np.concatenate([np.empty((len(vectors), 0), np.int64), *others], axis=1)  # [queries, any]
        rows: Rows = self.context.world.from_rank(here.ravel(), to)
        if not rows.size:
            return None
        rows = rows.reshape(len(vectors), -1)
        return Neighbours(corpus.scores(vectors, rows), rows)
