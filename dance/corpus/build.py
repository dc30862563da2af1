"""A source becomes a Collection: read, check, join, limit, write. Bad input leaves nothing behind."""

from __future__ import annotations

import logging
import shutil
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import artefact
from ..config import Config
from .collection import KIND, require_splits
from .drops import Drops
from .extras import Names, join_extras
from .ids import IdIndex
from .joining import UNKNOWN_DOCUMENT, UNKNOWN_QUERY, join
from .limits import keep, keep_asked
from .own import told as own_lines
from .qrels import Rows
from .reading import Document, Part, Query, Source
from .repairing import repaired
from .strings import StringTable, StringWriter
from .writing import Joined, Raw, write

log = logging.getLogger(__name__)
# phase, done, total: total is None where it is not known beforehand
OnProgress = Callable[[str, int, int | None], None]
_REPORT_EVERY = 1000
_DOCUMENT_FIELDS = {"document_ids": "id", "titles": "title", "texts": "text"}
_QUERY_FIELDS = {"query_ids": "id", "query_texts": "text"}


def build(source: Source, config: Config, path: Path, needed: Sequence[str], on_progress: OnProgress) -> None:
    """Publish the collection at ``path``. Raises ValueError with file, line and remedy."""
    facts: dict[str, Any] = {}
    with artefact.publishing(path, KIND, facts=facts) as folder:
        raw = folder / "raw"
        raw.mkdir()
        drops, noticed = Drops(), Drops()
        mend = _mender(noticed) if config.data.repair else _as_it_is
        documents = _read("documents", source.documents(), raw, _DOCUMENT_FIELDS, mend, on_progress)
        queries = _read("queries", source.queries(), raw, _QUERY_FIELDS, mend, on_progress)
        for name in source.unread:
            drops.add("files beside of a name that is not known", name)
        joined, usable = _select(source, config, documents, queries, drops)
        files = {split: source.place(split, 0) for split in (*needed, *joined.splits)}
        answerable = [split for split in needed if not len(joined.extras.asked.get(split, ()))]
        require_splits(joined.splits, answerable, source.name, files, drops.lines())
        facts |= write(folder, joined, documents, queries, noticed)
        facts |= {"source": source.name, "settings": settings(config), "usable": usable}
        facts |= {"files": {split: Path(files[split]).name for split in joined.splits}}
        facts |= {"dropped": drops.facts(), "noticed": noticed.facts()}
        shutil.rmtree(raw)
    _report(facts, drops, noticed)


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
        "repeats": data.repeats,
        "repair": data.repair,
        "own_document": data.own_document,
        "relevant_from": data.relevant_from,
    }


def _read(
    part: Part,
    records: Iterable[Document] | Iterable[Query],
    folder: Path,
    fields: Mapping[str, str],
    mend: Callable[[str, str], str],
    on_progress: OnProgress,
) -> Raw:
    writers = {field: StringWriter(folder / name) for name, field in fields.items()}
    lines = array("q")
    for record in records:
        for field, writer in writers.items():
            value = getattr(record, field)
            writer.append(value if field == "id" else mend(value, record.id))
        lines.append(record.line)
        if len(lines) % _REPORT_EVERY == 0:
            on_progress(f"read {part}", len(lines), None)
    for writer in writers.values():
        writer.close()
    return Raw({name: StringTable(folder / name) for name in fields}, lines, np.arange(len(lines)))


def _as_it_is(text: str, name: str) -> str:
    return text


def _mender(noticed: Drops) -> Callable[[str, str], str]:
    def mend(text: str, name: str) -> str:
        mended = repaired(text)
        if mended != text:
            noticed.add("texts mended (UTF-8 read as Latin-1)", name)
        return mended

    return mend


def _select(
    source: Source, config: Config, documents: Raw, queries: Raw, drops: Drops
) -> tuple[Joined, dict[str, dict[str, int]]]:
    """What is kept, and by split how many queries are judged and how many of them can be used, before any limit."""
    for part, raw in (("documents", documents), ("queries", queries)):
        if not len(raw.ids):
            name = "corpus" if part == "documents" else "queries file"
            raise ValueError(f"{source.place(part, 1)}: empty {name}; data.path must hold at least one")
    names = Names(IdIndex(queries.ids), IdIndex(documents.ids))
    document_rows = _without_repeats(source, "documents", documents, names.documents, config, drops)
    _without_repeats(source, "queries", queries, names.queries, config, drops)
    found = join(source, names.queries, names.documents, config.data.relevant_from, drops)
    splits = {split: each.qrels for split, each in found.items()}
    usable = {split: {"judged": each.judged, "usable": len(each.qrels)} for split, each in found.items()}
    extras = join_extras(source, names, splits, drops)
    if config.data.strict:
        _refuse_unknown(source, drops)
    kept = keep(splits, document_rows, config.data, config.seed, drops)
    extras = replace(extras, asked=keep_asked(extras.asked, config.data, config.seed, drops))
    splits = {split: qrels.subset(kept.queries[split]) for split, qrels in splits.items()}
    same_ids = names.documents.rows(list(queries.ids))
    return Joined(kept, splits, extras, same_ids, config.data.own_document), usable


def _without_repeats(source: Source, part: Part, raw: Raw, index: IdIndex, config: Config, drops: Drops) -> Rows:
    """Rows whose id is new. Where an id comes again with another text, ``data.repeats`` decides.

    Its "last" turns ``raw.contents`` of the first row to the last. Raises ValueError for "error".
    """
    again = np.zeros(len(raw.ids), dtype=bool)
    how = config.data.repeats
    for first, later in index.repeated():
        again[later] = True
        if all(table[first] == table[later] for table in raw.tables.values()):
            drops.add(f"{part} said twice", raw.ids[later])
            continue
        if how == "error":
            raise ValueError(
                f"{source.place(part, raw.lines[later])}: id {raw.ids[later]!r} was in "
                f"{source.place(part, raw.lines[first])} with another text; give each its own id, keep one of "
                "them, or set data.repeats=first or last"
            )
        if how == "last":
            raw.contents[first] = later
        drops.add(f"{part} with an id that has another text too, the {how} kept", raw.ids[later])
    return np.flatnonzero(~again)


def _refuse_unknown(source: Source, drops: Drops) -> None:
    unknown = [line for line in drops.lines() if UNKNOWN_DOCUMENT in line or UNKNOWN_QUERY in line]
    if unknown:
        raise ValueError(f"{source.name}: {'; '.join(unknown)}; complete the files, or set data.strict=false")


def _report(facts: Mapping[str, Any], drops: Drops, noticed: Drops) -> None:
    splits = ", ".join(f"{split} {counts['queries']}" for split, counts in facts["splits"].items())
    asked = "".join(f", {split} {count} with answers alone" for split, count in facts["asked"].items())
    read = facts["read"]
    log.info(
        "%s: %d documents of %d read, queries: %s%s, of %d read",
        facts["source"], facts["documents"], read["documents"], splits, asked, read["queries"],
    )  # fmt: skip
    for kind, what in (("given", "negatives that the data gives"), ("teacher", "scores of a teacher")):
        for split, count in facts[kind].items():
            log.info("%s: %d %s", split, count, what)
    for line in own_lines(facts["own_documents"]):
        log.info("%s", line)
    for line in drops.lines():
        log.info("left out: %s", line)
    for line in noticed.lines():
        log.info("kept: %s", line)
