"""Folders of files that are complete as soon as their name is visible.

A writer fills a temporary folder, a manifest with every file's size and digest is written last,
all is flushed to disk, then the folder is renamed. A kill at any moment leaves either the whole
artefact or a leftover that ``sweep`` removes; a reader never guesses and never waits.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

MANIFEST = "manifest.json"
_TEMPORARY = ".tmp-"
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class File(msgspec.Struct, frozen=True):
    """One file of an artefact; dtype and shape where it is a flat array."""

    size: int  # bytes
    sha256: str
    dtype: str | None = None
    shape: tuple[int, ...] | None = None


class Manifest(msgspec.Struct, frozen=True):
    """What an artefact holds. ``facts`` are its maker's own: counts, fingerprints, settings."""

    kind: str
    step: int | None
    files: dict[str, File]
    facts: dict[str, Any] = {}


class Broken(ValueError):
    """An artefact that is not what its manifest says, or has none."""


@contextmanager
def publishing(path: Path, kind: str, step: int | None = None, facts: dict[str, Any] | None = None) -> Iterator[Path]:
    """A temporary folder to fill; becomes ``path`` when the block ends, vanishes when it raises.

    ``facts`` may be filled inside the block. Files that end in .npy have their dtype and shape in
    the manifest. An artefact that is already there is left as it is.
    """
    temporary = draft(path)
    try:
        yield temporary
        seal(temporary, kind, step, facts or {})
        place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def draft(path: Path) -> Path:
    """An empty temporary folder beside ``path``, of this writer alone; ``sweep`` knows it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{_TEMPORARY}{path.name}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary.mkdir()
    return temporary


def seal(folder: Path, kind: str, step: int | None, facts: dict[str, Any]) -> None:
    """Write the manifest of a filled folder, last, and flush everything."""
    files = {p.relative_to(folder).as_posix(): _describe(p) for p in sorted(folder.rglob("*")) if p.is_file()}
    manifest = Manifest(kind=kind, step=step, files=files, facts=facts)
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
    flush(folder)


def flush(folder: Path) -> None:
    """Everything in a folder, and its names, down to the disk."""
    for file in folder.rglob("*"):
        _flush(file)
    _flush(folder)


def place(temporary: Path, path: Path) -> None:
    """Give a sealed folder its final name; whoever was first wins."""
    try:
        temporary.rename(path)
    except OSError:
        if not (path / MANIFEST).is_file():
            raise
    _flush(path.parent)


def read_manifest(path: Path) -> Manifest:
    """Raises Broken where there is none."""
    try:
        return decode_manifest((path / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise Broken(f"{path}: incomplete or absent (no {MANIFEST}); it has to be made again") from None


def decode_manifest(raw: bytes) -> Manifest:
    """From bytes of any origin: refuses names that could leave the artefact's folder. Raises Broken."""
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
    except msgspec.DecodeError as error:
        raise Broken(f"not a manifest: {error}") from None
    for name in manifest.files:
        if not all(_SAFE_NAME.fullmatch(part) for part in name.split("/")) or name == MANIFEST:
            raise Broken(f"manifest names a file that is not allowed: {name!r}")
    return manifest


def digest(path: Path) -> str:
    """Identity of an artefact: the digest of its manifest, hence of every file in it."""
    try:
        return hashlib.sha256((path / MANIFEST).read_bytes()).hexdigest()
    except FileNotFoundError:
        raise Broken(f"{path}: incomplete or absent (no {MANIFEST}); it has to be made again") from None


def verify(path: Path, contents: bool = False) -> Manifest:
    """Every file there with its size (and digest, if ``contents``). Raises Broken with both values."""
    manifest = read_manifest(path)
    for name, file in manifest.files.items():
        found = (path / name).stat().st_size if (path / name).is_file() else None
        if found != file.size:
            raise Broken(f"{path / name}: expected {file.size} bytes, found {found}; it has to be made again")
        if contents and file_digest(path / name) != file.sha256:
            raise Broken(f"{path / name}: contents differ from the manifest; it has to be made again")
    return manifest


def replace_file(path: Path, contents: bytes, durable: bool = True) -> None:
    """A single file, whole under its name at every moment; unless ``durable`` a loss of power may empty it."""
    temporary = path.with_name(f"{_TEMPORARY}{path.name}")
    temporary.write_bytes(contents)
    if durable:
        _flush(temporary)
    temporary.rename(path)
    if durable:
        _flush(path.parent)


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sweep(folder: Path) -> None:
    """Remove what interrupted writers left behind. Only for the folder's one owner, at its start."""
    for leftover in folder.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def remove(path: Path) -> None:
    """Out of sight first, then off the disk, so that nobody sees half of it."""
    doomed = path.parent / f"{_TEMPORARY}removed-{path.name}-{os.getpid()}"
    try:
        path.rename(doomed)
    except FileNotFoundError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def _describe(path: Path) -> File:
    from . import arrays

    dtype, shape = arrays.header(path) if path.suffix == ".npy" else (None, None)
    return File(size=path.stat().st_size, sha256=file_digest(path), dtype=dtype, shape=shape)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
