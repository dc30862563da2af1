"""One process at a time makes a folder; what a killed one left is swept by whoever comes next."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import artefact

log = logging.getLogger(__name__)
_HOME = re.compile(r".+-[0-9a-f]{12}")  # folders of our making: data.prepared may hold others
_DRAFTS = ".tmp-*"
_PATIENCE_SECONDS, _PAUSE_SECONDS = 86_400.0, 0.1


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Alone in ``home``, which is made; the system releases the lock when its holder dies.

    Drafts of killed makers are removed, here and in the folders beside it. ``home`` is not left behind
    empty.
    """
    handle = _take(home)
    try:
        artefact.sweep(home)
        for other in home.parent.iterdir():
            if _HOME.fullmatch(other.name) and any(other.glob(_DRAFTS)) and other != home:
                _sweep_unless_in_use(other)
        yield
    finally:
        _give_back(home, handle)


def _take(home: Path) -> int:
    """A lock on the folder itself, so that no lock file stays."""
    while True:
        home.mkdir(parents=True, exist_ok=True)
        handle = os.open(home, os.O_RDONLY)
        _wait(home, handle)
        if _is_still(home, handle):
            return handle
        os.close(handle)  # its last holder found it empty and removed it


def _wait(home: Path, handle: int) -> None:
    """Until the lock is ours. Raises ValueError after a day: whoever has it may be stopped, not at work."""
    deadline, told = time.monotonic() + _PATIENCE_SECONDS, False
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                log.info("%s: waiting for another process that prepares it", home)
            if time.monotonic() > deadline:
                os.close(handle)
                raise ValueError(
                    f"{home}: another process has held it for {_PATIENCE_SECONDS:.0f} s; end that one (`lsof {home}` "
                    "names it), or set data.prepared to another folder"
                ) from None
        told = True
        time.sleep(_PAUSE_SECONDS)


def _sweep_unless_in_use(home: Path) -> None:
    """Only a folder that somebody makes just now is locked: nothing in another is still being written."""
    handle = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return
    artefact.sweep(home)
    _give_back(home, handle)


def _give_back(home: Path, handle: int) -> None:
    if _is_still(home, handle) and not any(home.iterdir()):
        home.rmdir()
    os.close(handle)


def _is_still(home: Path, handle: int) -> bool:
    """Whether the name still means the folder that is held."""
    return home.is_dir() and os.path.samestat(home.stat(), os.fstat(handle))
