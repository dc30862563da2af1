"""The sockets, and the only place that knows ZeroMQ. Each channel belongs to one thread.

What may be lost, and why that is safe:

    PUB→SUB        news beyond a few unread ones is discarded: the next heartbeat tells everything again
    DEALER→ROUTER  a request is dropped where nobody is connected or the queue is full: it is repeated
    ROUTER→DEALER  an answer is dropped where its reader left or does not read: it is asked for again

Nothing waits for a peer: sends never block, and closing lets go of all but the last news, for which
it allows half a second. A peer that vanished without a word is noticed by ZeroMQ's own pings, so that
a half-open connection is made anew. Messages have one part; parts of a stranger's are joined, and
refused by whoever decodes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import zmq
from zmq.utils import z85

from .endpoints import Endpoint, numeric
from .keys import Keys

_LAST_NEWS_MS = 500  # that closing may take to deliver what was said last
_PING_MS = 5_000  # between two pings of an idle connection
_QUEUE = 64  # messages per peer
_NEWS_BYTES = 1 << 20  # largest announcement accepted
_REQUEST_BYTES = 1 << 16  # largest request accepted
_ZAP = "inproc://zeromq.zap.01"  # where ZeroMQ asks who may come in


def draw_pair() -> tuple[str, str]:
    """A new CURVE pair: (public, secret) in Z85 text."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


class PublisherChannel:
    """PUB for news, ROUTER for files; both bound. Raises ValueError where the address is taken."""

    def __init__(self, endpoint: Endpoint, keys: Keys | None, bell: int) -> None:
        self._context = zmq.Context()
        self._keys = keys
        with _closing_on_error(self._context):
            self._gate = self._open_gate() if keys else None
            self._news = _socket(self._context, zmq.PUB, keys, server=True)
            self._news.linger = _LAST_NEWS_MS
            self._files = _socket(self._context, zmq.ROUTER, keys, server=True)
            self._files.set(zmq.MAXMSGSIZE, _REQUEST_BYTES)
            _bind(self._news, endpoint.news, endpoint)
            _bind(self._files, endpoint.files, endpoint)
        self._poller = _poller(bell, self._files, self._gate)

    def broadcast(self, frame: bytes) -> None:
        with suppress(zmq.Again):
            self._news.send(frame, zmq.NOBLOCK)

    def reply(self, reader: bytes, frame: bytes) -> None:
        with suppress(zmq.Again):
            self._files.send_multipart((reader, frame), zmq.NOBLOCK)

    def receive(self) -> tuple[bytes, bytes] | None:
        self._admit()
        try:
            reader, *parts = self._files.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        return reader, b"".join(parts)

    def wait(self, seconds: float) -> None:
        """Until a request comes, the bell rings or the time is over."""
        self._poller.poll(math.ceil(1000 * seconds))

    def close(self) -> None:
        self._context.destroy()

    def _open_gate(self) -> zmq.Socket[bytes]:
        gate = self._context.socket(zmq.REP)
        gate.linger = 0
        gate.bind(_ZAP)
        return gate

    def _admit(self) -> None:
        """Answer ZeroMQ's question (RFC 27) about every new connection: our own key, or out."""
        while self._gate is not None and self._gate.poll(0):
            version, request, _domain, _address, _identity, mechanism, *proof = self._gate.recv_multipart()
            assert self._keys is not None
            known = mechanism == b"CURVE" and proof == [z85.decode(self._keys.public)]
            verdict = (b"200", b"OK") if known else (b"400", b"unknown key")
            self._gate.send_multipart([version, request, *verdict, b"", b""])


class SubscriberChannel:
    """SUB for news, DEALER for files; both connect, now or whenever the publisher comes."""

    def __init__(self, endpoint: Endpoint, keys: Keys | None, chunk_bytes: int, bell: int) -> None:
        self._context = zmq.Context()
        with _closing_on_error(self._context):
            self._news = _socket(self._context, zmq.SUB, keys, server=False)
            self._news.set(zmq.MAXMSGSIZE, _NEWS_BYTES)
            self._news.subscribe(b"")
            self._files = _socket(self._context, zmq.DEALER, keys, server=False)
            self._files.set(zmq.MAXMSGSIZE, chunk_bytes + _REQUEST_BYTES)
            self._files.set(zmq.IMMEDIATE, 1)  # no queue for a publisher that is not there
            self._news.connect(endpoint.news)
            self._files.connect(endpoint.files)
        self._poller = _poller(bell, self._news, self._files)

    def ask(self, frame: bytes) -> None:
        with suppress(zmq.Again):
            self._files.send(frame, zmq.NOBLOCK)

    def receive(self) -> bytes | None:
        for source in (self._news, self._files):
            with suppress(zmq.Again):
                return b"".join(source.recv_multipart(zmq.NOBLOCK))
        return None

    def wait(self, seconds: float) -> None:
        """Until a frame comes, the bell rings or the time is over."""
        self._poller.poll(math.ceil(1000 * seconds))

    def close(self) -> None:
        self._context.destroy()


def _socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, keys: Keys | None, server: bool) -> zmq.Socket[bytes]:
    """A socket that never blocks its owner's exit and notices a dead line."""
    made = context.socket(kind)
    made.linger = 0
    made.set(zmq.SNDHWM, _QUEUE)
    made.set(zmq.RCVHWM, _QUEUE)
    made.set(zmq.IPV6, 1)
    made.set(zmq.TCP_KEEPALIVE, 1)
    made.set(zmq.HEARTBEAT_IVL, _PING_MS)
    made.set(zmq.HEARTBEAT_TIMEOUT, 3 * _PING_MS)
    made.set(zmq.HANDSHAKE_IVL, _PING_MS)
    made.set(zmq.RECONNECT_IVL, 100)
    made.set(zmq.RECONNECT_IVL_MAX, 2_000)
    if keys is not None:
        made.curve_publickey, made.curve_secretkey = keys.public.encode(), keys.secret.encode()
        if server:
            made.curve_server = True
        else:
            made.curve_serverkey = keys.public.encode()
    return made


def _bind(bound: zmq.Socket[bytes], address: str, endpoint: Endpoint) -> None:
    try:
        bound.bind(numeric(address))
    except zmq.ZMQError as error:
        raise ValueError(
            f"{endpoint.setting}: cannot listen at {address} ({error.strerror}). Is another run using it? "
            "Choose another port (PORT and PORT+1 must be free here), or auto"
        ) from None


def _poller(bell: int, *sockets: zmq.Socket[bytes] | None) -> zmq.Poller:
    poller = zmq.Poller()
    poller.register(bell, zmq.POLLIN)
    for each in sockets:
        if each is not None:
            poller.register(each, zmq.POLLIN)
    return poller


@contextmanager
def _closing_on_error(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        context.destroy(linger=0)
        raise
