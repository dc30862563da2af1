"""A source becomes a Collection: read, check, join, limit, write. Bad input leaves nothing behind."""

from __future__ import annotations

import logging
import shutil
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import arrays, artefact
from ..config import Config
from .collection import KIND, require_splits
from .drops import Drops
from .ids import IdIndex
from .joining import UNKNOWN_DOCUMENT, UNKNOWN_QUERY, join
from .limits import Kept, keep
from .qrels import Qrels, Rows
from .reading import Document, Part, Query, Source
from .relevance import twins
from .strings import StringTable, StringWriter, write_strings

log = logging.getLogger(__name__)
# phase, done, total: total is None where it is not known beforehand
OnProgress = Callable[[str, int, int | None], None]
_REPORT_EVERY = 1000
_DOCUMENT_FIELDS = {"document_ids": "id", "titles": "title", "texts": "text"}
_QUERY_FIELDS = {"query_ids": "id", "query_texts": "text"}


class _Raw(NamedTuple):
    """Everything that the source has, in its order."""

    tables: dict[str, StringTable]
    lines: array[int]

    @property
    def ids(self) -> StringTable:
        return next(iter(self.tables.values()))


@dataclass(frozen=True)
class _Joined:
    kept: Kept
    splits: Mapping[str, Qrels]  # in raw rows


def build(source: Source, config: Config, path: Path, needed: Sequence[str], on_progress: OnProgress) -> None:
    """Publish the collection at ``path``. Raises ValueError with file, line and remedy."""
    facts: dict[str, Any] = {}
    with artefact.publishing(path, KIND, facts=facts) as folder:
        raw = folder / "raw"
        raw.mkdir()
        documents = _read("documents", source.documents(), raw, _DOCUMENT_FIELDS, on_progress)
        queries = _read("queries", source.queries(), raw, _QUERY_FIELDS, on_progress)
        drops = Drops()
        joined = _select(source, config, documents, queries, drops)
        require_splits(joined.splits, needed, source.name, drops.lines())
        facts |= _write(folder, joined, documents, queries)
        facts |= {"source": source.name, "settings": settings(config), "dropped": drops.facts()}
        shutil.rmtree(raw)
    _report(facts, drops)


def settings(config: Config) -> dict[str, Any]:
    """What, besides the source, decides a collection's contents."""
    data = config.data
    limited = data.max_documents or data.max_train_queries or data.max_dev_queries
    return {
        "max_documents": data.max_documents,
        "max_train_queries": data.max_train_queries,
        "max_dev_queries": data.max_dev_queries,
        "train_split": data.train_split if limited else None,
        "dev_split": data.dev_split if limited else None,
        "seed": config.seed if limited else None,
        "strict": data.strict,
    }


def _read(
    part: Part,
    records: Iterable[Document] | Iterable[Query],
    folder: Path,
    fields: Mapping[str, str],
    on_progress: OnProgress,
) -> _Raw:
    writers = {field: StringWriter(folder / name) for name, field in fields.items()}
    lines = array("q")
    for record in records:
        for field, writer in writers.items():
            writer.append(getattr(record, field))
        lines.append(record.line)
        if len(lines) % _REPORT_EVERY == 0:
            on_progress(f"read {part}", len(lines), None)
    for writer in writers.values():
        writer.close()
    return _Raw({name: StringTable(folder / name) for name in fields}, lines)


def _select(source: Source, config: Config, documents: _Raw, queries: _Raw, drops: Drops) -> _Joined:
    for part, raw in (("documents", documents), ("queries", queries)):
        if not len(raw.ids):
            name = "corpus" if part == "documents" else "queries file"
            raise ValueError(f"{source.place(part, 1)}: empty {name}; data.path must hold at least one")
    document_index, query_index = IdIndex(documents.ids), IdIndex(queries.ids)
    document_rows = _without_repeats(source, "documents", documents, document_index, drops)
    _without_repeats(source, "queries", queries, query_index, drops)
    splits = join(source, query_index, document_index, drops)
    if config.data.strict:
        _refuse_unknown(source, drops)
    kept = keep(splits, document_rows, config.data, config.seed, drops)
    return _Joined(kept, {split: qrels.subset(kept.queries[split]) for split, qrels in splits.items()})


def _without_repeats(source: Source, part: Part, raw: _Raw, index: IdIndex, drops: Drops) -> Rows:
    """Rows whose id is new. Raises ValueError where an id comes again with another text."""
    again = np.zeros(len(raw.ids), dtype=bool)
    for first, later in index.repeated():
        if any(table[first] != table[later] for table in raw.tables.values()):
            raise ValueError(
                f"{source.place(part, raw.lines[later])}: id {raw.ids[later]!r} was in line "
                f"{raw.lines[first]} with another text; give each its own id or keep one of them"
            )
        again[later] = True
        drops.add(f"{part} said twice", raw.ids[later])
    return np.flatnonzero(~again)


def _refuse_unknown(source: Source, drops: Drops) -> None:
    unknown = [line for line in drops.lines() if UNKNOWN_DOCUMENT in line or UNKNOWN_QUERY in line]
    if unknown:
        raise ValueError(f"{source.name}: {'; '.join(unknown)}; complete the files, or set data.strict=false")


def _write(folder: Path, joined: _Joined, documents: _Raw, queries: _Raw) -> dict[str, Any]:
    """Kept rows under new numbers, in the order of the source."""
    query_rows = np.unique(np.concatenate(list(joined.kept.queries.values())))
    for raw, rows in ((documents, joined.kept.documents), (queries, query_rows)):
        for name, table in raw.tables.items():
            write_strings(folder / name, (table[row] for row in rows.tolist()))
    arrays.save(folder / "twins.npy", twins(StringTable(folder / "texts")))
    new_document = _renumber(joined.kept.documents, len(documents.ids))
    new_query = _renumber(query_rows, len(queries.ids))
    counts = {}
    for split, qrels in joined.splits.items():
        judged_queries, judged_documents, grades = qrels.judged()
        there = new_document[judged_documents] >= 0
        new = Qrels.of(new_query[judged_queries][there], new_document[judged_documents][there], grades[there])
        new.save(folder / f"qrels-{split}")
        counts[split] = {"queries": len(new), "relevant": len(new.documents), "judged": int(there.sum())}
    return {"splits": counts, "documents": len(joined.kept.documents), "queries": len(query_rows)}


def _renumber(kept: Rows, length: int) -> Rows:
    new = np.full(length, -1, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    return new


def _report(facts: Mapping[str, Any], drops: Drops) -> None:
    splits = ", ".join(f"{split} {counts['queries']}" for split, counts in facts["splits"].items())
    log.info("%s: %d documents, queries: %s", facts["source"], facts["documents"], splits)
    for line in drops.lines():
        log.info("left out: %s", line)
