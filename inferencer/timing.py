"""Where the time of a refresh went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Seconds(dict[str, float]):
    """Wall time by what it was spent on."""

    @contextmanager
    def spent_on(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self[name] = self.get(name, 0.0) + time.monotonic() - began
