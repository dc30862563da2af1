"""Where each kind is announced and handed out, from ``exchange.encoders`` and ``exchange.negatives``.

"auto"             two local sockets in a folder of this user, named by a hash of run and kind:
                   unique per run and short whatever the run folder is called
tcp://HOST:PORT    news on PORT, files on PORT+1; the publisher binds, the subscriber connects.
                   HOST other than loopback needs exchange.keys
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..config import Config
from ..paths import Kind
from .keys import load_keys

_LONGEST = 103  # bytes of a Unix socket's path: 107 on Linux, 103 on macOS
_NAME_BYTES = len("/0123456789abcdef.files")


@dataclass(frozen=True)
class Endpoint:
    """Addresses of one kind; ``lock`` is what its one publisher holds where the system lets two bind."""

    setting: str  # as it is called in the configuration, for messages
    news: str
    files: str
    lock: Path | None = None

    def __str__(self) -> str:
        return f"{self.news} ({self.setting})"


def resolve(config: Config, kind: Kind) -> Endpoint:
    """Addresses as both sides know them. Raises ValueError that names the option and the remedy."""
    value: str = getattr(config.exchange, kind)
    setting = f"exchange.{kind}={value}"
    if value == "auto":
        return _local(setting, config.run_id or "", kind)
    host, port = _split(setting, value)
    if not is_loopback(host) and config.exchange.keys is None:
        raise ValueError(
            f"{setting} reaches beyond this machine: make keys with `dance keys FOLDER`, copy the folder to "
            "every machine and set exchange.keys=FOLDER; or use a loopback address"
        )
    shown = f"[{host}]" if ":" in host else host
    return Endpoint(setting, news=f"tcp://{shown}:{port}", files=f"tcp://{shown}:{port + 1}")


def check(config: Config) -> None:
    """Refuse what would fail later: addresses, keys, clashes. Raises ValueError."""
    encoders, negatives = resolve(config, "encoders"), resolve(config, "negatives")
    if {encoders.news, encoders.files} & {negatives.news, negatives.files}:
        raise ValueError(
            f"{encoders.setting} and {negatives.setting} overlap: each takes its port and the next one, "
            "so keep them at least 2 apart"
        )
    if config.exchange.keys is not None:
        load_keys(Path(config.exchange.keys))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def numeric(address: str) -> str:
    """The same address with its host as a number: a socket cannot be bound to a name."""
    parts = urlsplit(address)
    if parts.scheme != "tcp" or parts.hostname is None:
        return address
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise ValueError(f"{address}: host {parts.hostname!r} is unknown here ({error})") from None
    return f"tcp://[{found}]:{parts.port}" if ":" in str(found) else f"tcp://{found}:{parts.port}"


def _split(setting: str, value: str) -> tuple[str, int]:
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not value.startswith("tcp://") or not host or not port or port > 65534 or parts.path:
        raise ValueError(f"{setting}: expected auto or tcp://HOST:PORT with PORT from 1 to 65534 (PORT+1 serves files)")
    return ("0.0.0.0" if host == "*" else host), port


def _local(setting: str, run: str, kind: Kind) -> Endpoint:
    name = hashlib.sha256(f"{run}/{kind}".encode()).hexdigest()[:16]
    folder = _socket_folder()
    news, files = folder / f"{name}.news", folder / f"{name}.files"
    return Endpoint(setting, news=f"ipc://{news}", files=f"ipc://{files}", lock=folder / f"{name}.lock")


def _socket_folder() -> Path:
    """A folder that only this user can enter. Raises ValueError where somebody else made it."""
    name = f"dance-{os.getuid()}"
    folder = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(folder)) + _NAME_BYTES > _LONGEST:
        folder = Path("/tmp") / name
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ValueError(f"{folder} belongs to somebody else: set TMPDIR to a folder of your own")
    folder.chmod(0o700)
    return folder
