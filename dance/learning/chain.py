"""An endless chain of passes over some items; every pass has all of them, in a seeded order of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..mining.draw import permutation

Rows = NDArray[np.int64]


@dataclass
class Chain:
    """A place of the chain is an item of a pass; only the two passes read last are remembered."""

    count: int  # items
    key: tuple[int, ...]  # of the orders, before the number of the pass
    tail: tuple[int, ...] = ()  # and after it
    _orders: dict[int, Rows] = field(default_factory=dict, repr=False)

    def at(self, places: Rows) -> tuple[Rows, Rows]:
        """The item at each place of the chain, and its pass. [n] -> [n], [n]"""
        turn, place = np.divmod(places, self.count)
        return self.pick(turn, place, self.order), turn

    def pick(self, turn: Rows, place: Rows, of: Callable[[int], Rows]) -> Rows:
        """``of(turn)[place]``, for each of both. [n], [n] -> [n]"""
        found = np.empty(len(turn), dtype=np.int64)
        for number in np.unique(turn).tolist():
            here = turn == number
            found[here] = of(number)[place[here]]
        return found

    def order(self, number: int) -> Rows:
        """Items of one pass. [count]"""
        if number not in self._orders:
            self._orders = {k: v for k, v in self._orders.items() if k == number - 1}
            self._orders[number] = permutation(self.count, *self.key, number, *self.tail)
        return self._orders[number]
