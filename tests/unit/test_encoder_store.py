"""Shards that are missing, cut or foreign are refused, never just absent."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from dance.artefact import Broken
from dance.encoder.store import EmbeddingShard, shard_name, writing


def write(folder: Path, rank: int, size: int, rows: list[int], step: int = 7) -> None:
    with writing(folder, rank, size, step, np.array(rows, dtype=np.int64), 4) as vectors:
        vectors[:] = np.array(rows, dtype=np.float32)[:, None]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for rank in range(3):
        write(tmp_path, rank, 3, list(range(rank, 10, 3)))
    return tmp_path


def test_what_was_written_is_read(three: Path) -> None:
    shards = [EmbeddingShard.open(three, rank, 3, 7) for rank in range(3)]
    assert [shard.rows.tolist() for shard in shards] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert all((shard.vectors == shard.rows[:, None]).all() for shard in shards)
    assert shards[0].vectors.dtype == np.float32 and not shards[0].vectors.flags.writeable


def test_e06_a_missing_shard_is_refused(three: Path) -> None:
    shutil.rmtree(three / shard_name(1, 3))
    with pytest.raises(Broken, match="shard_001_of_003"):
        EmbeddingShard.open(three, 1, 3, 7)


def test_e06_a_shard_of_another_step_is_refused(three: Path) -> None:
    write(three, 1, 3, [1, 4, 7], step=6)
    with pytest.raises(Broken, match="expected embeddings of step 7, found embeddings of step 6"):
        EmbeddingShard.open(three, 1, 3, 7)


def test_e06_a_cut_file_is_refused(three: Path) -> None:
    path = three / shard_name(0, 3) / "vectors.npy"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(Broken, match="expected 192 bytes, found 188"):
        EmbeddingShard.open(three, 0, 3, 7)


def test_a_second_writing_replaces_the_first(tmp_path: Path) -> None:
    write(tmp_path, 0, 1, [0, 1])
    write(tmp_path, 0, 1, [3, 4, 5])
    assert EmbeddingShard.open(tmp_path, 0, 1, 7).rows.tolist() == [3, 4, 5]


def test_the_disk_is_taken_before_vectors_are_written(tmp_path: Path) -> None:
    with writing(tmp_path, 0, 1, 0, np.arange(10_000), 64):
        (file,) = tmp_path.rglob("vectors.npy")
        assert file.stat().st_blocks * 512 >= 10_000 * 64 * 4, "not sparse: a full disk is an error here, not SIGBUS"
