"""Real sockets that others reach too: nonsense, other runs, taken addresses, keys, bytes damaged on the way."""

import json
import logging
import os
import pickle
import socket
import time
from contextlib import ExitStack

import msgspec
import pytest
import zmq

from dance import artefact
from dance.exchange import open_publisher, open_subscriber
from dance.exchange.endpoints import resolve
from dance.exchange.keys import make_keys
from dance.exchange.messages import MAGIC
from dance.paths import RunPaths
from tests.exchanging import KIND, free_port, publish, settings, until
from tests.proxy import Damage, proxy


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


@pytest.mark.slow
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


@pytest.mark.parametrize("at", [2, pytest.param(66, marks=pytest.mark.slow), 500, 150_000, 250_000])
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
