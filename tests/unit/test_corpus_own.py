"""Queries that are documents of the corpus, judgements of other queries, grades that are not relevant: the whole way
from files to metrics and negatives."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dance.config import Config
from dance.corpus.prepare import Prepared, prepare
from dance.evaluation.baseline import bm25_metrics
from dance.evaluation.held_out import HeldOut
from dance.learning.candidates import candidates, layout
from dance.mining.diagnostics import Tally
from dance.mining.lot import Judged
from dance.mining.miner import Block, mine
from dance.mining.table import Drawn, NegativesTable
from dance.search.neighbours import Neighbours
from tests.corpora import config_for, write_beir
from tests.tiny import tiny_bert

CLAIM = "the index of a list"
DOCUMENTS = [
    {"_id": "d1", "title": "", "text": CLAIM},
    {"_id": "d2", "title": "", "text": "the list and a tree"},
    {"_id": "d3", "title": "a Graph", "text": "of nodes"},
    {"_id": "d4", "title": "", "text": "file"},
]
QUERIES = {"d1": f"{CLAIM}.", "d3": "A graph of nodes", "d4": "file"}
QRELS: dict[str, list[tuple[str, str, int | str]]] = {
    "train": [("d3", "d2", 1)],
    "dev": [("d1", "d2", 1), ("d4", "d4", 1)],
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


def ready(
    folder: Path, bert: Path, documents: Any = DOCUMENTS, queries: Any = QUERIES, qrels: Any = QRELS, **data: Any
) -> tuple[Prepared, Config]:
    if not (folder / "beir").exists():
        write_beir(folder / "beir", documents, queries, qrels)
    config = config_for(folder / "beir", folder / "prepared", bert, **data)
    return Prepared.open(prepare(config, ["dev"])), config


def ranked(*lists: list[int]) -> Neighbours:
    rows = np.array(lists, dtype=np.int64)
    return Neighbours((9 - np.arange(rows.shape[1]) + np.zeros(rows.shape)).astype(np.float32), rows)


@pytest.mark.parametrize(("how", "mrr"), [("auto", 1.0), ("skip", 1.0), ("keep", 0.75)])
def test_v08_a_query_does_not_find_itself(tmp_path: Path, bert: Path, how: str, mrr: float) -> None:
    """d1 is skipped for itself where that is asked for; d4, which is judged to answer itself, never is."""
    prepared, config = ready(tmp_path, bert, own_document=how)
    held_out = HeldOut.of(prepared.collection, "dev", config)
    assert held_out.queries.tolist() == [0, 2]
    found = held_out.evaluate(held_out.without_own(ranked([0, 1, 2, 3], [3, 0, 1, 2])))
    assert found.metrics["mrr@10"] == mrr and found.documents["d4"].keys() == {"d1", "d2", "d3", "d4"}
    assert ("d1" in found.documents["d1"]) == (how == "keep")
    assert bm25_metrics(prepared, "dev", config)["mrr@10"] == mrr


def test_v08_as_many_remain_as_are_ranked(tmp_path: Path, bert: Path) -> None:
    prepared, config = ready(tmp_path, bert)
    held_out = HeldOut.plain(prepared.collection, "dev", 2)
    assert held_out.q2d_depth == 3
    assert held_out.without_own(ranked([0, 1, 2], [3, 0, 1])).rows.tolist() == [[1, 2], [3, 0]]
    kept, _ = ready(tmp_path, bert, own_document="keep")
    assert HeldOut.plain(kept.collection, "dev", 2).q2d_depth == 2
    # The other way, d2 is asked by dev and answered by d3 of train; document d4 is its own query by judgement.
    asked = HeldOut.of(prepared.collection, "dev", config).evaluate(ranked([1], [3]), ranked([1, 0, 2], [2, 1, 0]))
    assert asked.queries is not None and list(asked.queries["d2"]) == ["d1", "d4"]


@pytest.mark.parametrize(
    ("query", "document", "same"),
    [("One, two", "one two", True), ("other", "one two", False), ("", "one two", False)],
)
def test_v08_equal_ids_may_be_a_coincidence(
    tmp_path: Path, bert: Path, caplog: pytest.LogCaptureFixture, query: str, document: str, same: bool
) -> None:
    """Both sides are numbered from 1, as in Cranfield: texts tell."""
    caplog.set_level(logging.INFO)
    documents = {"1": document, "2": "answer", "3": "three"}
    queries = {"1": query, "2": "why"}
    prepared, _ = ready(tmp_path, bert, documents, queries, {"dev": [("1", "2", 1), ("2", "3", 1)]})
    assert prepared.collection.own_documents.tolist() == ([0, 1] if same else [-1, -1])
    assert f"2 queries have the id of a document, {int(same)} its text too" in caplog.text
    told = prepared.collection.told("dev")
    assert ("never a negative" in told[1]) == same and ("as any other" in told[1]) != same


def test_v08_a_text_without_words_is_nobodys_own(tmp_path: Path, bert: Path) -> None:
    documents = [{"_id": "1", "title": "", "text": "one"}, {"_id": "2", "title": "", "text": "two"}]
    prepared, _ = ready(tmp_path, bert, documents, {"1": " "}, {"dev": [("1", "2", 1)]})
    assert prepared.collection.own_documents.tolist() == [-1]


def test_v08_it_is_never_mined_nor_in_the_batch_in_either_direction(tmp_path: Path, bert: Path) -> None:
    prepared, config = ready(tmp_path, bert)
    relevance = prepared.collection.relevance("dev")
    settings = Config(negatives=type(config.negatives)(topk=4, sample=4))
    mined = mine(Block(np.array([0]), {"ann": ranked([0, 1, 2, 3])}), Judged.of_queries(relevance, 1), settings, 0)
    assert sorted(mined.rows.tolist()) == [2, 3] and mined.tally == Tally(positives=1, own=1)
    back = mine(Block(np.array([0]), {"ann": ranked([0, 1, 2])}), Judged.of_documents(relevance, 1), settings, 0)
    assert sorted(back.rows.tolist()) == [1, 2] and back.tally.own == 1
    bad = Drawn(np.array([0]), np.array([0, 1]), np.array([0]), np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="1 are judged relevant to their key, or the key itself"):
        NegativesTable(5, bad, None, {}).refuse_positives(relevance)
    rows = layout(np.array([1, 0]), np.empty((2, 0), np.int64))
    allowed = candidates(np.array([0, 1]), 0, rows, 0, relevance.covers, in_batch=True).allowed
    assert allowed.tolist() == [[True, False], [True, True]]


def test_v08_the_second_look_takes_it_for_no_positive(tmp_path: Path, bert: Path) -> None:
    qrels = {"dev": [("d1", "d2", 1), ("d1", "d3", 1), ("d4", "d4", 1)]}
    prepared, config = ready(tmp_path, bert, qrels=qrels)
    judged = Judged.of_queries(prepared.collection.relevance("dev"), 1)
    settings = Config(negatives=type(config.negatives)(topk=4, sample=4))
    mined = mine(Block(np.array([0]), {"ann": ranked([0, 1, 2, 3])}), judged, settings, 0)
    assert mined.rows.tolist() == [3] and (mined.tally.hidden, mined.tally.looked_at) == (1, 2)


def test_v10_judgements_of_other_queries_are_counted_and_warned_of(
    tmp_path: Path, bert: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [(f"q{i}", f"d{1 + i % 4}", 1) for i in range(8)]
    prepared, _ = ready(tmp_path, bert, queries={"q3": "list"}, qrels={"dev": [*pairs, ("q9", "d1", 0)]})
    assert prepared.collection.judged("dev") == {"judged": 8, "usable": 1}
    assert "dev: 1 of 8 judged queries can be scored" in caplog.text
    assert prepared.collection.told("dev") == [
        "dev: 8 queries judged, 1 scored; means are over these, with the 7 that cannot be scored as 0 times 0.125"
    ]
    caplog.clear()
    ready(tmp_path, bert)
    assert "1 of 8" in caplog.text, "said again where the text was read before"


def test_v10_queries_that_nobody_judged_and_a_drawn_sample_are_no_cause_to_warn(
    tmp_path: Path, bert: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queries = {f"q{i}": "list" for i in range(8)}
    qrels = {"dev": [(f"q{i}", "d1", 1) for i in range(4)]}
    prepared, _ = ready(tmp_path, bert, queries=queries, qrels=qrels, max_dev_queries=1)
    assert prepared.collection.told("dev") == ["dev: 4 queries judged, 1 scored; means are over these"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_v06_e07_a_threshold_decides_what_is_learnt_mined_and_recalled_but_not_the_gain(
    tmp_path: Path, bert: Path
) -> None:
    qrels = {"dev": [("q", "d1", 3), ("q", "d2", 1), ("q", "d3", -2), ("r", "d4", 1)]}
    queries = {"q": "list", "r": "tree"}
    prepared, config = ready(tmp_path, bert, queries=queries, qrels=qrels, relevant_from=2)
    collection = prepared.collection
    assert list(collection.query_ids) == ["q"] and collection.split("dev").relevant(0).tolist() == [0]
    kept_out = collection.relevance("dev").covers(np.array([0]), np.arange(4))
    assert kept_out.tolist() == [True, False, False, False]
    found = HeldOut.of(collection, "dev", config).evaluate(ranked([2, 1, 0])).metrics
    assert found["mrr@10"] == pytest.approx(1 / 3) and found["recall@100"] == 1.0
    plain, _ = ready(tmp_path, bert)
    wide = HeldOut.of(plain.collection, "dev", config).evaluate(ranked([2, 1, 0], [0, 1, 2]))
    assert wide.metrics["mrr@10"] == pytest.approx((1 / 2 + 0) / 2)
    assert "data.relevant_from: relevant is a grade of 2 or more" in collection.told("dev")[1]
