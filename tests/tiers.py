"""Which cases of a test are quick enough for every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def others_slow(names: Iterable[str], quick: str) -> list[Any]:
    """Parameters of a test: one in the unit tier, the others in the slow one."""
    return [name if name == quick else pytest.param(name, marks=pytest.mark.slow) for name in names]
