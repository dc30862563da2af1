from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.corpus.ids import IdIndex
from dance.corpus.strings import StringTable, write_strings

texts = st.text(st.characters(exclude_categories=["Cs"]))


def table_of(folder: Path, strings: list[str]) -> StringTable:
    write_strings(folder / "table", strings)
    return StringTable(folder / "table")


@given(st.lists(texts, max_size=30))
def test_strings_come_back_byte_for_byte(tmp_path_factory: pytest.TempPathFactory, strings: list[str]) -> None:
    table = table_of(tmp_path_factory.mktemp("t"), strings)
    assert len(table) == len(strings)
    assert list(table) == strings
    assert [table[row] for row in range(len(table))] == strings


def test_more_strings_than_are_held_in_memory(tmp_path: Path) -> None:
    strings = [f"text {i}" for i in range(10_000)]
    assert list(table_of(tmp_path, strings)) == strings


def test_row_beyond_the_end_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, ["a"])
    with pytest.raises(IndexError, match="row 1 of 1"):
        table[1]


@given(st.lists(texts, max_size=30), st.lists(texts, max_size=10))
def test_ids_are_found_at_their_first_row(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], others: list[str]
) -> None:
    index = IdIndex(table_of(tmp_path_factory.mktemp("t"), ids))
    wanted = ids + others
    assert index.rows(wanted).tolist() == [ids.index(name) if name in ids else -1 for name in wanted]
    repeated = [(ids.index(name), row) for row, name in enumerate(ids) if ids.index(name) != row]
    assert list(index.repeated()) == repeated


def test_d04_ids_of_equal_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dance.corpus.ids.hash", lambda name: 7, raising=False)
    index = IdIndex(table_of(tmp_path, ["7", "007", "0007", "007"]))
    assert index.rows(["0007", "007", "7", "07"]).tolist() == [2, 1, 0, -1]
    assert list(index.repeated()) == [(1, 3)]
