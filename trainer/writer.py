"""A thread that writes beside the training: one thing at a time, and nothing of it is lost in silence.

    loop    … step ─ begin ─ step ─ step ─ step ─ … ─ join ─ save
    writer            └──── write, publish, announce ────┘

What is under way is joined before anything relies on it: the next thing, a checkpoint, a wait, the end.
What it raises is raised in the loop, at the next look or join.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

log = logging.getLogger(__name__)
_LONGEST_SECONDS = 600.0


class Writer:
    """All verbs are the loop's; only the work that it is given runs in the thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "writer")
        self._under_way: Future[None] | None = None
        self._what = ""

    def begin(self, what: str, work: Callable[[], None]) -> None:
        """Start ``work`` and return; ``what`` names it in errors. Raises what ``join`` does."""
        self.join()
        self._what, self._under_way = what, self._thread.submit(work)

    def check(self) -> None:
        """Never waits. Raises RuntimeError where the last work failed, with its cause."""
        if self._under_way is not None and self._under_way.done():
            self.join()

    def join(self) -> None:
        """Until nothing is under way. Raises RuntimeError where the work failed, with its cause."""
        done, self._under_way = self._under_way, None
        error = None if done is None else self._outcome(done)
        if error is not None:
            raise RuntimeError(f"{self._what}: {error}") from error

    def _outcome(self, done: Future[None]) -> BaseException | None:
        try:
            return done.exception(_LONGEST_SECONDS)
        except FutureTimeout:
            return TimeoutError(f"not written within {_LONGEST_SECONDS:.0f} s; is the disk still there?")

    def close(self) -> None:
        """The thread ends when its work has; never raises, since another error may be on its way out."""
        try:
            self.join()
        except RuntimeError as error:
            log.error("%s", error)
        self._thread.shutdown(wait=False, cancel_futures=True)
