"""A TCP proxy that damages what passes through it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Damage:
    """Flips a bit in the byte number ``at`` that the target sends, counted over all connections; once."""

    def __init__(self, at: int) -> None:
        self.done = False
        self._left = at
        self._lock = threading.Lock()

    def __call__(self, data: bytes) -> bytes:
        with self._lock:
            self._left -= len(data)
            if self.done or self._left >= 0:
                return data
            self.done = True
            bad = bytearray(data)
            bad[self._left] ^= 0x10  # counted from the end, where the limit was passed
            return bytes(bad)


@contextmanager
def proxy(port: int, target: int, damage: Damage | None = None) -> Iterator[None]:
    """Loopback ``port`` leads to loopback ``target`` while the block lasts."""
    with socket.create_server(("127.0.0.1", port)) as server:
        open_sockets: list[socket.socket] = []
        threading.Thread(target=_accept, args=(server, target, damage, open_sockets), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for each in open_sockets:
                each.close()


def _accept(server: socket.socket, target: int, damage: Damage | None, kept: list[socket.socket]) -> None:
    with suppress(OSError):
        while True:
            near, _ = server.accept()
            kept.append(near)
            try:
                far = socket.create_connection(("127.0.0.1", target))
            except OSError:
                near.close()
                continue
            kept.append(far)
            threading.Thread(target=_copy, args=(near, far, None), daemon=True).start()
            threading.Thread(target=_copy, args=(far, near, damage), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket, damage: Damage | None) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(damage(data) if damage else data)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
