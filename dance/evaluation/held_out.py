"""What an encoder is asked on a held-out split, and what its answers are worth, in both directions.

Documents for queries: over the full corpus, by the split's judgements. Queries for documents ("d2q",
DANCE section 4): every document that is relevant to something in the split asks among all queries of
the collection. A query of another split that it is relevant to would be no mistake and no merit, so it
is taken out of the list, and as much more is searched. So is what is the asker itself
(data.own_document): of a query that document alone, of a document that query whichever copy of it asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..artefact import replace_file
from ..config import Config
from ..corpus.collection import Collection
from ..corpus.qrels import Qrels, Rows
from ..corpus.relevance import Relevance
from ..search.neighbours import NONE, Neighbours, best
from . import runfile
from .coverage import coverage
from .folds import REPORT, SELECT, folds
from .metrics import Ranking, judgements, measure, ranking, reversed_judgements, reversed_ranking

# What the best encoder is chosen by: the first of them that there is. Where questions have answers, as in OpenQA,
# few of the passages that hold one are judged, so that judgements tell less.
SELECTING = ("coverage@20", "ndcg@10")


def selected_by(metrics: Mapping[str, Any]) -> str | None:
    """Name of the metric that the best encoder is chosen by; None where nothing was scored over the full corpus."""
    names = [*(f"select_{name}" for name in SELECTING), *SELECTING]
    return next((name for name in names if name in metrics), None)


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one encoder, and the rankings that they come from."""

    metrics: dict[str, float]
    documents: Ranking  # of queries
    queries: Ranking | None  # of documents; None where they were not asked

    def write(self, folder: Path, **facts: Any) -> None:
        """metrics.json with the facts before the metrics, run.trec, run-d2q.trec; made anew."""
        folder.mkdir(parents=True, exist_ok=True)
        runfile.write(folder / "run.trec", self.documents)
        if self.queries is not None:
            runfile.write(folder / "run-d2q.trec", self.queries)
        replace_file(folder / "metrics.json", msgspec.json.encode({**facts, **self.metrics}) + b"\n")


@dataclass(frozen=True)
class HeldOut:
    collection: Collection
    queries: Rows  # the askers of documents
    qrels: Qrels  # empty where answers alone are known
    depth: int  # ranked per asker
    halves: NDArray[np.int64] | None  # [queries] SELECT or REPORT; None: all do both
    others: Relevance  # by all other splits

    @classmethod
    def of(cls, collection: Collection, split: str, config: Config) -> HeldOut:
        """Raises ValueError where the split is absent or empty, or one of its two folds would be."""
        queries = collection.asked(split)
        halves = None
        if config.data.dev_folds == 2 and split == config.data.dev_split:
            halves = folds((collection.query_ids[row] for row in queries.tolist()), config.seed)
            if len(np.unique(halves)) < 2:
                raise ValueError(
                    f"data.dev_folds=2 cannot share out the {len(queries)} queries of {split!r}: set it to 1"
                )
        others = _joined(other for name, other in collection.splits.items() if name != split)
        relevance = Relevance.of(others, collection.twins, own_documents=collection.own_documents)
        return cls(collection, queries, _judged(collection, split), config.evaluate.depth, halves, relevance)

    @classmethod
    def plain(cls, collection: Collection, split: str, depth: int) -> HeldOut:
        """For documents alone, all queries together. Raises ValueError where the split is absent or empty."""
        nothing = Relevance.of(_joined(()), collection.twins)
        return cls(collection, collection.asked(split), _judged(collection, split), depth, None, nothing)

    @cached_property
    def q2d_depth(self) -> int:
        """Documents to be searched for each query so that ``depth`` remain, as far as there are so many."""
        own = (self.collection.own_documents[self.queries] != NONE).any()
        return min(self.depth + int(own), len(self.collection.document_ids))

    def without_own(self, found: Neighbours) -> Neighbours:
        """[queries, q2d_depth] documents to the best ``depth`` that are not the query itself."""
        own = self.collection.own_documents[self.queries][:, None]
        kept = np.where(found.rows == own, NONE, found.rows)
        return best(found.scores, kept, min(self.depth, found.rows.shape[1]))

    @cached_property
    def documents(self) -> Rows:
        """The askers of queries, ascending."""
        return np.unique(self.qrels.documents)

    @cached_property
    def d2q_depth(self) -> int:
        """Queries to be searched for each document so that ``depth`` remain, as far as there are so many."""
        known = np.concatenate([self.others.distinct()[1], self.others.owned()[1]])  # first documents of each text
        of, counts = np.unique(known, return_counts=True)
        asked = np.isin(of, self.others.twins[self.documents])
        own = np.diff(self._by_document.offsets).max(initial=0) if self.halves is not None else 0
        return min(self.depth + int(counts[asked].max(initial=0) + own), len(self.collection.query_ids))

    def evaluate(
        self, found: Neighbours, asked: Neighbours | None = None, firsts: NDArray[np.int64] | None = None
    ) -> Evaluation:
        """found: [queries, depth] documents, ``without_own``; asked: [documents, d2q_depth] queries; firsts: [queries]
        places of the first answer, see ``coverage``.
        """
        ranked = ranking(self.collection, self.queries, found)
        metrics = self._q2d(ranked, firsts, None) | self._d2q(asked, None)
        if self.halves is not None:
            chosen = self._q2d(ranked, firsts, SELECT)
            reported = self._q2d(ranked, firsts, REPORT) | self._d2q(asked, REPORT)
            metrics |= {f"select_{name}": chosen[name] for name in chosen if name in SELECTING} | {
                f"report_{k}": v for k, v in reported.items()
            }
        return Evaluation(metrics, ranked, None if asked is None else self._named(asked, None))

    def _q2d(self, ranked: Ranking, firsts: NDArray[np.int64] | None, half: int | None) -> dict[str, float]:
        judged = judgements(self.collection, self._part(half))
        covered = {} if firsts is None else coverage(firsts if half is None else firsts[self.halves == half])
        return (measure(judged, ranked, self.depth, self.qrels.least) if judged else {}) | covered

    def _d2q(self, asked: Neighbours | None, half: int | None) -> dict[str, float]:
        if asked is None or not len(self.documents):
            return {}
        judged = reversed_judgements(self.collection, self._part(half))
        found = measure(judged, self._named(asked, half), self.depth, self.qrels.least)
        return {f"d2q_{name}": value for name, value in found.items()}

    def _named(self, asked: Neighbours, half: int | None) -> Ranking:
        """``depth`` queries of each document, without itself and those that other splits, or the other half, know."""
        keys = self.documents[:, None]
        known = self.others.covers(asked.rows, keys)  # [documents, d2q_depth]
        if half is not None:
            known |= self._part(1 - half).contains(asked.rows, keys)
        # A judgement of this split stands, whatever another one says of the same text.
        known &= ~self._part(half).contains(asked.rows, keys)
        kept = best(asked.scores, np.where(known, NONE, asked.rows), self.depth)
        return reversed_ranking(self.collection, self.documents, kept)

    def _part(self, half: int | None) -> Qrels:
        return self.qrels if half is None else self.qrels.subset(self.queries[self.halves == half])

    @cached_property
    def _by_document(self) -> Qrels:
        """The same pairs, documents as queries."""
        queries, documents = self.qrels.pairs()
        return Qrels.of(documents, queries, np.ones_like(queries))


def _judged(collection: Collection, split: str) -> Qrels:
    return collection.splits[split] if split in collection.splits else _joined(())


def _joined(splits: Iterable[Qrels]) -> Qrels:
    """The relevant pairs of several splits as one."""
    pairs = [np.empty((2, 0), np.int64), *(np.stack(split.pairs()) for split in splits)]
    queries, documents = np.unique(np.concatenate(pairs, axis=1), axis=1)
    return Qrels.of(queries, documents, np.ones_like(queries))
