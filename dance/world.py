"""The processes of one role: rank and size from torchrun's environment, and their collectives.

One process is a group of one, so that no code asks whether it is distributed.
Only work that is short beside the timeout belongs between two collectives: what takes long is shared out evenly,
so that the ranks end it together, and rank 0 alone puts together what they found. Nobody waits here for a
refresh or a save of open length, so the timeout ends true hangs alone.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

Numbers = TypeVar("Numbers", NDArray[np.float32], NDArray[np.int64])
NOTHING = -1  # in ``agree_min`` of steps: a rank that stands by none
FAR = 1 << 62  # one that has no say, since it hears nobody: it stands in nobody's way


@dataclass(frozen=True)
class World:
    rank: int
    size: int
    local_rank: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """The one process that writes shared files."""
        return self.rank == 0

    @property
    def leads_node(self) -> bool:
        """The one process per machine that talks to the other role."""
        return self.local_rank == 0

    def agree_min(self, values: list[int]) -> list[int]:
        """Elementwise minimum over all ranks: what every one of them can stand by."""
        tensor = torch.tensor(values, dtype=torch.int64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MIN, group=_cpu_group())
        return tensor.tolist()

    def mean(self, values: list[float]) -> list[float]:
        """Elementwise mean over all ranks."""
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=_cpu_group())
        return (tensor / self.size).tolist()

    def maximum(self, array: Numbers) -> Numbers:
        """Elementwise maximum of arrays of one shape and dtype over all ranks, at every rank; without nan."""
        tensor = torch.from_numpy(np.array(array, order="C"))
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=_cpu_group())
        return tensor.numpy()

    def barrier(self) -> None:
        self.agree_min([0])

    def gather(self, array: Numbers, to: int) -> list[Numbers]:
        """Arrays of one shape and dtype from every rank, in rank order, at rank ``to``; [] elsewhere."""
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        into = [torch.empty_like(tensor) for _ in range(self.size)] if self.rank == to else None
        dist.gather(tensor, into, dst=to, group=_cpu_group())
        return [t.numpy() for t in into or []]

    def gather_ragged(self, array: Numbers, to: int) -> list[Numbers]:
        """As ``gather`` for arrays that differ in their first dimension."""
        lengths = self._all_lengths(len(array))
        padded = np.resize(array, (max(lengths), *array.shape[1:])).astype(array.dtype, copy=False)
        return [part[:length] for part, length in zip(self.gather(padded, to), lengths)]

    def share_ragged(self, array: Numbers) -> list[Numbers]:
        """Arrays that differ in their first dimension from every rank, in rank order, at every rank."""
        shares = []
        for rank, length in enumerate(self._all_lengths(len(array))):
            here = array if rank == self.rank else np.empty((length, *array.shape[1:]), dtype=array.dtype)
            tensor = torch.from_numpy(np.ascontiguousarray(here))
            dist.broadcast(tensor, src=rank, group=_cpu_group())
            shares.append(tensor.numpy())
        return shares

    def from_rank(self, array: Numbers, rank: int) -> Numbers:
        """The array of one rank, at every rank; what the others give tells its dtype and later dimensions."""
        return self.share_ragged(array if self.rank == rank else array[:0])[rank]

    def _all_lengths(self, length: int) -> list[int]:
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = length
        dist.all_reduce(lengths, group=_cpu_group())
        return lengths.tolist()


def node() -> int:
    """Number of this machine among those of the role: its first rank, which no other has."""
    return int(os.environ.get("RANK", 0)) - int(os.environ.get("LOCAL_RANK", 0))


@contextmanager
def joined(timeout_seconds: float) -> Iterator[World]:
    """Join the group that torchrun describes, or one of our own when started alone."""
    world = _from_environment()
    timeout = timedelta(seconds=timeout_seconds)
    if "MASTER_ADDR" in os.environ:
        backend = "cpu:gloo,cuda:nccl" if world.device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timeout)
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timeout=timeout)
    try:
        yield world
    finally:
        # With peers the group ends with the process (see ``leave``): taking gloo down while one of its threads
        # still lets go of the last collective can hang for ever, both waiting for Python's lock.
        if world.size == 1:
            dist.destroy_process_group()


def leave(code: int) -> NoReturn:
    """End a rank at once, when all that it holds is closed: no destructor of the process group runs."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _cpu_group() -> dist.ProcessGroup | None:
    # The default group carries both back ends; a CPU tensor takes gloo.
    return dist.group.WORLD


def _from_environment() -> World:
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    return World(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)), local_rank, device)
