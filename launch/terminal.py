"""The one place that writes to the terminal: results to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console

out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def say(text: str = "") -> None:
    """One line of plain text, kept whole whatever the width."""
    err.print(text, markup=False)


def show(thing: Any) -> None:
    """A result: text as it is, or a table."""
    if isinstance(thing, str):
        out.print(thing, markup=False)
    else:
        out.print(thing, soft_wrap=False)


def fail(text: str) -> None:
    """An error, its first line marked."""
    first, _, rest = text.partition("\n")
    err.print("error: ", style="bold red", end="")
    err.print(first, markup=False, style="bold")
    if rest:
        err.print(rest, markup=False)


def live() -> bool:
    """Whether the output is a terminal on which lines can be redrawn."""
    return err.is_terminal and not err.is_dumb_terminal and sys.stderr.isatty()
