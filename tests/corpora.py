"""Small folders of text for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dance.config import Config, Data, Model

HEADER = "query-id\tcorpus-id\tscore"
Rows = Sequence[tuple[str, str, int | str]]


def write_beir(
    folder: Path,
    documents: Mapping[str, str] | Sequence[Mapping[str, Any]],
    queries: Mapping[str, str],
    qrels: Mapping[str, Rows],
) -> Path:
    """A BEIR folder; documents are {id: text} or whole records."""
    (folder / "qrels").mkdir(parents=True)
    if isinstance(documents, Mapping):
        documents = [{"_id": name, "title": "", "text": text} for name, text in documents.items()]
    write_jsonl(folder / "corpus.jsonl", documents)
    write_jsonl(folder / "queries.jsonl", [{"_id": name, "text": text} for name, text in queries.items()])
    for split, rows in qrels.items():
        write_qrels(folder / "qrels" / f"{split}.tsv", rows)
    return folder


def write_jsonl(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def write_qrels(path: Path, rows: Rows) -> None:
    path.write_text("\n".join([HEADER, *("\t".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")


def small_beir(folder: Path, documents: int = 20, queries: int = 8) -> Path:
    """Document dN answers query qN; the first half of the queries trains, the others are dev."""
    half = queries // 2
    pairs = [(f"q{i}", f"d{i}", 1) for i in range(queries)]
    return write_beir(
        folder,
        {f"d{i}": f"the text of document {i}" for i in range(documents)},
        {f"q{i}": f"query {i}" for i in range(queries)},
        {"train": pairs[:half], "dev": pairs[half:]},
    )


def config_for(folder: Path, prepared: Path, model: Path | str = "none", **data: Any) -> Config:
    limits = {"query_max_tokens": 16, "document_max_tokens": 32}
    return Config(data=Data(path=str(folder), prepared=str(prepared), **data), model=Model(path=str(model), **limits))
