"""What was left out or noticed on the way, why, and the first of each kind."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)
_SHOWN = 3


class Drops:
    """Counts by reason, in the order in which they came up."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, list[str]] = {}

    def add(self, reason: str, name: str, count: int = 1) -> None:
        self._counts[reason] = self._counts.get(reason, 0) + count
        first = self._first.setdefault(reason, [])
        if len(first) < _SHOWN:
            first.append(name)

    def facts(self) -> dict[str, dict[str, Any]]:
        return {reason: {"count": n, "first": self._first[reason]} for reason, n in self._counts.items()}

    def lines(self) -> list[str]:
        return [f"{n} {reason}, e.g. {', '.join(self._first[reason])}" for reason, n in self._counts.items()]
