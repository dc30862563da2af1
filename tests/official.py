"""Small folders in the official layouts of MS MARCO and DPR, with what makes their files awkward."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

from tests.tiny import COMMON

Text = tuple[str, str, str]  # title, text, a query that it answers
HELD_OUT = 5  # every fifth query


def texts(count: int, words: int = 24, seed: int = 0) -> list[Text]:
    """A query is some words of its document."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        body = rng.choices(COMMON, k=rng.randint(4, words))
        made.append((rng.choice(COMMON), " ".join(body), " ".join(rng.sample(body, 3))))
    return made


def passages(folder: Path, count: int = 48) -> Path:
    """MS MARCO passages: collection, queries, judgements of four columns, triples."""
    made = texts(count)
    folder.mkdir(parents=True)
    _lines(folder / "collection.tsv", [f'{row}\t{text} "{title}' for row, (title, text, _) in enumerate(made)])
    for split, file in (("train", "train"), ("dev", "dev.small")):
        rows = _rows(count, split)
        _lines(folder / f"queries.{file}.tsv", [f"{1000 + row}\t{made[row][2]}" for row in rows])
        _lines(folder / f"qrels.{file}.tsv", [f"{1000 + row}\t0\t{row}\t1" for row in rows])
    triples = [f"{1000 + row}\t{row}\t{(row + 7) % count}" for row in _rows(count, "train")]
    _lines(folder / "qidpidtriples.train.full.2.tsv", triples)
    return folder


def documents(folder: Path, count: int = 48, words: int = 120) -> Path:
    """MS MARCO documents, packed: url, title and body; judgements separated by spaces; ranked lists."""
    made = texts(count, words)
    folder.mkdir(parents=True)
    lines = [f"D{row}\thttps://a.b/{row}\t{title}\t{text}" for row, (title, text, _) in enumerate(made)]
    _lines(folder / "msmarco-docs.tsv.gz", lines)
    for split in ("train", "dev"):
        rows = _rows(count, split)
        _lines(folder / f"msmarco-doc{split}-queries.tsv.gz", [f"{row}\t{made[row][2]}" for row in rows])
        _lines(folder / f"msmarco-doc{split}-qrels.tsv.gz", [f"{row} 0 D{row} 1" for row in rows])
        ranked = [f"{row} Q0 D{(row + rank) % count} {rank + 1} {-rank} ql" for row in rows for rank in range(10)]
        _lines(folder / f"msmarco-doc{split}-top100.gz", ranked)
    return folder


def dpr(folder: Path, count: int = 48) -> Path:
    """DPR: quoted passages with a header, examples with hard negatives, questions with answers alone."""
    made = texts(count)
    folder.mkdir(parents=True)
    rows = [f'{row + 1}\t"""{title}"" {text}"\t{title}' for row, (title, text, _) in enumerate(made)]
    _lines(folder / "psgs_w100.tsv", ["id\ttext\ttitle", *rows])
    for split in ("train", "dev"):
        examples = [_example(made, row) for row in _rows(count, split)]
        (folder / f"biencoder-nq-{split}.json").write_text(json.dumps(examples, indent=1))
    _lines(folder / "nq-test.qa.csv", [f"{query}\t{[text.split()[0], title]!r}" for title, text, query in made[:8]])
    return folder


LAYOUTS: dict[str, Callable[[Path], Path]] = {"passages": passages, "documents": documents, "dpr": dpr}


def _example(made: list[Text], row: int) -> dict[str, object]:
    def passage(number: int) -> dict[str, object]:
        title, text, _ = made[number]
        return {"title": title, "text": text, "score": 1000, "title_score": 1, "passage_id": str(number + 1)}

    hard = [passage((row + step) % len(made)) for step in (3, 11)]
    answers = [made[row][1].split()[0]]
    found = {"positive_ctxs": [passage(row)], "negative_ctxs": [], "hard_negative_ctxs": hard}
    return {"dataset": "nq_dev", "question": made[row][2], "answers": answers, **found}


def _rows(count: int, split: str) -> list[int]:
    return [row for row in range(count) if (row % HELD_OUT == HELD_OUT - 1) == (split == "dev")]


def _lines(path: Path, lines: list[str]) -> None:
    whole = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(whole) if path.suffix == ".gz" else whole)
