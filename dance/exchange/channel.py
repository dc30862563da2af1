"""The sockets, and the only place that knows ZeroMQ. Each channel belongs to one thread.

What may be lost, and why that is safe:

    PUB→SUB        news beyond a few unread ones is discarded: the next heartbeat tells everything again
    DEALER→ROUTER  a request is dropped where nobody is connected or the queue is full: it is repeated
    ROUTER→DEALER  an answer is dropped where its reader left or does not read: it is asked for again

Nothing waits for a peer: sends never block, and closing lets go of all but the last news, for which
it allows half a second. A peer that vanished without a word is noticed by ZeroMQ's own pings, a line
that died for good by its silence; both are made anew. Messages have one part; parts of a stranger's are
joined, and refused by whoever decodes them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import zmq
from zmq.utils import z85

from .endpoints import Endpoint, numeric
from .keys import Keys

_LAST_NEWS_MS = 500  # that closing may take to deliver what was said last
_PING_MS = 5_000  # between two pings of an idle connection
_LONGEST_QUIET = 120.0  # seconds of silence, at most, that a line is given
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

    def __init__(
        self, endpoint: Endpoint, keys: Keys | None, chunk_bytes: int, quiet_seconds: float, bell: int
    ) -> None:
        """``quiet_seconds``: silence after which a line counts as dead and is made anew."""
        self._context = zmq.Context()
        self._poller = _poller(bell)

        def open_news() -> zmq.Socket[bytes]:
            news = _socket(self._context, zmq.SUB, keys, server=False)
            news.set(zmq.MAXMSGSIZE, _NEWS_BYTES)
            news.subscribe(b"")
            news.connect(endpoint.news)
            return news

        def open_files() -> zmq.Socket[bytes]:
            files = _socket(self._context, zmq.DEALER, keys, server=False)
            files.set(zmq.MAXMSGSIZE, chunk_bytes + _REQUEST_BYTES)
            files.set(zmq.IMMEDIATE, 1)  # no queue for a publisher that is not there
            files.connect(endpoint.files)
            return files

        with _closing_on_error(self._context):
            self._news = _Line(open_news, self._poller, quiet_seconds)
            self._files = _Line(open_files, self._poller, quiet_seconds)
        self._news.expect()

    def ask(self, frame: bytes) -> None:
        self._files.expect()
        with suppress(zmq.Again):
            self._files.socket.send(frame, zmq.NOBLOCK)

    def receive(self) -> bytes | None:
        for line in (self._news, self._files):
            with suppress(zmq.Again):
                frame = b"".join(line.socket.recv_multipart(zmq.NOBLOCK))
                line.heard()
                return frame
        self._news.expect()
        return None

    def wait(self, seconds: float) -> None:
        """Until a frame comes, the bell rings or the time is over."""
        for line in (self._news, self._files):
            line.renew_if_dead()
        self._poller.poll(math.ceil(1000 * seconds))

    def close(self) -> None:
        self._context.destroy()


class _Line:
    """A connected socket that is made anew where something is expected and nothing comes.

    ZeroMQ connects again when a line breaks, but gives it up for good, in silence, when a frame on it
    was broken. A line that is only slow must not lose its turn again and again: patience doubles.
    """

    def __init__(self, make: Callable[[], zmq.Socket[bytes]], poller: zmq.Poller, quiet_seconds: float) -> None:
        self.socket = make()
        self._make = make
        self._poller = poller
        self._patience = quiet_seconds
        self._since: float | None = None  # when what is expected began to be so
        poller.register(self.socket, zmq.POLLIN)

    def expect(self) -> None:
        if self._since is None:
            self._since = time.monotonic()

    def heard(self) -> None:
        self._since = None

    def renew_if_dead(self) -> None:
        if self._since is None or time.monotonic() - self._since < self._patience:
            return
        self._patience = min(2 * self._patience, _LONGEST_QUIET)
        self._since = None
        self._poller.unregister(self.socket)
        self.socket.close(linger=0)
        self.socket = self._make()
        self._poller.register(self.socket, zmq.POLLIN)


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
