"""The papers' data in their official files, from reading to tokens."""

from pathlib import Path

import pytest

from dance.corpus.prepare import Prepared, prepare
from tests.corpora import (
    config_for,
    small_dpr,
    small_msmarco_document,
    small_msmarco_passage,
)
from tests.tiny import tiny_bert

FORMATS = {"msmarco_passage": small_msmarco_passage, "msmarco_document": small_msmarco_document, "dpr": small_dpr}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("end", ["", ".gz"])
def test_the_papers_data_becomes_rows_and_tokens(tmp_path: Path, name: str, end: str) -> None:
    folder = FORMATS[name](tmp_path / name, end=end)
    prepared = Prepared.open(prepare(config_for(folder, tmp_path / "prepared", tiny_bert(tmp_path / "m"), format=name)))
    collection = prepared.collection
    assert collection.counts["documents"] == len(prepared.documents) == 20
    for split in ("train", "dev"):
        qrels = collection.split(split)
        assert len(qrels) == 4
        for query, document in zip(*qrels.pairs()):
            assert collection.queries[query].split()[1] == str(document)
    queries, documents = collection.given["train"].pairs()
    assert set(queries.tolist()) == set(collection.splits["train"].queries.tolist())
    assert not collection.splits["train"].contains(queries, documents).any()
    assert (collection.answers is not None) == (name == "dpr")
