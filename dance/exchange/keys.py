"""Keys that let only the machines of one run talk to each other (CURVE: encrypted, both sides proven).

All processes of a run share one pair: whoever has the folder is in, nobody else is.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

NAME = "exchange.keys.json"


class Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A CURVE pair in Z85 text, 40 characters each."""

    public: str
    secret: str


def make_keys(folder: Path) -> Path:
    """Draw a pair into ``folder``, readable by this user alone. Raises ValueError where there is one."""
    from .channel import draw_pair

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / NAME
    public, secret = draw_pair()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ValueError(f"{path} exists: use it, or remove it on every machine first") from None
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(Keys(public=public, secret=secret)) + b"\n")
    return path


def load_keys(folder: Path) -> Keys:
    """Raises ValueError that says what to do."""
    path = folder.expanduser() / NAME
    try:
        keys = msgspec.json.decode(path.read_bytes(), type=Keys)
    except OSError as error:
        raise ValueError(f"exchange.keys={folder}: {error}; make them with `dance keys {folder}`") from None
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}; remove it and make new ones with `dance keys {folder}`") from None
    if len(keys.public) != 40 or len(keys.secret) != 40:
        raise ValueError(f"{path}: not a pair of keys; remove it and make new ones with `dance keys {folder}`")
    return keys
