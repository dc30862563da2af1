"""Micro-batches made of groups: which places of the stream belong to groups, and to which pair of them.

    micro-batch 0          micro-batch 1
    [g4 g4 g4|g1 g1  a| b] [g0 g0 g0|g4 g4 g4| c]     two groups of three in a batch of seven

Every ``batch`` places of the stream are one micro-batch of one rank: whole groups first, then ordinary
pairs. The groups come in epochs of their own, each once per epoch; a group that is not full (g1) has its
places filled by ordinary pairs (a), which go on through their own epochs wherever they are called.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mining.table import Groups
from .chain import Chain, Rows

_GROUPS = 1  # keeps the orders of groups apart from those of pairs


@dataclass(frozen=True)
class Grouping:
    """How the settings want micro-batches put together."""

    batch: int  # examples of a micro-batch
    share: float  # of them in groups

    def groups(self, size: int) -> int:
        """Groups of ``size`` pairs in a micro-batch: the share as nearly as whole groups give it, at least one."""
        assert 0 < size <= self.batch
        return min(max(round(self.share * self.batch / size), 1), self.batch // size)


class Grouped:
    """What each place of the stream holds, as a function of the place alone."""

    def __init__(self, groups: Groups, usable: NDArray[np.bool_], grouping: Grouping, seed: int, step: int) -> None:
        """usable: [groups, size] pairs that may come; at least one must. Raises ValueError for too large groups."""
        if groups.size > grouping.batch:
            raise ValueError(
                f"the groups of step {step} have {groups.size} pairs, which do not fit into train.batch="
                f"{grouping.batch}: the Inferencer that mined them has other settings; start both roles with the same"
            )
        kept = np.flatnonzero(usable.any(axis=1))
        front = np.argsort(~usable[kept], axis=1, kind="stable")  # [groups, size] usable pairs first
        self.queries = np.take_along_axis(groups.queries[kept], front, axis=1)
        self.positives = np.take_along_axis(groups.positives[kept], front, axis=1)
        self.filled = usable[kept].sum(axis=1)  # [groups] pairs in front
        self.size, self.batch = groups.size, grouping.batch
        self.per_batch = grouping.groups(groups.size)
        self.epochs = Chain(len(kept), (seed, step + 1), (_GROUPS,))

    def locate(self, places: Rows) -> tuple[Rows, Rows, Rows, Rows]:
        """(group or -1, epoch over the groups, member of the group, place in the chain of ordinary pairs).

        [places] each; the last counts where there is no group, the others where there is one.
        """
        micro, slot = np.divmod(places, self.batch)
        number, member = np.divmod(slot, self.size)
        number = np.minimum(number, self.per_batch)  # whatever comes after the groups of the micro-batch
        nth = micro * self.per_batch + number  # group of the chain, or the first one of the next micro-batch
        group, epoch = self.epochs.at(nth)
        grouped = number < self.per_batch
        rest = self.batch - self.per_batch * self.size
        before = micro * rest + self._filling(nth)  # [places] ordinary pairs in front of the group
        within = np.where(grouped, member - self.filled[group], slot - self.per_batch * self.size)
        return np.where(grouped & (member < self.filled[group]), group, -1), epoch, member, before + within

    def _filling(self, nth: Rows) -> Rows:
        """Places left in the groups before the n-th of the chain. [n] -> [n]"""
        epoch, place = np.divmod(nth, self.epochs.count)
        per_epoch = self.epochs.count * self.size - int(self.filled.sum())
        return epoch * per_epoch + self.epochs.pick(epoch, place, self._left_before)

    def _left_before(self, number: int) -> Rows:
        left = self.size - self.filled[self.epochs.order(number)]  # [groups]
        return np.cumsum(left) - left
