"""How long a role waits for the other, and what it says when that is over.

One ``Patience`` per wait. Three ways to be disappointed: nobody ever spoke, somebody fell silent,
somebody is alive and busy but what is waited for does not come.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..config import Exchange
from .hearing import Peer


class PeerLost(ConnectionError):
    """The other role was never seen, or has fallen silent."""


class Patience:
    def __init__(self, exchange: Exchange, clock: Callable[[], float] = time.monotonic) -> None:
        self._peer_limit = exchange.peer_timeout_seconds
        self._product_limit = exchange.product_timeout_seconds
        self._clock = clock
        self._since = clock()
        self._gone_after = 10 * exchange.heartbeat_seconds  # a role that said it was done, then fell silent

    def check(self, peer: Peer, what: str, where: str) -> None:
        """``what`` is waited for, "the first negatives"; ``where`` it is to come from, an endpoint or path.

        Raises PeerLost where nobody is there to send it, TimeoutError where somebody is but does not.
        """
        waited = self._clock() - self._since
        if peer.last_seen is None:
            if waited > self._peer_limit:
                raise PeerLost(_never_seen(waited, what, where))
        elif peer.last_seen > (self._gone_after if _is_done(peer) else self._peer_limit):
            raise PeerLost(_silent(peer, what, where))
        elif waited > self._product_limit:
            raise TimeoutError(_busy(peer, waited, what, where))


def _is_done(peer: Peer) -> bool:
    return peer.finished and not peer.fetching


def _never_seen(waited: float, what: str, where: str) -> str:
    return (
        f"waited {waited:.0f} s for {what}: no producer was ever seen at {where}. Is the other role started, "
        "with the same run_id, endpoints and keys? (exchange.peer_timeout_seconds is the limit)"
    )


def _silent(peer: Peer, what: str, where: str) -> str:
    state = "had finished" if peer.finished else f"was in phase {peer.phase or 'unknown'!r}"
    return (
        f"waiting for {what} from {where}: the other role has been silent for {peer.last_seen:.0f} s. "
        f"It {state}, its newest step was {peer.step}. See its log; exchange.peer_timeout_seconds is the limit"
    )


def _busy(peer: Peer, waited: float, what: str, where: str) -> str:
    here = f"; {peer.fetching}" if peer.fetching else ""
    return (
        f"waited {waited:.0f} s for {what} from {where}: the other role is alive, in phase {peer.phase!r}, "
        f"newest step {peer.step}{here}, but it did not come. Raise exchange.product_timeout_seconds if it "
        "needs longer"
    )
