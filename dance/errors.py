"""Errors of other libraries, quoted in ours."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """What it says in one line; its name where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
