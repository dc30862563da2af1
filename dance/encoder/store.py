"""Embeddings on disk: one shard per process, complete or not there.

    FOLDER/shard_002_of_004/  vectors.npy [n, width] float32   rows.npy [n] int64   manifest.json

``rows`` says which document each vector is of, in the order of encoding; a document of several
chunks comes as often. The manifest holds the step of the encoder and the place of the shard among its
siblings, so that a missing, foreign or cut shard is refused and never just absent from the results.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import arrays, artefact

KIND = "embeddings"


@dataclass(frozen=True)
class EmbeddingShard:
    """The vectors of one process's share of the documents or their chunks, memory-mapped."""

    vectors: NDArray[np.float32]  # [n, width]
    rows: NDArray[np.int64]  # [n]
    path: Path
    step: int | None  # of the encoder

    @staticmethod
    def open(folder: Path, rank: int, size: int, step: int | None) -> EmbeddingShard:
        """Raises artefact.Broken where it is absent, cut, or of another encoder step."""
        path = folder / shard_name(rank, size)
        manifest = artefact.verify(path)
        if manifest.kind != KIND or manifest.step != step:
            raise artefact.Broken(
                f"{path}: expected {KIND} of step {step}, found {manifest.kind} of step {manifest.step}"
            )
        vectors, rows = arrays.load(path / "vectors.npy"), arrays.load(path / "rows.npy")
        if len(vectors) != len(rows):
            raise artefact.Broken(f"{path}: {len(vectors)} vectors for {len(rows)} rows; make it again")
        return EmbeddingShard(vectors, rows, path, step)


@contextmanager
def writing(
    folder: Path, rank: int, size: int, step: int | None, rows: NDArray[np.int64], width: int
) -> Iterator[NDArray[np.float32]]:
    """An array [len(rows), width] on disk to fill; the shard appears when the block ends, whole."""
    path = folder / shard_name(rank, size)
    artefact.remove(path)
    facts = {"rank": rank, "size": size, "width": width}
    with artefact.publishing(path, KIND, step, facts) as temporary:
        arrays.save(temporary / "rows.npy", rows)
        vectors = _create(temporary / "vectors.npy", (len(rows), width))
        yield vectors
        if isinstance(vectors, np.memmap):
            vectors.flush()


def shard_name(rank: int, size: int) -> str:
    return f"shard_{rank:03d}_of_{size:03d}"


def _create(path: Path, shape: tuple[int, int]) -> NDArray[np.float32]:
    if 0 in shape:  # nothing to map: a process without documents
        arrays.save(path, np.empty(shape, dtype=np.float32))
        return np.empty(shape, dtype=np.float32)
    vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    _reserve(path)
    return vectors


def _reserve(path: Path) -> None:
    """Disk for the whole file, or OSError now: a map that is filled on a full disk kills its process.

    File systems that cannot are let be; where the C library does it for them, the file is written twice.
    """
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
