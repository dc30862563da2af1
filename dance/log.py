"""Log lines of one rank: to its file whole, to the terminal from rank 0 and from warnings on."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from .paths import Role


def start(role: Role, rank: int, path: Path) -> None:
    """Send the records of every module to ``path`` and the terminal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    form = logging.Formatter(f"%(asctime)s {role} {rank} %(levelname)s %(message)s", "%H:%M:%S")
    file = logging.FileHandler(path)
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.INFO if rank == 0 else logging.WARNING)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    for handler in (file, terminal):
        handler.setFormatter(form)
        root.addHandler(handler)
    hush()


def hush() -> None:
    """No word of libraries that tell of every request and import."""
    for chatty in ("httpx", "httpcore", "faiss.loader", "bm25s"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
