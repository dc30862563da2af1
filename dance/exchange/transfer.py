"""How the files of one artefact cross: ``serve`` on the publisher's side, ``Fetch`` on the subscriber's.

The manifest comes first, against the digest that was announced; it names every other file with size
and digest. Files come one after another, each in chunks, several of them asked for at a time. A
chunk that does not come is asked for again when the line has been silent for a while, a file whose
digest differs once complete is fetched anew, and the folder gets its name when all of it is there.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .. import artefact
from ..artefact import MANIFEST, Broken, File
from .messages import MAX_CHUNK, Chunk, Offer, Refusal, Want

WINDOW = 8  # chunks on their way at a time
_PATIENCE_LIMIT = 15.0  # seconds of silence, at most, before asking again
_ATTEMPTS = 3  # times that a file is fetched whole before it is given up

log = logging.getLogger(__name__)


def serve(want: Want, folder: Path) -> Chunk | Refusal:
    """The piece asked for, if the artefact in ``folder`` is the one meant and lists the file."""
    try:
        raw = (folder / MANIFEST).read_bytes()
        if hashlib.sha256(raw).hexdigest() != want.digest:
            return _refuse(want, "another artefact has its place")
        if want.name != MANIFEST and want.name not in artefact.decode_manifest(raw).files:
            return _refuse(want, f"no file {want.name!r} in it")
        with (folder / want.name).open("rb") as file:
            file.seek(want.offset)
            payload = file.read(want.length)
        if len(payload) != want.length:
            return _refuse(want, f"{want.name} is shorter than announced")
    except (OSError, Broken) as error:
        return _refuse(want, f"gone ({error})")
    return Chunk(run=want.run, kind=want.kind, digest=want.digest, name=want.name, offset=want.offset, payload=payload)


def is_offered(path: Path, offer: Offer) -> bool:
    """Whether a folder holds, complete, the artefact that was announced; never raises."""
    try:
        if artefact.digest(path) != offer.digest:
            return False
        artefact.verify(path)
    except (OSError, Broken):  # absent, broken, or vanishing while we look
        return False
    return True


def _refuse(want: Want, reason: str) -> Refusal:
    return Refusal(run=want.run, kind=want.kind, digest=want.digest, reason=f"step {want.step}: {reason}")


class Piece(NamedTuple):
    name: str
    offset: int
    length: int


class Fetch:
    """One artefact on its way to ``target``. Knows no clock and no socket: both are given."""

    def __init__(self, offer: Offer, target: Path, chunk_bytes: int, retry_seconds: float, now: float) -> None:
        self.offer = offer
        self.again = 0  # pieces that had to be asked for more than once
        self._target = target
        self._chunk_bytes = min(chunk_bytes, MAX_CHUNK)
        self._first_patience = self._patience = retry_seconds
        self._heard = now  # when the last piece came, or the last silence was noticed
        self._draft = artefact.draft(target)
        self._waiting: list[tuple[str, File]] = []  # files not begun
        self._file: _Incoming | None = None
        self.received = 0  # bytes
        self.total = offer.size  # bytes, all files as soon as the manifest is here
        self._begin(MANIFEST, File(size=offer.size, sha256=offer.digest))

    @property
    def complete(self) -> bool:
        return self._file is None

    def pieces(self, now: float) -> list[Piece]:
        """What to ask for now. After a silence that is everything outstanding, ever less often."""
        if self._file is None:
            return []
        if now - self._heard >= self._patience:
            self._heard = now
            self._patience = min(2 * self._patience, _PATIENCE_LIMIT)
            self.again += len(self._file.asked)
            return list(self._file.asked.values())
        return self._file.more(WINDOW)

    def hurry(self) -> None:
        """Ask again at the next occasion: the source is back, and may know nothing of what was asked."""
        self._heard, self._patience = -math.inf, self._first_patience

    def accept(self, chunk: Chunk, now: float) -> None:
        """Take a chunk in; one that was not asked for, or came twice, changes nothing.

        Raises Broken where the artefact cannot become what was announced.
        """
        if self._file is None:
            return
        self._heard, self._patience = now, self._first_patience
        if self._file.accept(chunk):
            self.received += len(chunk.payload)
            self._next_file()

    def place(self) -> Path:
        """Flush it, then give it its name, replacing a copy that is not the one announced."""
        assert self.complete
        artefact.flush(self._draft)
        if not is_offered(self._target, self.offer):
            artefact.remove(self._target)
        artefact.place(self._draft, self._target)
        self.abandon()
        return self._target

    def abandon(self) -> None:
        """Leave nothing of it behind."""
        if self._file is not None:
            self._file.close()
        shutil.rmtree(self._draft, ignore_errors=True)

    def _begin(self, name: str, file: File) -> None:
        self._file = _Incoming(self._draft / name, name, file, self._chunk_bytes)

    def _next_file(self) -> None:
        """Close every file that is whole, and go on to the next; files without bytes are whole at once."""
        while self._file is not None and self._file.whole:
            done, self._file = self._file, None
            if not done.sound():
                log.warning("%s of step %d differs from its digest: fetched again", done.name, self.offer.step)
                self.received -= done.size
                self._file = done.anew()
            elif done.name == MANIFEST:
                self._read_manifest()
            if self._file is None and self._waiting:
                self._begin(*self._waiting.pop())

    def _read_manifest(self) -> None:
        manifest = artefact.decode_manifest((self._draft / MANIFEST).read_bytes())
        self._waiting = sorted(manifest.files.items(), reverse=True)
        self.total += sum(file.size for file in manifest.files.values())


class _Incoming:
    """One file, filled chunk by chunk in any order."""

    def __init__(self, path: Path, name: str, file: File, chunk_bytes: int, attempt: int = 1) -> None:
        self.name = name
        self.size = file.size
        self.asked: dict[int, Piece] = {}  # offset -> piece on its way
        self._path = path
        self._file = file
        self._chunk_bytes = chunk_bytes
        self._attempt = attempt
        self._missing = file.size  # bytes
        self._todo = self._pieces()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = path.open("wb")

    @property
    def whole(self) -> bool:
        return self._missing == 0

    def more(self, window: int) -> list[Piece]:
        """Pieces never asked for, as many as the window has room for."""
        fresh = list(itertools.islice(self._todo, window - len(self.asked)))
        self.asked.update((piece.offset, piece) for piece in fresh)
        return fresh

    def accept(self, chunk: Chunk) -> bool:
        """Whether it was on its way, and is right in name and length."""
        piece = self.asked.get(chunk.offset)
        if piece is None or chunk.name != self.name or len(chunk.payload) != piece.length:
            return False
        del self.asked[chunk.offset]
        self._handle.seek(chunk.offset)
        self._handle.write(chunk.payload)
        self._missing -= piece.length
        return True

    def sound(self) -> bool:
        """Close it and compare its digest."""
        self.close()
        return artefact.file_digest(self._path) == self._file.sha256

    def anew(self) -> _Incoming:
        """From the start. Raises Broken where that has been tried often enough."""
        if self._attempt == _ATTEMPTS:
            raise Broken(f"{self.name}: fetched {_ATTEMPTS} times, and its digest never was the announced one")
        return _Incoming(self._path, self.name, self._file, self._chunk_bytes, self._attempt + 1)

    def close(self) -> None:
        self._handle.close()

    def _pieces(self) -> Iterator[Piece]:
        for offset in range(0, self._file.size, self._chunk_bytes):
            yield Piece(self.name, offset, min(self._chunk_bytes, self._file.size - offset))
