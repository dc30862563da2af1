"""What every format of text is read into. A new format is one more module with a ``Source``.

    corpus, queries, judgements --reader--> Document, Query, Judgement --build--> Collection

Readers stream: nothing here holds a corpus in memory. Ids are opaque strings, kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from ..config import Data

Part = Literal["documents", "queries"]


class Document(NamedTuple):
    id: str
    title: str  # "" where there is none
    text: str
    line: int  # in the file it comes from


class Query(NamedTuple):
    id: str
    text: str
    line: int


class Judgement(NamedTuple):
    query_id: str
    document_id: str
    grade: int  # relevant above 0
    line: int


class Source(Protocol):
    """One body of text with queries and judgements. Every method may be called more than once.

    Readers raise ValueError with file, line and remedy where a line is not of their format.
    """

    @property
    def name(self) -> str:
        """Short, for folder names."""
        ...

    def documents(self) -> Iterator[Document]: ...

    def queries(self) -> Iterator[Query]: ...

    def judgements(self) -> Mapping[str, Iterator[Judgement]]:
        """By split."""
        ...

    def place(self, part: str, line: int) -> str:
        """FILE:LINE of "documents", "queries" or a split, for messages."""
        ...

    def fingerprint(self) -> str:
        """Identity of the text itself, wherever it lies."""
        ...


def open_source(data: Data) -> Source:
    """The reader for ``data.format``. Raises ValueError where files are absent."""
    from .beir import BeirFolder
    from .python_library import PythonLibraries, installed_libraries, library_at

    if data.format == "beir" or (data.format == "auto" and data.path is not None):
        assert data.path is not None  # Config.check
        return BeirFolder.open(Path(data.path).expanduser().resolve())
    if data.path is not None:
        return PythonLibraries([library_at(Path(data.path).expanduser().resolve())])
    return PythonLibraries(installed_libraries())
