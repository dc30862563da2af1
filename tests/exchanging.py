"""What the tests of the exchange share: small artefacts, configurations, free ports, waiting with a limit."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

from dance import artefact
from dance.config import Config, Exchange
from dance.paths import Kind, RunPaths

KIND: Kind = "negatives"


def settings(run_id: str = "run", **exchange: object) -> Config:
    return Config(run_id=run_id, exchange=Exchange(**{"heartbeat_seconds": 0.05, **exchange}))


def publish(paths: RunPaths, step: int, sizes: dict[str, int] | None = None, salt: int = 0) -> Path:
    """An artefact of files with these sizes, contents by step and salt."""
    path = paths.published(KIND, step)
    with artefact.publishing(path, KIND, step) as folder:
        for name, size in (sizes or {"rows.bin": 100, "sub/more.bin": 10, "empty": 0}).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(
                bytes((step + salt + i) % 251 for i in range(min(size, 251))) * (size // 251 + 1)
            )
            with (folder / name).open("r+b") as file:
                file.truncate(size)
    return path


def until(condition: Callable[[], object], seconds: float = 10.0) -> float:
    """Seconds until it holds; fails after ``seconds``."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, "it did not come in time"
        time.sleep(0.005)
    return time.monotonic() - start


def free_port() -> int:
    """A port that is free together with the next one."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port
