"""What both roles are doing, while they do it: one live panel on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.live import Live

from dance.paths import RunPaths

from . import terminal
from .picture import clock, one_line, panel, refresh_line
from .snapshot import look

_DRAW_SECONDS = 0.5
_WIDTH = 100  # characters of the panel at most
_LOOK_SECONDS = 1.0
_LINE_SECONDS = 10.0


@contextmanager
def watching(paths: RunPaths, title: str, bm25: float | None) -> Iterator[Callable[[], None]]:
    """A function to call often; it draws when it is time to."""
    if not terminal.live():
        yield _Lines(paths)
        return
    with Live(console=terminal.err, auto_refresh=False, transient=False) as live:
        panel = _Panel(paths, live, title, bm25)
        yield panel
        panel.draw()


class _Panel:
    def __init__(self, paths: RunPaths, live: Live, title: str, bm25: float | None) -> None:
        self._paths, self._live, self._title, self._bm25 = paths, live, title, bm25
        self._drawn, self._since = 0.0, time.time()

    def __call__(self) -> None:
        if time.monotonic() - self._drawn >= _DRAW_SECONDS:
            self.draw()

    def draw(self) -> None:
        self._drawn = time.monotonic()
        width = min(terminal.err.width, _WIDTH)
        self._live.update(panel(look(self._paths, self._since), self._title, self._bm25, width), refresh=True)


class _Lines:
    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._began = self._looked = self._said = time.monotonic()
        self._since = time.time()
        self._refreshes = len(look(paths).refreshes)

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        seen = look(self._paths, self._since)
        for record in seen.refreshes[self._refreshes :]:
            terminal.say(f"{clock(now - self._began)}  {refresh_line(record)}")
        self._refreshes = len(seen.refreshes)
        if now - self._said >= _LINE_SECONDS:
            self._said = now
            terminal.say(f"{clock(now - self._began)}  {one_line(seen)}")
