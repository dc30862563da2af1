"""Folders locked by another process, and code that runs in one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOLD_LOCK = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print(flush=True)
time.sleep(0.5)
"""


def python(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, env=environment)


@contextmanager
def held(home: Path) -> Iterator[Path]:
    """Locked by another process."""
    home.mkdir()
    with python(HOLD_LOCK.replace("0.5", "60"), str(home)) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield home
        holder.kill()
