"""One process at a time in a prepared folder."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dance.corpus import locking
from dance.corpus.locking import locked


def test_a_folder_that_was_removed_meanwhile_is_not_taken_for_locked(tmp_path: Path) -> None:
    home = tmp_path / "text-0123456789ab"
    with ThreadPoolExecutor(1) as pool:
        with locked(home):
            later = pool.submit(_enter, home)
            time.sleep(0.05)
            assert not later.done()
            home.rmdir()  # as one does who finds it empty
        assert later.result(timeout=5), "alone in the folder of that name"
    assert not home.exists()


def test_a_maker_that_never_ends_is_an_error_and_not_a_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "_PATIENCE_SECONDS", 0.2)
    home = tmp_path / "text-0123456789ab"
    wanted = r"text-0123456789ab: another process has held it .* end that one"
    with locked(home), ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match=wanted):
        pool.submit(_enter, home).result(timeout=5)


def _enter(home: Path) -> bool:
    with locked(home):
        return home.is_dir()
