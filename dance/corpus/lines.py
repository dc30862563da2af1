"""Lines of a text file with their numbers: no byte order mark, no CRLF, strict UTF-8."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

_BOM = b"\xef\xbb\xbf"


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, text) of every line that is not blank.

    Only line feeds end a line, so that other separators stay part of the text. Raises ValueError with
    file, line and byte offset where a byte is not UTF-8.
    """
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(_BOM) if number == 1 else raw
            text = _decode(path, number, offset + len(raw) - len(line), line).rstrip("\r\n")
            offset += len(raw)
            if text.strip():
                yield number, text


def _decode(path: Path, number: int, offset: int, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}:{number}: byte {offset + error.start} of the file (0x{line[error.start]:02x}) is not "
            "UTF-8; save the file as UTF-8"
        ) from None


def files_digest(paths: list[Path]) -> str:
    """Of the contents and their order; names do not count."""
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()
