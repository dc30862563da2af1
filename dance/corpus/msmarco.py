"""What the two MS MARCO collections share: official files of tab-separated lines, without any quoting.

Each file may be plain or .gz. Queries are two columns (id, text), judgements three or four
(query, document, grade, with or without 0 between the ids), separated by tabs or white space. A line of
text is split at the first tabs only, so that the last column keeps those that it holds.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from . import columns
from .lines import at, file_and_line, files_digest, found, line_of, read_lines
from .reading import Answered, Document, Judgement, Query, Scored

log = logging.getLogger(__name__)


class SplitFiles(NamedTuple):
    """Official names; of several, the first that is there is taken."""

    queries: tuple[str, ...]
    qrels: tuple[str, ...]
    given: tuple[str, ...]  # optional


class Layout(NamedTuple):
    documents: str
    splits: Mapping[str, SplitFiles]
    read_documents: Callable[[Path], Iterator[Document]]
    read_given: Callable[[Path], Iterator[Judgement]]


class _Split(NamedTuple):
    queries: Path
    qrels: Path
    given: Path | None


@dataclass(frozen=True)
class MsMarcoFolder:
    """A ``Source``. A split is there where its judgements are."""

    root: Path
    layout: Layout
    corpus: Path
    splits: Mapping[str, _Split]

    @classmethod
    def open(cls, root: Path, layout: Layout) -> MsMarcoFolder:
        """Raises ValueError that lists the official names where a needed file is absent."""
        if not root.is_dir():
            raise ValueError(f"data.path: no such folder: {root}")
        corpus = found(root, layout.documents)
        qrels = {split: _first(root, files.qrels) for split, files in layout.splits.items()}
        splits = {}
        for split, path in qrels.items():
            files = layout.splits[split]
            queries = _first(root, files.queries)
            if path is not None and queries is not None:
                splits[split] = _Split(queries, path, _first(root, files.given))
        there = {split for split, path in qrels.items() if path is not None}
        if corpus is None or not splits or there - set(splits):
            raise ValueError(_missing(root, layout, corpus, there))
        return cls(root, layout, corpus, splits)

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def unread(self) -> tuple[str, ...]:
        return ()

    def documents(self) -> Iterator[Document]:
        return self.layout.read_documents(self.corpus)

    def queries(self) -> Iterator[Query]:
        for number, files in enumerate(self.splits.values()):
            for line, (name, text) in split_lines(files.queries, ("id", "text")):
                yield Query(name, text, line_of(number, line))

    def judgements(self) -> dict[str, Iterator[Judgement]]:
        return {split: columns.judgements(files.qrels, trec=True) for split, files in self.splits.items()}

    def given(self) -> dict[str, Iterator[Judgement]]:
        there = {split: files.given for split, files in self.splits.items() if files.given is not None}
        return {split: self.layout.read_given(path) for split, path in there.items()}

    def teacher(self) -> dict[str, Iterator[Scored]]:
        return {}

    def answers(self) -> Iterator[Answered]:
        return iter(())

    def place(self, part: str, line: int) -> str:
        if part == "documents":
            return at(self.corpus, line)
        if part == "queries":
            number, line = file_and_line(line)
            return at(list(self.splits.values())[number].queries, line)
        split = part.split("/")[-1]
        if split not in self.splits:
            names = self.layout.splits[split].qrels if split in self.layout.splits else (f"qrels of {split}",)
            return str(self.root / names[0])
        files = self.splits[split]
        return at(files.given if "/" in part and files.given else files.qrels, line)

    def fingerprint(self) -> str:
        parts = [str(part.name) for files in self.splits.values() for part in files if part is not None]
        paths = [part for files in self.splits.values() for part in files if part is not None]
        contents = files_digest([self.corpus, *paths])
        return hashlib.sha256("\n".join([contents, *self.splits, *parts]).encode()).hexdigest()


def split_lines(path: Path, names: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """(line, columns) split at the first tabs alone. Raises ValueError where there are too few, or no id."""
    for number, line in read_lines(path):
        fields = line.split("\t", len(names) - 1)
        if len(fields) < len(names):
            expected = f"{len(names)} columns ({', '.join(names)}) separated by tabs"
            raise columns.wrong_columns(path, number, line, expected, len(fields))
        if not fields[0].strip():
            raise ValueError(f"{path}:{number}: the id is empty; give every line an id of its own: {line[:80]!r}")
        yield number, fields


def _first(root: Path, names: tuple[str, ...]) -> Path | None:
    return next((path for name in names if (path := found(root, name)) is not None), None)


def _missing(root: Path, layout: Layout, corpus: Path | None, there: set[str]) -> str:
    """What a folder needs and what it lacks, by the official names."""
    splits = {split: files for split, files in layout.splits.items() if not there or split in there}
    absent = [] if corpus is not None else [layout.documents]
    for files in splits.values():
        absent += [" or ".join(names) for names in files[:2] if _first(root, names) is None]
    whole = [layout.documents] + [" or ".join(names) for files in layout.splits.values() for names in files[:2]]
    optional = [" or ".join(files.given) for files in layout.splits.values() if files.given]
    return (
        f"{root}: no {', no '.join(absent)}. Expected under their official names, plain or .gz: {', '.join(whole)}; "
        f"optional: {', '.join(optional)}"
    )
