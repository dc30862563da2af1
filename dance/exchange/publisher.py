"""The publishing end of one kind: says what is newest, hands out files of what it published.

A role calls ``announce`` whenever something changed; the thread that owns the channel calls ``turn``.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from .. import artefact
from ..paths import Kind
from .door import Door
from .messages import START, Announcement, Chunk, Offer, Want, encode
from .transfer import serve

READING_SECONDS = 60.0  # a step counts as being read for so long after the last request
_BURST = 64  # requests served before the heartbeat has its turn


class Channel(Protocol):
    """What a publisher needs of its sockets. Every verb may lose what it is given."""

    def broadcast(self, frame: bytes) -> None: ...
    def reply(self, reader: bytes, frame: bytes) -> None: ...
    def receive(self) -> tuple[bytes, bytes] | None:
        """(who, frame) of the next request, or None; never waits."""


def _nothing() -> None: ...


class Publisher:
    def __init__(
        self,
        run: str,
        kind: Kind,
        locate: Callable[[int], Path],
        heartbeat_seconds: float,
        wake: Callable[[], None] = _nothing,
        check: Callable[[], None] = _nothing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``locate`` gives the folder of a published step; ``wake`` ends the thread's wait; ``check``
        raises what made the thread die."""
        self._clock = clock
        self._locate = locate
        self._heartbeat = heartbeat_seconds
        self._wake = wake
        self._check = check
        self._door = Door(run, kind)
        self._lock = threading.Lock()
        self._state = Announcement(run=run, kind=kind, boot=time.time_ns(), sequence=0, phase=START)
        self._next_beat = -math.inf  # on the clock
        self._read_at: dict[int, float] = {}  # step -> monotonic seconds of the last request

    # -- for the role, from any thread -------------------------------------------------------

    def announce(
        self,
        step: int | None,
        final: bool = False,
        phase: str = "",
        holds: frozenset[int] = frozenset(),
        finished: bool = False,
    ) -> None:
        """Tell the other role; returns at once, repeated until the next call.

        ``step`` must be published: raises artefact.Broken where it is not. Raises RuntimeError
        where the exchange has stopped.
        """
        self._check()
        offer = None if step is None else self._offer(step)
        with self._lock:
            self._state = msgspec.structs.replace(
                self._state,
                offer=offer,
                final=final,
                phase=phase,
                holds=tuple(sorted(int(held) for held in holds)),
                finished=finished,
            )
            self._next_beat = -math.inf
        self._wake()

    def being_read(self) -> set[int]:
        """Steps that somebody is fetching; not to be deleted now."""
        limit = self._clock() - READING_SECONDS
        with self._lock:
            return {step for step, at in self._read_at.items() if at > limit}

    # -- for the thread that owns the channel -----------------------------------------------------

    def turn(self, channel: Channel) -> float:
        """Serve what was asked, speak if due; returns the seconds until it is due again."""
        for _ in range(_BURST):
            request = channel.receive()
            if request is None:
                break
            self._serve(channel, *request)
        if self._clock() >= self._next_beat:
            channel.broadcast(self._beat())
        return max(0.0, self._next_beat - self._clock())

    def leave(self, channel: Channel) -> None:
        """Last words: the state once more."""
        channel.broadcast(self._beat())

    def _beat(self) -> bytes:
        with self._lock:
            self._state = msgspec.structs.replace(self._state, sequence=self._state.sequence + 1)
            self._next_beat = self._clock() + self._heartbeat
            return encode(self._state)

    def _serve(self, channel: Channel, reader: bytes, frame: bytes) -> None:
        want = self._door.admit(frame)
        if not isinstance(want, Want):
            return
        answer = serve(want, self._locate(want.step))
        if isinstance(answer, Chunk):
            with self._lock:
                self._read_at[want.step] = self._clock()
        channel.reply(reader, encode(answer))

    def _offer(self, step: int) -> Offer:
        known = self._state.offer
        if known is not None and known.step == step:
            return known
        path = self._locate(step)
        digest = artefact.digest(path)
        return Offer(step=int(step), digest=digest, size=(path / artefact.MANIFEST).stat().st_size)
