"""UTF-8 that was read as Latin-1 before it came to us: ``CafÃ©`` for ``Café``."""

from __future__ import annotations

import re

# What Latin-1 makes of bytes over 127.
_HIGH = re.compile("[\x80-\xff]+")


def repaired(text: str) -> str:
    """Mended where every run of such characters is UTF-8 in disguise, else as it was.

    A single run that is not (a real accent, a lone ``Ã``) shows that the text was read right, and
    nothing of it is touched. A mended text is stable: mending it again changes nothing, unless it
    was damaged twice.
    """
    try:
        return _HIGH.sub(lambda run: run[0].encode("latin-1").decode(), text)
    except UnicodeDecodeError:
        return text
