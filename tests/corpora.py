"""Small folders of text for tests."""

from __future__ import annotations

import csv
import gzip
import io
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


def write_lines(path: Path, rows: Sequence[Sequence[object]], separator: str = "\t") -> Path:
    """Columns without quoting, compressed where the name ends in .gz."""
    content = "".join(separator.join(map(str, row)) + "\n" for row in rows).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def small_msmarco_passage(folder: Path, documents: int = 20, queries: int = 8, end: str = "") -> Path:
    """As ``small_beir``, in the official files of MS MARCO passages; names end in ``end`` (".gz")."""
    half = queries // 2
    triples = [(q, q, (q + 1 + n) % documents) for q in range(half) for n in range(3)]
    write_lines(folder / f"collection.tsv{end}", [(d, f"the text of document {d}") for d in range(documents)])
    write_lines(folder / f"qidpidtriples.train.full.2.tsv{end}", triples)
    for split, rows in (("train", range(half)), ("dev", range(half, queries))):
        write_lines(folder / f"queries.{split}.tsv{end}", [(q, f"query {q}") for q in rows])
        name = "qrels.dev.small.tsv" if split == "dev" else "qrels.train.tsv"
        write_lines(folder / f"{name}{end}", [(q, 0, q, 1) for q in rows])
    return folder


def small_msmarco_document(folder: Path, documents: int = 20, queries: int = 8, end: str = "") -> Path:
    """Likewise, MS MARCO documents; five documents are ranked for every query."""
    half = queries // 2
    records = [(f"D{d}", f"http://x.org/{d}", f"title {d}", f"the text of document {d}") for d in range(documents)]
    write_lines(folder / f"msmarco-docs.tsv{end}", records)
    for split, rows in (("train", range(half)), ("dev", range(half, queries))):
        write_lines(folder / f"msmarco-doc{split}-queries.tsv{end}", [(q, f"query {q}") for q in rows])
        write_lines(folder / f"msmarco-doc{split}-qrels.tsv{end}", [(q, 0, f"D{q}", 1) for q in rows], " ")
        ranked = [(q, "Q0", f"D{(q + n) % documents}", n + 1, 10 - n, "x") for q in rows for n in range(5)]
        write_lines(folder / f"msmarco-doc{split}-top100{end}", ranked, " ")
    return folder


def small_dpr(folder: Path, passages: int = 20, questions: int = 8, end: str = "") -> Path:
    """Likewise, DPR's files: NQ train, dev and test questions, passages named from 1."""
    folder.mkdir(parents=True, exist_ok=True)
    half = questions // 2
    rows = [(p + 1, f"the text of passage {p} says answer{p}", f"title {p}") for p in range(passages)]
    write_csv(folder / f"psgs_w100.tsv{end}", [("id", "text", "title"), *rows])
    for split, numbers in (("train", range(half)), ("dev", range(half, questions))):
        examples = [dpr_example(q, [q + 1], [(q + 1 + n) % passages + 1 for n in range(3)]) for q in numbers]
        write_bytes(folder / f"biencoder-nq-{split}.json{end}", json.dumps(examples, indent=1).encode())
    write_csv(folder / f"nq-test.qa.csv{end}", [(f"question {q}", f"['answer{q}', \"x's\"]") for q in range(3)])
    return folder


def dpr_example(number: int, positives: Sequence[int], hard: Sequence[int], name: str = "passage_id") -> dict[str, Any]:
    passages = {key: [{"title": "t", "text": "x", name: str(p)} for p in ids]
                for key, ids in (("positive_ctxs", positives), ("hard_negative_ctxs", hard))}  # fmt: skip
    return {"dataset": "nq", "question": f"question {number}", "answers": [f"answer{number}"]} | passages


def write_csv(path: Path, rows: Sequence[Sequence[object]]) -> None:
    """Real CSV with tab as separator: quotes where they are needed, doubled inside."""
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerows(rows)
    write_bytes(path, text.getvalue().encode())


def write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
