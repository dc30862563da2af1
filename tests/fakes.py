"""Stand-ins that record, so that asynchronous order is asserted in one process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dance import config
from dance.exchange import Peer
from dance.paths import RunPaths


@dataclass
class FakeWorld:
    """Rank 0 of several; ``others`` is asked what the slowest other rank answers to each question."""

    others: list = field(default_factory=list)
    leads: bool = True
    asked: list = field(default_factory=list)

    def agree_min(self, values):
        self.asked.append(list(values))
        other = self.others.pop(0) if self.others else values
        return [min(pair) for pair in zip(values, other)]

    def from_rank(self, array, rank):
        return array


@dataclass
class FakeSubscriber:
    held: list  # what newest() answers, the last one for ever
    peers: Peer = field(default_factory=lambda: Peer(last_seen=0.0, phase="encode"))
    released: list = field(default_factory=list)
    where: str = "here"

    def newest(self):
        return self.held.pop(0) if len(self.held) > 1 else self.held[0]

    def peer(self):
        return self.peers

    def release(self, keep):
        self.released.append(set(keep))


@dataclass
class FakePublisher:
    said: list = field(default_factory=list)
    reading: set = field(default_factory=set)

    def announce(self, step, **facts):
        self.said.append((step, facts))

    def being_read(self):
        return self.reading


@dataclass
class FakeStop:
    requested: bool = False


class FakeContext:
    def __init__(self, folder: Path, **groups: Any) -> None:
        plain: dict[str, Any] = {
            "train": {"steps": 100, "batch": 2},
            "handover": {"every": 50},
            "refresh": {"fraction": 0.25},
            "evaluate": {"every": 100},
        }
        self.config = config.from_plain(plain | groups)
        self.world, self.paths = FakeWorld(), RunPaths(folder)
        self.events: list[str] = []
