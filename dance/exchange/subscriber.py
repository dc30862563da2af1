"""The subscribing end of one kind: hears what is newest and has it on this disk, complete.

    announced step is newer ──> on this disk with the announced digest? ── yes ──> it is the newest
                                      │ no
                                      └──> fetch into received/, verify, rename ──┘

The machines of a role may share the run folder: each fetches, sweeps and removes in a folder of its own.

A role asks ``newest``; the thread that owns the channel calls ``turn``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from .. import artefact
from ..config import Exchange
from ..paths import Kind, RunPaths, step_name, steps
from .door import Door
from .hearing import Hearing, Peer
from .messages import Announcement, Chunk, Offer, Refusal, Want, encode
from .transfer import Fetch, is_offered

_BURST = 64  # frames taken in one turn
_RETURN_BEATS = 5  # heartbeats of silence after which a publisher is welcomed back

log = logging.getLogger(__name__)


class Channel(Protocol):
    """What a subscriber needs of its sockets. Every verb may lose what it is given."""

    def ask(self, frame: bytes) -> None: ...
    def receive(self) -> bytes | None:
        """The next frame, news or answer, or None; never waits."""


def _nothing() -> None: ...


class Subscriber:
    def __init__(
        self,
        run: str,
        kind: Kind,
        paths: RunPaths,
        exchange: Exchange,
        where: str = "",
        reached: int | None = None,
        check: Callable[[], None] = _nothing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``where`` the publisher is to be found, for messages; ``check`` raises what made the thread die."""
        self.where = where
        self.reached = reached
        self._run = run
        self._kind = kind
        self._paths = paths
        self._folder = paths.received(kind, 0).parent
        self._beat = exchange.heartbeat_seconds
        self._chunk_bytes = exchange.chunk_bytes
        self._check = check
        self._clock = clock
        self._door = Door(run, kind)
        self._hearing = Hearing(self._beat)
        self._newest: tuple[int, Path] | None = None
        self._fetch: Fetch | None = None
        self._trouble: dict[str, str] = {}  # digest -> why it could not be had
        self._hopeless: set[str] = set()  # digests that are not to be tried again
        artefact.sweep(self._folder)

    # -- for the role, from any thread -------------------------------------------------------

    # The step that the role itself has come to: what is announced beyond it is of a future that a resume
    # went back from, and is not taken. None has no such limit.
    reached: int | None

    def newest(self) -> int | None:
        """Newest step complete on this disk; never goes back. Raises RuntimeError if the exchange stopped."""
        self._check()
        return None if self._newest is None else self._newest[0]

    def path(self) -> Path | None:
        """Folder of the newest step: the publisher's own, or our copy."""
        return None if self._newest is None else self._newest[1]

    def peer(self) -> Peer:
        """What the other role last said. Raises RuntimeError if the exchange stopped."""
        self._check()
        return self._hearing.peer(self._fetching())

    def release(self, keep: set[int]) -> None:
        """Remove our copies of steps that are older than the newest and not to be kept."""
        newest = self.newest()
        for step in steps(self._folder):
            if newest is not None and step < newest and step not in keep:
                artefact.remove(self._folder / step_name(step))

    # -- for the thread that owns the channel -----------------------------------------------------

    def turn(self, channel: Channel) -> float:
        """Take in what came, ask for what is missing; returns the seconds that may pass until the next.

        Raises RuntimeError where the copy cannot be written.
        """
        self._hearing.listen(self._clock())
        try:
            for _ in range(_BURST):
                frame = channel.receive()
                if frame is None:
                    break
                self._take(frame)
        except OSError as error:
            raise RuntimeError(f"{self._folder}: cannot keep what is fetched ({error})") from error
        self._ask(channel)
        return self._beat

    def leave(self, channel: Channel) -> None:
        if self._fetch is not None:
            self._fetch.abandon()

    def _take(self, frame: bytes) -> None:
        message = self._door.admit(frame)
        if isinstance(message, Announcement):
            self._hear(message)
        elif isinstance(message, Chunk | Refusal):
            self._hear_answer(message)

    def _hear(self, announcement: Announcement) -> None:
        returned = self._hearing.silence > _RETURN_BEATS * self._beat
        before = self._hearing.latest
        if not self._hearing.hear(announcement):
            return
        if self._fetch is not None and (returned or before is None or before.boot != announcement.boot):
            self._fetch.hurry()
        self._pursue(announcement.offer)

    def _hear_answer(self, answer: Chunk | Refusal) -> None:
        fetch = self._fetch
        if fetch is None or answer.digest != fetch.offer.digest:
            return  # late, about a former fetch
        if isinstance(answer, Chunk):
            self._receive(fetch, answer)
        else:
            self._drop(fetch, f"its source refused ({answer.reason})")

    def _pursue(self, offer: Offer | None) -> None:
        """Adopt the announced step if it lies here, else begin to fetch it; never back, never two at once."""
        if offer is None or self._fetch is not None or offer.digest in self._hopeless:
            return
        if self._newest is not None and offer.step <= self._newest[0]:
            return
        if self.reached is not None and offer.step > self.reached:
            return
        received, published = (at(self._kind, offer.step) for at in (self._paths.received, self._paths.published))
        for path in (received, published):
            if is_offered(path, offer):
                self._newest = (offer.step, path)
                return
        self._fetch = Fetch(offer, received, self._chunk_bytes, 2 * self._beat, self._clock())

    def _ask(self, channel: Channel) -> None:
        fetch = self._fetch
        if fetch is None:
            return
        for piece in fetch.pieces(self._clock()):
            want = Want(
                run=self._run,
                kind=self._kind,
                step=fetch.offer.step,
                digest=fetch.offer.digest,
                name=piece.name,
                offset=piece.offset,
                length=piece.length,
            )
            channel.ask(encode(want))

    def _receive(self, fetch: Fetch, chunk: Chunk) -> None:
        try:
            fetch.accept(chunk, self._clock())
        except artefact.Broken as error:
            self._hopeless.add(fetch.offer.digest)
            log.error("%s of step %d can never be had: %s", self._kind, fetch.offer.step, error)
            self._drop(fetch, str(error))
            return
        if fetch.complete:
            self._finish(fetch)

    def _finish(self, fetch: Fetch) -> None:
        step = fetch.offer.step
        self._newest = (step, fetch.place())
        self._fetch = None
        size = fetch.total / 1e6
        log.info("fetched %s of step %d: %.1f MB, %d pieces asked for again", self._kind, step, size, fetch.again)
        latest = self._hearing.latest
        self._pursue(latest.offer if latest is not None else None)

    def _drop(self, fetch: Fetch, why: str) -> None:
        """Give up what is being fetched; the next announcement says what to do instead."""
        if fetch.offer.digest not in self._trouble:
            log.info("no longer fetching %s of step %d: %s", self._kind, fetch.offer.step, why)
        self._trouble[fetch.offer.digest] = why
        fetch.abandon()
        self._fetch = None

    def _fetching(self) -> str:
        fetch, latest = self._fetch, self._hearing.latest
        if fetch is not None:
            return f"fetching step {fetch.offer.step}: {fetch.received / 1e6:.1f} of {fetch.total / 1e6:.1f} MB"
        if latest is not None and latest.offer is not None and latest.offer.digest in self._trouble:
            return f"step {latest.offer.step} cannot be had: {self._trouble[latest.offer.digest]}"
        return ""
