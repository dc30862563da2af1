"""Two halves of the held-out queries: one chooses the best encoder, the other is reported (DANCE section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

SELECT, REPORT = 0, 1


def folds(names: Iterable[str], seed: int) -> NDArray[np.int64]:
    """SELECT or REPORT of every query id: a hash decides, so that other queries move none. [names]"""
    return np.array([blake2b(f"{seed}\0{name}".encode(), digest_size=1).digest()[0] & 1 for name in names], np.int64)
