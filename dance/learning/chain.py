"""An endless chain of epochs over some items; every epoch has all of them, in a seeded order of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..mining.draw import permutation

Rows = NDArray[np.int64]


@dataclass
class Chain:
    """A place of the chain is an item of an epoch; only the two epochs read last are remembered."""

    count: int  # items
    key: tuple[int, ...]  # of the orders, before the number of the epoch
    tail: tuple[int, ...] = ()  # and after it
    _orders: dict[int, Rows] = field(default_factory=dict, repr=False)

    def at(self, places: Rows) -> tuple[Rows, Rows]:
        """The item at each place of the chain, and its epoch. [n] -> [n], [n]"""
        epoch, place = np.divmod(places, self.count)
        return self.pick(epoch, place, self.order), epoch

    def pick(self, epoch: Rows, place: Rows, of: Callable[[int], Rows]) -> Rows:
        """``of(epoch)[place]``, for each of both. [n], [n] -> [n]"""
        found = np.empty(len(epoch), dtype=np.int64)
        for number in np.unique(epoch).tolist():
            here = epoch == number
            found[here] = of(number)[place[here]]
        return found

    def order(self, number: int) -> Rows:
        """Items of one epoch. [count]"""
        if number not in self._orders:
            self._orders = {k: v for k, v in self._orders.items() if k == number - 1}
            self._orders[number] = permutation(self.count, *self.key, number, *self.tail)
        return self._orders[number]
