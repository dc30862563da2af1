"""Several ranks in one process: a world whose collectives meet in threads, for tests of what ranks share out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from dance.world import World

T = TypeVar("T")
LIMIT = 60.0  # seconds that a rank waits for the others


class Meeting:
    """Where all ranks bring something and take everything."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size, timeout=LIMIT)
        self._brought: list[Any] = [None] * size

    def exchange(self, rank: int, brought: Any) -> list[Any]:
        self._brought[rank] = brought
        self._barrier.wait()
        taken = list(self._brought)
        self._barrier.wait()
        return taken

    def break_up(self) -> None:
        """A rank failed: the others must not wait for it."""
        self._barrier.abort()


@dataclass(frozen=True)
class ThreadWorld(World):
    meeting: Meeting

    def agree_min(self, values: list[int]) -> list[int]:
        return [min(column) for column in zip(*self.meeting.exchange(self.rank, values))]

    def mean(self, values: list[float]) -> list[float]:
        return [sum(column) / self.size for column in zip(*self.meeting.exchange(self.rank, values))]

    def maximum(self, array: Any) -> Any:
        return np.max(self.meeting.exchange(self.rank, np.array(array)), axis=0)

    def gather(self, array: Any, to: int) -> list[Any]:
        parts = self.meeting.exchange(self.rank, np.array(array))
        assert len({(part.shape, part.dtype) for part in parts}) == 1, "arrays of one shape and dtype"
        return parts if self.rank == to else []

    def gather_ragged(self, array: Any, to: int) -> list[Any]:
        parts = self.share_ragged(array)
        return parts if self.rank == to else []

    def share_ragged(self, array: Any) -> list[Any]:
        parts = self.meeting.exchange(self.rank, np.array(array))
        assert len({(part.shape[1:], part.dtype) for part in parts}) == 1, "arrays that differ in their first dimension"
        return parts


def together(size: int, work: Callable[[ThreadWorld], T]) -> list[T]:
    """``work`` at every rank at once; what each returns, in rank order. Raises what the first to fail raised."""
    meeting, done, failed = Meeting(size), [None] * size, []

    def one(rank: int) -> None:
        try:
            done[rank] = work(ThreadWorld(rank, size, rank, torch.device("cpu"), meeting))  # type: ignore[call-overload]
        except BaseException as error:  # handed to the test below
            failed.append(error)
            meeting.break_up()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return done  # type: ignore[return-value]
