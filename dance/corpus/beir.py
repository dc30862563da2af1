"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and one ``qrels/SPLIT.tsv`` per split."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from .lines import files_digest, read_lines
from .reading import Document, Judgement, Query

_SPLIT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_COLUMNS = "query id, document id, grade"
Record = TypeVar("Record", bound="_Text")


class _Text(msgspec.Struct):
    """A line of queries.jsonl. Whole-number ids are taken as they are spelt."""

    id: str | int = msgspec.field(name="_id")
    text: str | None


class _Titled(_Text):
    """A line of corpus.jsonl; other fields (metadata) are left aside."""

    title: str | None = None


@dataclass(frozen=True)
class BeirFolder:
    """A ``Source``."""

    root: Path

    @classmethod
    def open(cls, root: Path) -> BeirFolder:
        """Raises ValueError that names the first file that is not there."""
        if not root.is_dir():
            raise ValueError(f"data.path: no such folder: {root}")
        for needed in ("corpus.jsonl", "queries.jsonl"):
            if not (root / needed).is_file():
                raise ValueError(f"{root / needed}: no such file; a BEIR folder has it beside qrels/")
        source = cls(root)
        if not source._splits():
            raise ValueError(f"{root / 'qrels'}: no judgements; a BEIR folder has qrels/train.tsv and qrels/dev.tsv")
        return source

    @property
    def name(self) -> str:
        return self.root.name

    def documents(self) -> Iterator[Document]:
        for line, record in _records(self.root / "corpus.jsonl", _Titled):
            yield Document(str(record.id), record.title or "", record.text or "", line)

    def queries(self) -> Iterator[Query]:
        for line, record in _records(self.root / "queries.jsonl", _Text):
            yield Query(str(record.id), record.text or "", line)

    def judgements(self) -> dict[str, Iterator[Judgement]]:
        return {split: _judgements(path) for split, path in self._splits().items()}

    def place(self, part: str, line: int) -> str:
        files = {"documents": self.root / "corpus.jsonl", "queries": self.root / "queries.jsonl"}
        return f"{files.get(part, self.root / 'qrels' / f'{part}.tsv')}:{line}"

    def fingerprint(self) -> str:
        splits = self._splits()
        contents = files_digest([self.root / "corpus.jsonl", self.root / "queries.jsonl", *splits.values()])
        return hashlib.sha256("\n".join([contents, *splits]).encode()).hexdigest()

    def _splits(self) -> dict[str, Path]:
        paths = sorted((self.root / "qrels").glob("*.tsv"))
        for path in paths:
            if not _SPLIT_NAME.fullmatch(path.stem):
                raise ValueError(f"{path}: name the split with letters, digits, '_', '-' and '.' only")
        return {path.stem: path for path in paths}


def _records(path: Path, kind: type[Record]) -> Iterator[tuple[int, Record]]:
    decoder = msgspec.json.Decoder(kind)
    for number, line in read_lines(path):
        try:
            record = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise ValueError(
                f"{path}:{number}: {error}; each line is one JSON object with _id and text: {line[:80]!r}"
            ) from None
        if record.id == "":
            raise ValueError(f"{path}:{number}: _id is empty; give every line an id of its own")
        yield number, record


def _judgements(path: Path) -> Iterator[Judgement]:
    for number, line in read_lines(path):
        fields = line.split("\t")
        if len(fields) != 3:
            raise ValueError(
                f"{path}:{number}: expected 3 columns ({_COLUMNS}) separated by tabs, found {len(fields)}: "
                f"{line[:80]!r}"
            )
        if number == 1 and _number(fields[2]) is None:
            continue  # the header
        yield Judgement(fields[0], fields[1], _grade(path, number, fields[2]), number)


_HIGHEST_GRADE = 1_000_000  # above it is no grade but a slip of columns


def _grade(path: Path, number: int, field: str) -> int:
    value = _number(field)
    if value is None or not value.is_integer() or abs(value) > _HIGHEST_GRADE:
        raise ValueError(f"{path}:{number}: grade {field!r} is not a whole number; the columns are {_COLUMNS}")
    return int(value)


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None
