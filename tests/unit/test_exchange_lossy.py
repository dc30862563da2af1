"""Both ends under a network that loses, repeats, overtakes and damages, on a clock of our own.

Whatever happens: the newest step of one subscriber only grows, what it names is complete, and once
the roles are left alone the subscriber has what the publisher announces.
"""

import itertools
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dance import artefact
from dance.exchange.publisher import Publisher
from dance.exchange.subscriber import Subscriber
from dance.paths import RunPaths, step_name, steps
from tests.exchanging import KIND, publish, settings
from tests.lossy import Clock, Network

TURN = 0.1  # seconds of the clock per turn
BEAT = 1.0
_boots = itertools.count(1)


class World:
    """A publisher and a subscriber, each with a disk of its own, and what may befall them."""

    def __init__(self, root: Path, shared: bool = False, **network: float) -> None:
        self.clock = Clock()
        self.network = Network(self.clock, **network)
        self.theirs = RunPaths(root / "theirs")
        self.ours = self.theirs if shared else RunPaths(root / "ours")
        self.made = self.adopted = None
        self.adoptions = []
        self.frozen_until = 0.0
        self.start_publisher()
        self.start_subscriber()

    def start_publisher(self) -> None:
        """A new process on the same endpoint: the queue of the former is gone."""
        self.network.publisher.inbox.clear()
        self.publisher = Publisher("run", KIND, lambda step: self.theirs.published(KIND, step), BEAT, clock=self.clock)
        self.publisher._state = msgspec.structs.replace(self.publisher._state, boot=next(_boots))
        if self.made is not None:
            self.publisher.announce(self.made)

    def start_subscriber(self) -> None:
        self.network.subscribers.clear()
        self.end = self.network.subscriber()
        exchange = settings(heartbeat_seconds=BEAT, chunk_bytes=64).exchange
        self.subscriber = Subscriber("run", KIND, self.ours, exchange, clock=self.clock)
        self.adopted = None

    def publish(self) -> None:
        self.made = 0 if self.made is None else self.made + 1
        publish(self.theirs, self.made, {"a": 64 * 20 + 7, "b/c": 64, "empty": 0, "d": 1})
        self.publisher.announce(self.made)

    def restart_behind(self) -> None:
        """The publisher resumes from an earlier step and makes the later ones again, other ones."""
        if self.made:
            artefact.remove(self.theirs.published(KIND, self.made))
            self.made -= 1
            if not (self.theirs.published(KIND, self.made) / artefact.MANIFEST).is_file():
                publish(self.theirs, self.made, {"a": 500}, salt=next(_boots))
            self.start_publisher()

    def freeze(self) -> None:
        self.frozen_until = self.clock() + 30  # as by SIGSTOP

    def prune(self) -> None:
        needed = self.publisher.being_read()
        for step in steps(self.theirs.negatives)[:-1]:
            if step not in needed:
                artefact.remove(self.theirs.published(KIND, step))

    def release(self) -> None:
        self.subscriber.release(set())

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / TURN)):
            self.turn()

    def turn(self) -> None:
        self.clock.now += TURN
        if self.clock() > self.frozen_until:
            self.publisher.turn(self.network.publisher)
        self.subscriber.turn(self.end)
        self.check()

    def check(self) -> None:
        newest = self.subscriber.newest()
        if newest == self.adopted:
            return
        assert self.adopted is None or newest > self.adopted
        artefact.verify(self.subscriber.path(), contents=True)
        assert self.subscriber.path().name == step_name(newest)
        self.adopted = newest
        self.adoptions.append(newest)

    def settle(self, limit: float = 3_000) -> float:
        """Seconds of the clock until the subscriber has what is announced, or newer."""
        start = self.clock()
        while self.made is not None and (self.adopted is None or self.adopted < self.made):
            assert self.clock() - start < limit, f"{self.subscriber.peer()} after {limit} s"
            self.turn()
        return self.clock() - start


@pytest.fixture(autouse=True)
def no_disk_flush(monkeypatch):
    """What a test writes need not survive a power cut."""
    monkeypatch.setattr(artefact.os, "fsync", lambda handle: None)


ACTIONS = ["publish", "start_publisher", "start_subscriber", "restart_behind", "freeze", "prune", "release"]


@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32),
    actions=st.lists(st.tuples(st.sampled_from([*ACTIONS, "publish"]), st.integers(0, 30)), max_size=12),
    shared=st.booleans(),
)
def test_whatever_happens_steps_only_grow_and_nothing_incomplete_is_seen(seed, actions, shared):
    root = Path(tempfile.mkdtemp())
    try:
        world = World(root, shared, seed=seed, loss=0.5, repeat=0.3, damage=0.1, spread=2.0)
        for name, pause in actions:
            getattr(world, name)()
            world.run(pause / 5)
        world.settle()
    finally:
        shutil.rmtree(root)


def test_half_of_the_frames_lost_repeated_and_reordered_every_artefact_still_comes(tmp_path):
    world = World(tmp_path, seed=1, loss=0.5, repeat=0.5, spread=1.5)
    for _ in range(5):
        world.publish()
        world.settle()
    assert world.adoptions == [0, 1, 2, 3, 4]
    assert world.network.lost > 50


def test_a01_a_late_joiner_hears_within_a_heartbeat(tmp_path):
    world = World(tmp_path, shared=True)
    world.publish()
    world.run(10)
    world.start_subscriber()
    assert world.settle() <= BEAT + TURN


def test_a01_the_subscriber_may_be_first(tmp_path):
    world = World(tmp_path, shared=True)
    world.run(10)
    assert world.subscriber.newest() is None
    world.publish()
    assert world.settle() <= BEAT + TURN


def test_a_corrupted_chunk_is_fetched_again(tmp_path):
    world = World(tmp_path, seed=3)
    world.publish()
    world.run(0.3)
    world.network.damage = 0.5
    world.run(2)
    world.network.damage = 0.0
    world.settle()
    assert world.network.damaged > 0
    assert world.subscriber._door.garbled > 0


def test_a_fetch_goes_on_where_it_was_when_the_publisher_comes_back(tmp_path):
    world = World(tmp_path)
    publish(world.theirs, 0, {"big": 64 * 400})
    world.made = 0
    world.publisher.announce(0)
    world.run(2)
    before = world.subscriber._fetch.received
    world.start_publisher()
    asked_before = _requests(world)
    world.settle(60)
    assert 64 * 100 < before < 64 * 400
    assert _requests(world) - asked_before < 400 - before // 64 + 30


def _requests(world) -> int:
    """Pieces asked for so far, about: half of the frames sent."""
    return next(world.network.count) // 2


def test_a_slow_line_is_not_starved_by_ever_newer_steps(tmp_path):
    """A fetch once begun is finished: news that come faster than files do not start it over."""
    world = World(tmp_path, seed=5, loss=0.1, spread=0.2)
    for _ in range(60):
        world.publish()
        world.prune()
        world.run(1.5)
    assert len(world.adoptions) >= 3
    assert len(world.adoptions) < 50


def test_a07_a_frozen_publisher_falls_silent_and_is_heard_again(tmp_path):
    world = World(tmp_path)
    world.publish()
    world.settle()
    world.freeze()
    world.run(29)
    assert world.subscriber.peer().last_seen == pytest.approx(29, abs=1.5)
    assert world.subscriber.newest() == 0  # goes on with what it has
    world.run(2)
    assert world.subscriber.peer().last_seen < 2
    world.publish()
    assert world.settle() < 10


def test_our_own_pause_is_not_held_against_the_peer(tmp_path):
    world = World(tmp_path)
    world.publish()
    world.settle()
    world.clock.now += 5_000
    world.subscriber.turn(world.end)
    assert world.subscriber.peer().last_seen <= 4 * BEAT


def test_a14_nothing_of_another_run_is_adopted(tmp_path):
    world = World(tmp_path)
    world.publisher._state = world.publisher._state.__class__(run="former", kind=KIND, boot=1, sequence=0)
    world.publish()
    world.run(30)
    assert world.subscriber.newest() is None
    assert world.subscriber.peer().last_seen is None
    assert not world.ours.root.exists()


def test_what_is_being_fetched_counts_as_being_read(tmp_path):
    world = World(tmp_path)
    world.publish()
    assert world.publisher.being_read() == set()
    world.run(1)
    assert world.publisher.being_read() == {0}
    world.settle()
    world.run(61)
    assert world.publisher.being_read() == set()
