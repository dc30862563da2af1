"""Lets in the messages of one run and one kind; counts and drops everything else."""

from __future__ import annotations

import logging

from ..paths import Kind
from . import messages

log = logging.getLogger(__name__)


class Door:
    def __init__(self, run: str, kind: Kind) -> None:
        self._run = run
        self._kind = kind
        self.garbled = 0  # frames that were no message
        self.foreign = 0  # messages of another run or kind

    def admit(self, frame: bytes) -> messages.AnyMessage | None:
        """The message, or None. One warning per sort of stranger, so that a flood fills no log."""
        try:
            message = messages.decode(frame)
        except messages.Garbled as error:
            self.garbled += 1
            if self.garbled == 1:
                log.warning("exchange of %s: dropped bytes that are no message (%s)", self._kind, error)
            return None
        if (message.run, message.kind) == (self._run, self._kind):
            return message
        self.foreign += 1
        if self.foreign == 1:
            log.warning(
                "exchange of %s in run %s: dropped a message of %s in run %r",
                self._kind, self._run, message.kind, message.run[:64],
            )  # fmt: skip
        return None
