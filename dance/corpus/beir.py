"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and one ``qrels/SPLIT.tsv`` per split.

Beside them may lie, as far as the data has it: ``negatives/SPLIT.tsv`` (query-id, corpus-id),
``teacher/SPLIT.tsv`` (query-id, corpus-id, score), ``answers.jsonl`` ({"_id", "answers": [...]}, and
"regex": true where they are regular expressions).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from . import columns
from .lines import at, files_digest, read_lines
from .reading import Answered, Document, Judgement, Query, Scored

_SPLIT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ANSWERS = "answers.jsonl"
_PAIRS = ("qrels", "negatives", "teacher")  # folders with a file per split
Record = TypeVar("Record", bound="_Named")


class _Named(msgspec.Struct):
    """Whole-number ids are taken as they are spelt."""

    id: str | int = msgspec.field(name="_id")


class _Text(_Named):
    """A line of queries.jsonl."""

    text: str | None


class _Titled(_Text):
    """A line of corpus.jsonl; other fields (metadata) are left aside."""

    title: str | None = None


class _Answers(_Named):
    """A line of answers.jsonl."""

    answers: tuple[str, ...]
    regex: bool = False


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
        if not source._splits("qrels"):
            raise ValueError(f"{root / 'qrels'}: no judgements; a BEIR folder has qrels/train.tsv and qrels/dev.tsv")
        return source

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def unread(self) -> tuple[str, ...]:
        return ()

    def documents(self) -> Iterator[Document]:
        for line, record in _records(self.root / "corpus.jsonl", _Titled):
            yield Document(str(record.id), record.title or "", record.text or "", line)

    def queries(self) -> Iterator[Query]:
        for line, record in _records(self.root / "queries.jsonl", _Text):
            yield Query(str(record.id), record.text or "", line)

    def judgements(self) -> dict[str, Iterator[Judgement]]:
        return {split: columns.judgements(path) for split, path in self._splits("qrels").items()}

    def given(self) -> dict[str, Iterator[Judgement]]:
        return {split: columns.pairs(path) for split, path in self._splits("negatives").items()}

    def teacher(self) -> dict[str, Iterator[Scored]]:
        return {split: columns.scored(path) for split, path in self._splits("teacher").items()}

    def answers(self) -> Iterator[Answered]:
        if (self.root / _ANSWERS).is_file():
            for line, record in _records(self.root / _ANSWERS, _Answers):
                yield Answered(str(record.id), record.answers, record.regex, None, line)

    def place(self, part: str, line: int) -> str:
        files = {"documents": "corpus.jsonl", "queries": "queries.jsonl", "answers": _ANSWERS}
        split = part if "/" in part else f"qrels/{part}"
        return at(self.root / files.get(part, f"{split}.tsv"), line)

    def fingerprint(self) -> str:
        beside = {f"{kind}/{split}": p for kind in _PAIRS for split, p in self._splits(kind).items()}
        if (self.root / _ANSWERS).is_file():
            beside[_ANSWERS] = self.root / _ANSWERS
        paths = [self.root / "corpus.jsonl", self.root / "queries.jsonl", *beside.values()]
        return hashlib.sha256("\n".join([files_digest(paths), *beside]).encode()).hexdigest()

    def _splits(self, kind: str) -> dict[str, Path]:
        paths = sorted((self.root / kind).glob("*.tsv"))
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
                f"{path}:{number}: {error}; each line is one JSON object with {_fields(kind)}: {line[:80]!r}"
            ) from None
        if record.id == "":
            raise ValueError(f"{path}:{number}: _id is empty; give every line an id of its own")
        yield number, record


def _fields(kind: type[msgspec.Struct]) -> str:
    needed = [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
    return " and ".join(needed)
