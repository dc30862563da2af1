"""What stays the same between refreshes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from dance.config import Config
from dance.corpus.prepare import Prepared
from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance
from dance.encoder.embed import Interrupted
from dance.evaluation.held_out import HeldOut
from dance.learning.teaching import require_given
from dance.mining.mixing import shares
from dance.paths import RunPaths
from dance.progress import Reporter
from dance.stopping import Stop
from dance.world import World

T = TypeVar("T")


@dataclass
class Context:
    config: Config
    world: World
    paths: RunPaths
    prepared: Prepared
    reporter: Reporter
    stop: Stop

    def check(self) -> None:
        """What must be there for a refresh, before anything is computed. Raises ValueError."""
        config, collection = self.config, self.prepared.collection
        collection.split(config.data.train_split)
        assert self.held_out.queries is not None  # both folds have queries
        require_given(collection, config)

    @property
    def mines_documents(self) -> bool:
        return self.config.negatives.per_example > 0 and bool(shares(self.config))

    @property
    def asks_back(self) -> bool:
        """Whether the dual task wants mined queries."""
        return self.config.loss.dual_weight > 0 and self.config.negatives.queries_per_example > 0

    @property
    def mines_queries(self) -> bool:
        """Whether it has a source of them: the data gives none."""
        return self.asks_back and bool(shares(self.config).keys() - {"given", "former"})

    @property
    def searches_documents(self) -> bool:
        """Whether negatives are drawn from what the encoder finds."""
        return self.mines_documents and bool(shares(self.config).keys() & {"ann", "lookahead"})

    @property
    def groups_pairs(self) -> bool:
        """Whether the batches want groups of pairs."""
        return self.config.batches.how == "hard_groups"

    @property
    def compares_positives(self) -> bool:
        """Whether anything depends on the vectors of the documents that are relevant to the mined queries."""
        config = self.config
        margins = config.filters.margin is not None or config.filters.relative_margin is not None
        weighs = margins or config.draw.how == "simans" or config.draw.lookahead > 0
        groups = self.groups_pairs and config.batches.near == "positives"
        return (self.mines_documents and weighs) or self.mines_queries or groups

    @cached_property
    def qrels(self) -> Qrels:
        """What is learnt from."""
        return self.prepared.collection.splits[self.config.data.train_split]

    @cached_property
    def relevance(self) -> Relevance:
        return self.prepared.collection.relevance(self.config.data.train_split, self.config.filters.copies)

    @cached_property
    def held_out(self) -> HeldOut:
        return HeldOut.of(self.prepared.collection, self.config.data.dev_split, self.config)

    def blocks(self, count: int) -> Iterator[tuple[int, slice]]:
        """(rank that it falls to, place) of every block of ``count`` askers that are searched together."""
        size = self.config.encode.queries_per_search
        for number, start in enumerate(range(0, count, size)):
            yield number % self.world.size, slice(start, min(start + size, count))

    def tell(self, done: int) -> None:
        """Progress of the phase. Raises embed.Interrupted once a stop is asked for: for work inside ``together``."""
        self.reporter.update(done)
        if self.stop.requested:
            raise Interrupted

    def all_tell(self, done: int) -> None:
        """As ``tell``, a collective between two others: all ranks stop at the same place."""
        self.together(lambda: self.tell(done))

    def together(self, work: Callable[[], T]) -> T:
        """Each rank does its share; raises Interrupted at all of them if one was asked to stop.

        No rank leaves alone, since the others would wait for it in the next collective.
        """
        done: list[T] = []
        try:
            done.append(work())
        except Interrupted:
            pass
        if self.world.agree_min([len(done)]) == [0]:
            raise Interrupted
        return done[0]
