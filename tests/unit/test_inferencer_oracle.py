"""How fresh the former negatives are, told in a rotation that has other queries each time; BM25 asked once."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dance import config
from dance.corpus.prepare import Prepared
from dance.encoder import files
from dance.encoder.embed import embed
from dance.mining.table import NegativesTable
from dance.search import lexical
from inferencer.lexical import Lists
from tests.refreshing import ENCODE, make_home, make_ready, refresh

TOPK = 10


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


def test_the_oracle_overlap_is_told_though_the_rotation_has_other_queries(home: Path) -> None:
    negatives = {"queries_per_refresh": 0.25, "topk": TOPK, "sample": 6}
    run = make_ready(home, "rotating", (0, 10), negatives=negatives, encode=ENCODE)
    told = [record["overlap_oracle"] for record in refresh(run, steps=(0, 10)) if "overlap_oracle" in record]
    assert told[-1] is not None
    former = NegativesTable.open(run.published("negatives", 0)).documents
    encoder = files.load(run.published("encoders", 10), torch.device("cpu"))
    prepared = Prepared.open(config.read(run.config).prepared or "")
    documents = embed(encoder, prepared.documents, np.arange(len(prepared.documents)), 4096)
    queries = embed(encoder, prepared.queries, former.keys, 4096, side="query")
    first = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :TOPK]
    held = [np.isin(former.of(int(key)), row) for key, row in zip(former.keys, first)]
    assert told[-1] == pytest.approx(np.concatenate(held).mean(), abs=0.02)


def test_bm25_is_asked_for_a_query_once(home: Path) -> None:
    run = make_ready(home, "lists")
    collection = Prepared.open(config.read(run.config).prepared or "").collection
    asked: list[int] = []

    class Watched:
        def search(self, texts, k):  # type: ignore[no-untyped-def]
            asked.append(len(texts))
            return index.search(texts, k)

    index = lexical.documents(collection)
    lists = Lists(Watched())  # type: ignore[arg-type]
    lists.of([3, 1], collection.queries, 5)
    again = lists.of([1, 2, 3], collection.queries, 5)
    assert asked == [2, 1]
    whole = index.search([collection.queries[row] for row in (1, 2, 3)], 5)
    assert (again.rows == whole.rows).all() and (again.scores == whole.scores).all()
