"""A network and a clock of our own: frames are lost, repeated, overtaken and damaged as a seed says."""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass, field


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Network:
    """``loss``, ``repeat`` and ``damage`` are probabilities per frame, ``spread`` its longest delay in seconds."""

    clock: Clock
    seed: int = 0
    loss: float = 0.0
    repeat: float = 0.0
    damage: float = 0.0
    spread: float = 0.0
    subscribers: dict[bytes, SubscriberEnd] = field(default_factory=dict)
    lost: int = 0
    damaged: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.count = itertools.count()
        self.publisher = PublisherEnd(self)

    def subscriber(self) -> SubscriberEnd:
        name = b"reader-%d" % next(self.count)
        self.subscribers[name] = SubscriberEnd(self, name)
        return self.subscribers[name]

    def send(self, inbox: list, *frame: bytes) -> None:
        if self.random.random() < self.loss:
            self.lost += 1
            return
        for _ in range(2 if self.random.random() < self.repeat else 1):
            at = self.clock.now + self.random.random() * self.spread
            heapq.heappush(inbox, (at, next(self.count), *frame[:-1], self._maybe_damaged(frame[-1])))

    def _maybe_damaged(self, frame: bytes) -> bytes:
        if self.random.random() >= self.damage:
            return frame
        self.damaged += 1
        bad = bytearray(frame)
        bad[self.random.randrange(len(bad))] ^= 1 << self.random.randrange(8)
        return bytes(bad)

    def take(self, inbox: list) -> tuple | None:
        if not inbox or inbox[0][0] > self.clock.now:
            return None
        return heapq.heappop(inbox)[2:]


class PublisherEnd:
    def __init__(self, network: Network) -> None:
        self._network = network
        self.inbox: list = []

    def broadcast(self, frame: bytes) -> None:
        for each in self._network.subscribers.values():
            self._network.send(each.inbox, frame)

    def reply(self, reader: bytes, frame: bytes) -> None:
        if reader in self._network.subscribers:
            self._network.send(self._network.subscribers[reader].inbox, frame)

    def receive(self) -> tuple[bytes, bytes] | None:
        return self._network.take(self.inbox)


class SubscriberEnd:
    def __init__(self, network: Network, name: bytes) -> None:
        self._network = network
        self._name = name
        self.inbox: list = []

    def ask(self, frame: bytes) -> None:
        self._network.send(self._network.publisher.inbox, self._name, frame)

    def receive(self) -> bytes | None:
        taken = self._network.take(self.inbox)
        return None if taken is None else taken[0]
