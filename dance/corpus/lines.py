"""Lines of text files, plain or .gz, with their numbers: no byte order mark, no CRLF, strict UTF-8."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

_BOM = b"\xef\xbb\xbf"
_GZ = ".gz"
_FILE = 1 << 40  # more lines than any file has


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, text) of every line that is not blank.

    Only line feeds end a line, so that other separators stay part of the text. Raises ValueError with
    file, line and byte offset where a byte is not UTF-8.
    """
    for number, text in raw_lines(path):
        if text.strip():
            yield number, text.rstrip("\r\n")


def raw_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, text with its line end) of every line. Raises as ``read_lines``."""
    offset = 0
    with opened(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(_BOM) if number == 1 else raw
            yield number, _decode(path, number, offset + len(raw) - len(line), line)
            offset += len(raw)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a plain or compressed file. Raises ValueError where a compressed one is cut or broken."""
    if path.suffix != _GZ:
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as unpacked:
            yield cast(IO[bytes], unpacked)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file ({error}); fetch it again") from None


def found(folder: Path, name: str) -> Path | None:
    """The file of that name in the folder, plain or with .gz after it."""
    for path in (folder / name, folder / f"{name}{_GZ}"):
        if path.is_file():
            return path
    return None


def line_of(file: int, line: int) -> int:
    """One number for a line of the file-th of several files; ``file_and_line`` takes it apart."""
    return file * _FILE + line


def file_and_line(number: int) -> tuple[int, int]:
    return divmod(number, _FILE)


def at(path: Path, line: int) -> str:
    """FILE:LINE, or the file alone where the line is 0."""
    return f"{path}:{line}" if line else str(path)


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
