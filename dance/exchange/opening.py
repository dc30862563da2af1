"""Puts the two ends on sockets and a thread: what the roles call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ..config import Config
from ..paths import Kind, RunPaths
from ..stopping import Locked, hold_lock
from .channel import PublisherChannel, SubscriberChannel
from .endpoints import Endpoint, resolve
from .keys import Keys, load_keys
from .publisher import Publisher
from .subscriber import Subscriber
from .worker import Worker

_DEAD_BEATS, _DEAD_SECONDS = 10, 2.0  # a line that is silent for the longer of both is made anew


@contextmanager
def open_publisher(config: Config, paths: RunPaths, kind: Kind) -> Iterator[Publisher]:
    """The one publisher of ``kind`` in this run. The artefact of a step lies at ``paths.published``.

    Raises ValueError where the address is taken or not allowed.
    """
    run, endpoint, keys = _run_id(config), resolve(config, kind), _keys(config)
    worker: Worker[PublisherChannel] = Worker(f"publisher of {kind}")
    locate = partial(paths.published, kind)
    beat = config.exchange.heartbeat_seconds
    publisher = Publisher(run, kind, locate, beat, wake=worker.wake, check=worker.check)
    with _alone(endpoint), worker.running(partial(PublisherChannel, endpoint, keys), publisher):
        yield publisher


@contextmanager
def open_subscriber(config: Config, paths: RunPaths, kind: Kind, reached: int | None = None) -> Iterator[Subscriber]:
    """A subscriber to ``kind``, owner of ``paths.received(kind, ...)``; the publisher may come later.

    ``reached``: the step that this role is at, where it makes steps itself; to be kept up to date.
    Raises ValueError where the address is not allowed.
    """
    run, endpoint, keys = _run_id(config), resolve(config, kind), _keys(config)
    worker: Worker[SubscriberChannel] = Worker(f"subscriber to {kind}")
    where = str(endpoint)
    subscriber = Subscriber(run, kind, paths, config.exchange, where, reached, check=worker.check)
    quiet = max(_DEAD_BEATS * config.exchange.heartbeat_seconds, _DEAD_SECONDS)
    channel = partial(SubscriberChannel, endpoint, keys, config.exchange.chunk_bytes, quiet)
    with worker.running(channel, subscriber):
        yield subscriber


def _run_id(config: Config) -> str:
    assert config.run_id, "the launcher draws run_id before any role starts"
    return config.run_id


def _keys(config: Config) -> Keys | None:
    return None if config.exchange.keys is None else load_keys(Path(config.exchange.keys))


@contextmanager
def _alone(endpoint: Endpoint) -> Iterator[None]:
    """Hold the lock of a local endpoint: the system would let a second publisher take it in silence."""
    if endpoint.lock is None:
        yield
        return
    try:
        handle = hold_lock(endpoint.lock)
    except Locked:
        raise ValueError(
            f"{endpoint.setting}: a process of this run already publishes at {endpoint.news}; see `dance status`"
        ) from None
    try:
        yield
    finally:
        for leftover in (endpoint.news, endpoint.files):
            Path(leftover.removeprefix("ipc://")).unlink(missing_ok=True)
        endpoint.lock.unlink(missing_ok=True)  # still held, so that nobody has bound here since
        os.close(handle)
