"""Both ends on real sockets, in threads of one process."""

import os
import socket
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from dance import artefact
from dance.exchange import channel as channel_module
from dance.exchange import open_publisher, open_subscriber
from dance.exchange.channel import PublisherChannel, SubscriberChannel
from dance.exchange.endpoints import resolve
from dance.exchange.publisher import Publisher
from dance.exchange.subscriber import Subscriber
from dance.paths import RunPaths
from tests.exchanging import KIND, free_port, publish, settings, until


@pytest.fixture
def run_id(request):
    """Unique to a test, so that they may run side by side."""
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
def theirs(tmp_path):
    return RunPaths(tmp_path / "theirs")


@pytest.fixture
def ours(tmp_path):
    return RunPaths(tmp_path / "ours")


def tcp(run_id, **more):
    return settings(run_id, negatives=f"tcp://127.0.0.1:{free_port()}", **more)


@pytest.mark.parametrize("transport", [settings, tcp])
def test_an_artefact_crosses_between_two_disks(transport, run_id, theirs, ours):
    config = transport(run_id, chunk_bytes=10_000)
    path = publish(theirs, 3, {"a": 123_456, "b/c": 1, "empty": 0})
    with open_subscriber(config, ours, KIND) as subscriber, open_publisher(config, theirs, KIND) as publisher:
        publisher.announce(3, phase="mine")
        until(lambda: subscriber.newest() == 3)
        assert artefact.verify(subscriber.path(), contents=True) == artefact.read_manifest(path)
        assert publisher.being_read() == {3}


def test_a01_either_may_be_first_and_either_may_come_back(run_id, theirs):
    config = settings(run_id)
    publish(theirs, 1)
    with open_publisher(config, theirs, KIND) as publisher:
        publisher.announce(1)  # right after bind, with nobody there
        time.sleep(0.2)
        for _ in range(2):
            with open_subscriber(config, theirs, KIND) as subscriber:
                assert until(lambda: subscriber.newest() == 1) < 2  # noqa: B023
    with open_subscriber(config, theirs, KIND) as subscriber:
        time.sleep(0.2)
        for step in (2, 3):
            publish(theirs, step)
            with open_publisher(config, theirs, KIND) as publisher:
                publisher.announce(step)
                until(lambda: subscriber.newest() == step)  # noqa: B023
        assert subscriber.peer().restarts == 1


@pytest.mark.slow
def test_a02_a_reader_that_sleeps_behind_tiny_queues_gets_every_chunk(run_id, theirs, ours, monkeypatch):
    monkeypatch.setattr(channel_module, "_QUEUE", 2)
    config = tcp(run_id, chunk_bytes=10_000)
    publish(theirs, 1, {"a": 10_000 * 300})
    with open_publisher(config, theirs, KIND) as publisher:
        publisher.announce(1)
        subscriber = Subscriber(run_id, KIND, ours, config.exchange)
        mine = SubscriberChannel(resolve(config, KIND), None, 10_000, 5.0, socket.socketpair()[0].fileno())
        deadline = time.monotonic() + 30
        while subscriber.newest() is None and time.monotonic() < deadline:
            mine.wait(0.1)
            subscriber.turn(mine)
            time.sleep(0.003)
        mine.close()
    artefact.verify(ours.received(KIND, 1), contents=True)


def test_a03_two_readers_both_end_with_the_newest(run_id, theirs, tmp_path):
    config = settings(run_id)
    with ExitStack() as stack:
        publisher = stack.enter_context(open_publisher(config, theirs, KIND))
        readers = [
            stack.enter_context(open_subscriber(config, RunPaths(tmp_path / name), KIND)) for name in ("one", "two")
        ]
        for step in range(5):
            publish(theirs, step)
            publisher.announce(step)
        until(lambda: all(reader.newest() == 4 for reader in readers))
        for reader in readers:
            artefact.verify(reader.path(), contents=True)


def test_a04_the_last_notice_is_delivered_although_the_publisher_closes_at_once(run_id, theirs):
    config = settings(run_id, heartbeat_seconds=30.0)
    with open_subscriber(config, theirs, KIND) as subscriber:
        with open_publisher(config, theirs, KIND) as publisher:
            until(lambda: publisher.announce(None, phase="wait") or subscriber.peer().phase == "wait")
            publisher.announce(None, finished=True)
        until(lambda: subscriber.peer().finished, 2)


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def cycle(config, paths, times):
    for step in range(times):
        with open_publisher(config, paths, KIND) as publisher, open_subscriber(config, paths, KIND) as subscriber:
            publisher.announce(None, phase=str(step))
            subscriber.newest()


def test_a08_opened_and_closed_many_times_nothing_is_left(run_id, theirs):
    cycle(settings(run_id), theirs, 2)
    threads, files = threading.active_count(), open_files()
    cycle(settings(run_id), theirs, 20)
    assert threading.active_count() == threads
    assert open_files() <= files
    assert not list(resolve(settings(run_id), KIND).lock.parent.glob(resolve(settings(run_id), KIND).lock.stem + "*"))


@pytest.mark.slow
def test_a08_two_hundred_clean_exits(run_id, theirs):
    cycle(tcp(run_id), theirs, 100)
    cycle(settings(run_id), theirs, 100)


def test_a08_any_thread_may_announce(run_id, theirs):
    config = settings(run_id)
    with open_publisher(config, theirs, KIND) as publisher, open_subscriber(config, theirs, KIND) as subscriber:
        savers = [
            threading.Thread(target=lambda: [publisher.announce(None, phase="save") for _ in range(200)])
            for _ in range(4)
        ]
        for saver in savers:
            saver.start()
        for saver in savers:
            saver.join()
        publisher.announce(None, phase="done")
        until(lambda: subscriber.peer().phase == "done")


def test_what_kills_the_thread_reaches_the_role(run_id, theirs, ours):
    config = settings(run_id)
    ours.root.mkdir()
    (ours.root / "received").write_text("in the way")
    publish(theirs, 1)
    with open_publisher(config, theirs, KIND) as publisher, open_subscriber(config, ours, KIND) as subscriber:
        publisher.announce(1)

        def stopped():
            try:
                subscriber.newest()
            except RuntimeError as error:
                return "subscriber to negatives stopped" in str(error)

        until(stopped)


def test_a13_the_place_to_look_is_named(run_id, theirs):
    config = tcp(run_id)
    with open_subscriber(config, theirs, KIND) as subscriber:
        assert subscriber.where.startswith(config.exchange.negatives) and "exchange.negatives" in subscriber.where


def test_a08_one_thread_makes_uses_and_closes_each_socket(run_id, theirs):
    """The threads that touch a channel are counted by a channel that records them."""
    seen = set()

    class Recording(PublisherChannel):
        def __getattribute__(self, name):
            seen.add(threading.get_ident())
            return super().__getattribute__(name)

    from dance.exchange.worker import Worker

    worker = Worker("test")
    publisher = Publisher(run_id, KIND, partial(theirs.published, KIND), 0.05, wake=worker.wake)
    with worker.running(partial(Recording, resolve(settings(run_id), KIND), None), publisher):
        publisher.announce(None, phase="x")
        time.sleep(0.1)
    assert len(seen) == 1 and threading.get_ident() not in seen
