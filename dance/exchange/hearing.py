"""What is known of the other role from its announcements: the latest one, and for how long it is silent.

Frames may come late, twice or out of order, and the publisher may restart. Within one boot the higher
sequence is the later; of two boots the later start is, unless the one believed in has fallen silent
(a clock may have been set back, and nothing may be ignored for ever).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .messages import Announcement

_SILENT_BEATS = 10  # heartbeats without a word after which any boot is believed


@dataclass(frozen=True)
class Peer:
    """The other role, as its last announcement has it."""

    last_seen: float | None = None  # seconds since its last announcement; None: never heard
    step: int | None = None  # newest step that it announced
    final: bool = False
    phase: str = ""
    holds: frozenset[int] = field(default_factory=frozenset)
    finished: bool = False
    restarts: int = 0  # times that it came back as a new process
    fetching: str = ""  # what of it is on its way here, or why it is not; for messages to people


class Hearing:
    """Filled by the listening thread, read by any."""

    def __init__(self, heartbeat_seconds: float) -> None:
        self.latest: Announcement | None = None
        self._heartbeat = heartbeat_seconds
        self.silence = 0.0  # seconds without a word that we listened for
        self._listened: float | None = None  # when the thread last listened
        self._boots: set[int] = set()

    def listen(self, now: float) -> None:
        """Silence grows only while we listen: after a pause of our own the peer is not to blame."""
        gap = 0.0 if self._listened is None else now - self._listened
        self.silence += min(gap, 2 * self._heartbeat)
        self._listened = now

    def hear(self, announcement: Announcement) -> bool:
        """Whether it is news; the sign of life counts in any case but that of a former boot."""
        if self.latest is not None and not self._supersedes(announcement, self.latest):
            if announcement.boot == self.latest.boot:
                self.silence = 0.0
            return False
        self._boots.add(announcement.boot)
        self.latest = announcement
        self.silence = 0.0
        return True

    def peer(self, fetching: str = "") -> Peer:
        latest = self.latest
        if latest is None:
            return Peer(fetching=fetching)
        return Peer(
            last_seen=self.silence,
            step=None if latest.offer is None else latest.offer.step,
            final=latest.final,
            phase=latest.phase,
            holds=frozenset(latest.holds),
            finished=latest.finished,
            restarts=len(self._boots) - 1,
            fetching=fetching,
        )

    def _supersedes(self, new: Announcement, old: Announcement) -> bool:
        if new.boot == old.boot:
            return new.sequence > old.sequence
        return new.boot > old.boot or self.silence > _SILENT_BEATS * self._heartbeat
