"""The BM25 indexes of a prepared text, kept beside it: one of the documents, one of a split's queries.

    PREPARED/NAME-xxxxxxxxxxxx/ bm25/ documents/  queries-SPLIT/

Whoever asks first makes it, the others wait and read the same files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from .. import artefact
from ..corpus.collection import Collection
from ..corpus.locking import locked
from .bm25 import Index, OnProgress

log = logging.getLogger(__name__)


def documents(collection: Collection, on_progress: OnProgress | None = None) -> Index:
    """Titles and texts of all documents; positions are document rows. ``on_progress`` is given the texts read."""
    return _kept(collection, "documents", lambda: document_texts(collection, range(len(collection.texts))), on_progress)


def queries(collection: Collection, split: str, on_progress: OnProgress | None = None) -> Index:
    """The queries of a split; positions are places in ``collection.splits[split].queries``."""
    rows = collection.splits[split].queries.tolist()
    return _kept(collection, f"queries-{split}", lambda: (collection.queries[row] for row in rows), on_progress)


def document_texts(collection: Collection, rows: Iterable[int]) -> Iterator[str]:
    """What BM25 reads of each document, as a text or as a query."""
    return (f"{collection.titles[row]} {collection.texts[row]}" for row in rows)


def _kept(
    collection: Collection, name: str, texts: Callable[[], Iterable[str]], on_progress: OnProgress | None
) -> Index:
    path, source = collection.path.parent / "bm25" / name, artefact.digest(collection.path)
    try:
        return Index.open(path, source)
    except artefact.Broken:
        pass
    with locked(path.parent):
        try:
            return Index.open(path, source)  # another process made it meanwhile
        except artefact.Broken:
            artefact.remove(path)
        log.info("making the BM25 index %s", path)
        Index.of(_told(texts(), on_progress)).publish(path, source)
    return Index.open(path, source)


def _told(texts: Iterable[str], on_progress: OnProgress | None) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        yield text
        if on_progress is not None:
            on_progress(number)
