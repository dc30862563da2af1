"""What every format of text is read into. A new format is one more module with a ``Source``.

    corpus, queries, judgements --reader--> Document, Query, Judgement --build--> Collection

Readers stream: nothing here holds a corpus in memory. Ids are opaque strings, kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from ..config import Data

Part = Literal["documents", "queries"]
# File -> the format of a folder that has it, plain or .gz.
_MARKS = {
    "corpus.jsonl": "beir",
    "collection.tsv": "msmarco_passage",
    "msmarco-docs.tsv": "msmarco_document",
    "psgs_w100.tsv": "dpr",
}


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


class Scored(NamedTuple):
    """What a teacher gives a pair."""

    query_id: str
    document_id: str
    score: float
    line: int


class Answered(NamedTuple):
    """Any of ``answers`` in a passage answers the query."""

    query_id: str
    answers: tuple[str, ...]
    regex: bool  # they are regular expressions, not strings
    split: str | None  # one that may have answers and no judgements; None: the splits of the judgements
    line: int


class Source(Protocol):
    """One body of text with queries and judgements. Every method may be called more than once.

    Readers raise ValueError with file, line and remedy where a line is not of their format.
    """

    @property
    def name(self) -> str:
        """Short, for folder names."""
        ...

    @property
    def unread(self) -> Sequence[str]:
        """Names of files that look like its own and are not read, for the report."""
        ...

    def documents(self) -> Iterator[Document]: ...

    def queries(self) -> Iterator[Query]: ...

    def judgements(self) -> Mapping[str, Iterator[Judgement]]:
        """By split."""
        ...

    def given(self) -> Mapping[str, Iterator[Judgement]]:
        """By split, pairs that the data gives as negatives, of any grade; empty where it has none."""
        ...

    def teacher(self) -> Mapping[str, Iterator[Scored]]:
        """By split; empty where there is no teacher."""
        ...

    def answers(self) -> Iterator[Answered]:
        """Empty where the data has none."""
        ...

    def place(self, part: str, line: int) -> str:
        """FILE:LINE for messages, the file alone where the line is 0.

        ``part`` is "documents", "queries", "answers", a split, "negatives/SPLIT" or "teacher/SPLIT".
        """
        ...

    def fingerprint(self) -> str:
        """Identity of the text itself, wherever it lies."""
        ...


def open_source(data: Data) -> Source:
    """The reader for ``data.format``. Raises ValueError where files are absent."""
    from . import beir, dpr, msmarco_document, msmarco_passage
    from .python_library import PythonLibraries, installed_libraries, library_at

    if data.path is None:
        if data.format not in ("auto", "python"):
            raise ValueError(f"data.format={data.format} needs data.path=FOLDER with its files")
        return PythonLibraries(installed_libraries())
    path = Path(data.path).expanduser().resolve()
    if data.format == "python":
        return PythonLibraries([library_at(path)])
    readers: dict[str, Callable[[Path], Source]] = {
        "beir": beir.BeirFolder.open,
        "msmarco_passage": msmarco_passage.open_folder,
        "msmarco_document": msmarco_document.open_folder,
        "dpr": dpr.DprFolder.open,
    }
    return readers[_format_of(path) if data.format == "auto" else data.format](path)


def _format_of(root: Path) -> str:
    """By the one file that each layout must have; BEIR, whose reader says what is absent, where none is there."""
    from .lines import found

    return next((name for file, name in _MARKS.items() if found(root, file) is not None), "beir")
