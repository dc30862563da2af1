"""MS MARCO passages: ``collection.tsv`` (id, text), queries and qrels under their official names.

The split "dev" is the small one (6,980 queries) where its judgements are there, else the whole. Triples
(query, relevant, negative) give the negatives of the BM25 warm-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .msmarco import Layout, MsMarcoFolder, SplitFiles, split_lines
from .reading import Document, Judgement


def open_folder(root: Path) -> MsMarcoFolder:
    """Raises ValueError that lists the official names where a needed file is absent."""
    return MsMarcoFolder.open(root, _LAYOUT)


def _documents(path: Path) -> Iterator[Document]:
    for line, (name, text) in split_lines(path, ("id", "text")):
        yield Document(name, "", text, line)


def _negatives(path: Path) -> Iterator[Judgement]:
    for line, (query, _, negative) in split_lines(path, ("query id", "relevant id", "negative id")):
        yield Judgement(query, negative, 1, line)


_LAYOUT = Layout(
    documents="collection.tsv",
    splits={
        "train": SplitFiles(
            queries=("queries.train.tsv",),
            qrels=("qrels.train.tsv",),
            given=("qidpidtriples.train.full.2.tsv", "qidpidtriples.train.full.tsv"),
        ),
        "dev": SplitFiles(
            queries=("queries.dev.tsv", "queries.dev.small.tsv"),
            qrels=("qrels.dev.small.tsv", "qrels.dev.tsv"),
            given=(),
        ),
    },
    read_documents=_documents,
    read_given=_negatives,
)
