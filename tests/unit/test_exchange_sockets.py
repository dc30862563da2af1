"""Both ends on real sockets, in threads and processes of one machine."""

import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec
import pytest
import zmq

from dance import artefact
from dance.exchange import channel as channel_module
from dance.exchange import open_publisher, open_subscriber
from dance.exchange.channel import PublisherChannel, SubscriberChannel
from dance.exchange.endpoints import resolve
from dance.exchange.keys import make_keys
from dance.exchange.messages import MAGIC
from dance.exchange.publisher import Publisher
from dance.exchange.subscriber import Subscriber
from dance.paths import RunPaths
from tests.exchanging import KIND, free_port, publish, settings, until
from tests.proxy import Damage, proxy

ROOT = Path(__file__).parents[2]


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


ALONE = """
import sys, time
from pathlib import Path
from dance.exchange import open_publisher, open_subscriber
from dance.paths import RunPaths
from tests.exchanging import settings
config, paths = settings("{run}"), RunPaths(Path("{root}"))
with open_publisher(config, paths, "encoders") as publisher, open_subscriber(config, paths, "negatives"):
    publisher.announce(None, phase="wait")
    print("up", flush=True)
    {body}
"""


def start(code, **names):
    code = code.format(**names)
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("body", "interrupt", "code"),
    [("pass", False, 0), ("time.sleep(60)", True, 130), ("raise OSError", False, 1)],
)
def test_a04_a_process_without_a_peer_exits_at_once(body, interrupt, code, run_id, tmp_path):
    process = start(ALONE, run=f"{run_id}-{code}", root=tmp_path, body=body)
    assert process.stdout.readline() == "up\n"
    begun = time.monotonic()
    if interrupt:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=5)
    assert time.monotonic() - begun < 5
    assert process.returncode in (code, -signal.SIGINT if interrupt else code)


PUBLISHER = """
import time
from pathlib import Path
from dance.exchange import open_publisher
from dance.paths import RunPaths
from tests.exchanging import settings
config, paths = settings("{run}", negatives="{address}"), RunPaths(Path("{root}"))
with open_publisher(config, paths, "negatives") as publisher:
    publisher.announce({step}, phase="mine")
    print("up", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a07_a_stopped_and_a_killed_publisher_are_heard_again(transport, run_id, theirs, ours):
    address = "auto" if transport == "auto" else f"tcp://127.0.0.1:{free_port()}"
    names = {"run": run_id, "root": theirs.root, "address": address}
    config = settings(run_id, negatives=address)
    publish(theirs, 1)
    publish(theirs, 2, {"a": 3_000_000})
    with open_subscriber(config, ours, KIND) as subscriber:
        first = start(PUBLISHER, step=1, **names)
        try:
            until(lambda: subscriber.newest() == 1)
            first.send_signal(signal.SIGSTOP)
            until(lambda: subscriber.peer().last_seen > 0.6)
            first.send_signal(signal.SIGCONT)
            until(lambda: subscriber.peer().last_seen < 0.2)
        finally:
            first.kill()
            first.communicate()
        second = start(PUBLISHER, step=2, **names)
        try:
            until(lambda: subscriber.newest() == 2)
            assert subscriber.peer().restarts == 1
        finally:
            second.kill()
            second.communicate()


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


def nonsense():
    yield from (b"", b"\0" * 100, os.urandom(5000), pickle.dumps({"step": 9}), MAGIC, MAGIC + os.urandom(40))
    yield json.dumps({"step": 1, "text": "x" * 3_000_000}).encode()


def test_a09_nonsense_at_every_endpoint_is_counted_and_harms_nobody(run_id, theirs, ours, caplog):
    config = tcp(run_id)
    endpoint = resolve(config, KIND)
    publish(theirs, 1)
    with open_publisher(config, theirs, KIND) as publisher, open_subscriber(config, ours, KIND) as subscriber:
        with zmq.Context() as context, context.socket(zmq.DEALER) as stranger, context.socket(zmq.SUB) as listener:
            stranger.linger = 0
            stranger.connect(endpoint.files)
            listener.connect(endpoint.news)
            for frame in nonsense():
                stranger.send(frame)
                stranger.send_multipart([frame, b"", frame])
            until(lambda: publisher._door.garbled >= 6)
        for address in (endpoint.news, endpoint.files):
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as raw:
                raw.sendall(os.urandom(1000))
        publisher.announce(1)
        until(lambda: subscriber.newest() == 1)
    assert sum("no message" in record.message for record in caplog.records) <= 1


def test_a09_a_publisher_that_talks_nonsense_is_not_believed(run_id, ours):
    config = tcp(run_id)
    endpoint = resolve(config, KIND)
    *short, long = nonsense()
    with zmq.Context() as context, context.socket(zmq.PUB) as news, open_subscriber(config, ours, KIND) as subscriber:
        news.linger = 0
        news.bind(endpoint.news)

        def shout(count):
            for frame in short:
                news.send(frame)
            return subscriber._door.garbled >= count

        until(lambda: shout(20))
        news.send(long)  # over the limit of a message: ZeroMQ drops the line and makes it anew
        before = subscriber._door.garbled
        until(lambda: shout(before + 20))
        assert subscriber.newest() is None and subscriber.peer().last_seen is None


def test_a14_messages_of_another_run_on_the_same_address_are_dropped(run_id, theirs, ours, caplog):
    config = tcp(run_id)
    publish(theirs, 7)
    former = msgspec.structs.replace(config, run_id="former")
    with open_publisher(former, theirs, KIND) as publisher, open_subscriber(config, ours, KIND) as subscriber:
        publisher.announce(7)
        with caplog.at_level(logging.WARNING):
            until(lambda: subscriber._door.foreign >= 3)
        assert subscriber.newest() is None and subscriber.peer().step is None
    assert len(caplog.records) == 1


def test_c05_a_second_publisher_of_a_run_is_refused_rather_than_stealing_the_socket(run_id, theirs):
    config = settings(run_id)
    with (
        open_publisher(config, theirs, KIND),
        pytest.raises(ValueError, match=r"exchange.negatives=auto: .* publishes"),
        open_publisher(config, theirs, KIND),
    ):
        pass
    with open_publisher(config, theirs, KIND):
        pass


def test_c05_a_port_in_use_names_the_option(run_id, theirs):
    config = tcp(run_id)
    refused = pytest.raises(ValueError, match=r"exchange.negatives=tcp://.*cannot listen .* Choose another port")
    with open_publisher(config, theirs, KIND), refused, open_publisher(config, theirs, KIND):
        pass
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(resolve(config, KIND).files.rpartition(":")[2])))
        with pytest.raises(ValueError, match="PORT\\+1 must be free"), open_publisher(config, theirs, KIND):
            pass


def test_c05_two_runs_at_once_on_one_machine(run_id, tmp_path):
    with ExitStack() as stack:
        for name in ("x", "y"):
            config, paths = settings(run_id + name), RunPaths(tmp_path / name)
            publish(paths, ord(name))
            stack.enter_context(open_publisher(config, paths, KIND)).announce(ord(name))
            subscriber = stack.enter_context(open_subscriber(config, paths, KIND))
            until(lambda: subscriber.newest() == ord(name))  # noqa: B023


def test_keys_let_ours_in_and_keep_wrong_and_plain_ones_out(run_id, theirs, tmp_path):
    for name in ("good", "wrong"):
        make_keys(tmp_path / name)
    plain = tcp(run_id)

    def with_keys(name):
        return msgspec.structs.replace(
            plain, exchange=msgspec.structs.replace(plain.exchange, keys=str(tmp_path / name))
        )

    publish(theirs, 1, {"a": 200_000})
    with ExitStack() as stack:
        stack.enter_context(open_publisher(with_keys("good"), theirs, KIND)).announce(1)
        good, wrong, none = (
            stack.enter_context(open_subscriber(config, RunPaths(tmp_path / name / "run"), KIND))
            for name, config in (("good", with_keys("good")), ("wrong", with_keys("wrong")), ("none", plain))
        )
        until(lambda: good.newest() == 1)
        time.sleep(0.3)
        assert wrong.peer().last_seen is None and none.peer().last_seen is None


def test_a_client_that_only_knows_the_public_key_is_kept_out(run_id, theirs, tmp_path):
    from dance.exchange.channel import draw_pair
    from dance.exchange.keys import load_keys

    make_keys(tmp_path / "keys")
    config = tcp(run_id, keys=str(tmp_path / "keys"))
    public, secret = draw_pair()
    with open_publisher(config, theirs, KIND), zmq.Context() as context, context.socket(zmq.SUB) as listener:
        listener.curve_publickey, listener.curve_secretkey = public.encode(), secret.encode()
        listener.curve_serverkey = load_keys(tmp_path / "keys").public.encode()
        listener.subscribe(b"")
        listener.connect(resolve(config, KIND).news)
        assert listener.poll(500) == 0


@pytest.mark.parametrize("at", [2, 66, 500, 150_000, 250_000])
def test_a_chunk_corrupted_on_the_way_is_fetched_again(at, run_id, theirs, ours):
    """A byte flipped in the stream, wherever it hits: a payload, a frame's head or ZeroMQ's own framing."""
    config = tcp(run_id, chunk_bytes=20_000)
    port, middle = int(resolve(config, KIND).news.rpartition(":")[2]), free_port()
    damaged = msgspec.structs.replace(
        config, exchange=msgspec.structs.replace(config.exchange, negatives=f"tcp://127.0.0.1:{middle}")
    )
    publish(theirs, 1, {"a": 400_000})
    damage = Damage(at)
    with (
        proxy(middle, port),
        proxy(middle + 1, port + 1, damage),
        open_publisher(config, theirs, KIND) as publisher,
        open_subscriber(damaged, ours, KIND) as subscriber,
    ):
        publisher.announce(1)
        until(lambda: subscriber.newest() == 1, 20)
        assert damage.done
        artefact.verify(subscriber.path(), contents=True)


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


def test_one_thread_makes_uses_and_closes_each_socket(run_id, theirs):
    """A08: the threads that touch a channel are counted by a channel that records them."""
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
