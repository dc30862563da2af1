"""MS MARCO documents: ``msmarco-docs.tsv`` (id, url, title, body), queries and qrels under official names.

A document's title has the URL on its first line and the title on its second, its text is the body: the papers
join the three, in this order, and ``model.document_template`` says how. The
ranked lists that come with the data (six TREC columns) give negatives: what is ranked and not relevant.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .columns import wrong_columns
from .lines import read_lines
from .msmarco import Layout, MsMarcoFolder, SplitFiles, split_lines
from .reading import Document, Judgement


def open_folder(root: Path) -> MsMarcoFolder:
    """Raises ValueError that lists the official names where a needed file is absent."""
    return MsMarcoFolder.open(root, _LAYOUT)


def _documents(path: Path) -> Iterator[Document]:
    for line, (name, url, title, body) in split_lines(path, ("id", "url", "title", "body")):
        yield Document(name, f"{url}\n{title}" if url.strip() or title.strip() else "", body, line)


def _ranked(path: Path) -> Iterator[Judgement]:
    for number, line in read_lines(path):
        fields = line.split()
        if len(fields) != 6:
            expected = "6 columns (query id, Q0, document id, rank, score, tag)"
            raise wrong_columns(path, number, line, expected, len(fields))
        yield Judgement(fields[0], fields[2], 1, number)


_LAYOUT = Layout(
    documents="msmarco-docs.tsv",
    splits={
        "train": SplitFiles(
            queries=("msmarco-doctrain-queries.tsv",),
            qrels=("msmarco-doctrain-qrels.tsv",),
            given=("msmarco-doctrain-top100",),
        ),
        "dev": SplitFiles(
            queries=("msmarco-docdev-queries.tsv",),
            qrels=("msmarco-docdev-qrels.tsv",),
            given=("msmarco-docdev-top100",),
        ),
    },
    read_documents=_documents,
    read_given=_ranked,
)
