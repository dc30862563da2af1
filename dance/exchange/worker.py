"""The thread that owns a channel: it makes the sockets, uses them and closes them. Nobody else touches one.

Other threads leave what they have to say in plain fields and ring the bell, which ends the wait.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Generic, Protocol, TypeVar

LEAVE_SECONDS = 4.0  # that closing waits for the thread, at most

log = logging.getLogger(__name__)


class Sockets(Protocol):
    """What the thread itself needs of a channel."""

    def wait(self, seconds: float) -> None: ...
    def close(self) -> None: ...


ChannelT = TypeVar("ChannelT", bound=Sockets)
SpokenT = TypeVar("SpokenT", contravariant=True)


class End(Protocol[SpokenT]):
    """A publisher or a subscriber."""

    def turn(self, channel: SpokenT) -> float: ...
    def leave(self, channel: SpokenT) -> None: ...


class Worker(Generic[ChannelT]):
    def __init__(self, name: str) -> None:
        self.failure: Exception | None = None
        self._name = name
        self._stopping = False
        self._opened = threading.Event()
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)

    def wake(self) -> None:
        """Ends the thread's wait. A bell that rings already, or is put away, does no harm."""
        with suppress(OSError):
            self._bell.send(b"!")

    def check(self) -> None:
        """Raises RuntimeError where the thread has died, with its cause."""
        if self.failure is not None:
            raise RuntimeError(f"{self._name} stopped: {self.failure}") from self.failure

    @contextmanager
    def running(self, open_channel: Callable[[int], ChannelT], end: End[ChannelT]) -> Iterator[None]:
        """The thread lives as long as the block. ``open_channel`` is given the bell's descriptor; what it
        raises is raised here."""
        thread = threading.Thread(target=self._run, args=(open_channel, end), name=self._name, daemon=True)
        thread.start()
        self._opened.wait()
        try:
            if self.failure is not None:
                raise self.failure
            yield
        finally:
            self._stopping = True
            self.wake()
            thread.join(LEAVE_SECONDS)
            if thread.is_alive():
                log.warning("%s is still busy; leaving without it", self._name)
            else:
                self._bell.close()
                self._ear.close()

    def _run(self, open_channel: Callable[[int], ChannelT], end: End[ChannelT]) -> None:
        try:
            channel = open_channel(self._ear.fileno())
        except Exception as error:
            self.failure = error
            return
        finally:
            self._opened.set()
        try:
            self._turn_until_stopped(channel, end)
        except Exception as error:
            log.error("%s stopped: %s", self._name, error)
            self.failure = error
        finally:
            channel.close()

    def _turn_until_stopped(self, channel: ChannelT, end: End[ChannelT]) -> None:
        while not self._stopping:
            channel.wait(end.turn(channel))
            self._hush()
        end.leave(channel)

    def _hush(self) -> None:
        with suppress(BlockingIOError):
            self._ear.recv(4096)
