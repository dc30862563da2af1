"""Both directions of an evaluation on small text, by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from dance.config import Config, Data, Model
from dance.corpus.collection import Collection
from dance.corpus.prepare import Prepared, prepare
from dance.evaluation import runfile
from dance.evaluation.folds import REPORT, SELECT, folds
from dance.evaluation.held_out import HeldOut, selected_by
from dance.search.neighbours import Neighbours
from tests.corpora import write_beir
from tests.tiny import tiny_bert

DOCUMENTS = {"d0": "one text", "d1": "two texts", "d2": "three", "d3": "Two texts!", "d4": "five"}
QUERIES = {f"q{i}": f"query number {i}" for i in range(6)}
QRELS = {
    "train": [("q0", "d0", 1), ("q1", "d3", 1)],
    "dev": [("q2", "d0", 1), ("q3", "d1", 2), ("q4", "d2", 1), ("q2", "d4", 0)],
    "test": [("q5", "d2", 1)],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, Config]:
    folder = tmp_path_factory.mktemp("held_out")
    write_beir(folder / "corpus", DOCUMENTS, QUERIES, QRELS)
    data = Data(path=str(folder / "corpus"), prepared=str(folder / "prepared"))
    config = Config(data=data, model=Model(path=str(tiny_bert(folder / "model")), document_max_tokens=32))
    return Prepared.open(prepare(config)).collection, config


def ranked(lists: list[list[int]]) -> Neighbours:
    rows = np.array(lists, dtype=np.int64)
    return Neighbours(np.where(rows < 0, -np.inf, np.arange(rows.shape[1], 0, -1)).astype(np.float32), rows)


def test_documents_ask_without_the_queries_that_other_splits_give_them(made: tuple[Collection, Config]) -> None:
    collection, config = made
    held_out = HeldOut.of(collection, "dev", config)
    assert held_out.queries.tolist() == [2, 3, 4] and held_out.documents.tolist() == [0, 1, 2]
    assert held_out.d2q_depth == 6  # all queries there are
    documents = ranked([[0, 1, 2], [0, 1, 2], [0, 1, 2]])
    # d0 also answers q0; d1 is the text of d3, which answers q1; d2 answers q5 of the test split.
    asked = ranked([[0, 5, 2, 1, 3, 4], [1, 3, 0, 2, 4, 5], [5, 3, 2, 4, 0, 1]])
    found = held_out.evaluate(documents, asked)
    assert found.queries == {
        "d0": {"q5": 5.0, "q2": 4.0, "q1": 3.0, "q3": 2.0, "q4": 1.0},
        "d1": {"q3": 5.0, "q0": 4.0, "q2": 3.0, "q4": 2.0, "q5": 1.0},
        "d2": {"q3": 5.0, "q2": 4.0, "q4": 3.0, "q0": 2.0, "q1": 1.0},
    }
    assert found.metrics["d2q_mrr@10"] == pytest.approx((1 / 2 + 1 + 1 / 3) / 3)
    assert found.metrics["d2q_ndcg@10"] == pytest.approx((1 / math.log2(3) + 1 + 1 / 2) / 3)
    assert found.metrics["mrr@10"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_as_many_queries_remain_as_are_ranked(made: tuple[Collection, Config]) -> None:
    """A document of many training queries is searched that much deeper."""
    collection, _ = made
    qrels = collection.splits["dev"]
    held_out = HeldOut.of(collection, "dev", Config())
    shallow = HeldOut(collection, qrels.queries, qrels, 3, None, held_out.others)
    assert shallow.d2q_depth == 4
    kept = shallow.evaluate(ranked([[0]] * 3), ranked([[0, 5, 2, 1], [1, 3, 0, 2], [4, 3, 2, 5]])).queries
    assert kept is not None and [len(found) for found in kept.values()] == [3, 3, 3]
    assert list(kept["d2"]) == ["q4", "q3", "q2"]


def test_two_folds_one_selects_the_other_is_reported(made: tuple[Collection, Config]) -> None:
    collection, config = made
    seed = next(s for s in range(50) if folds(["q2", "q3", "q4"], s).tolist() == [SELECT, REPORT, REPORT])
    config = msgspec.structs.replace(config, data=msgspec.structs.replace(config.data, dev_folds=2), seed=seed)
    held_out = HeldOut.of(collection, "dev", config)
    documents = ranked([[0, 1, 2], [0, 1, 2], [2, 1, 0]])
    asked = ranked([[2, 5, 1, 3, 4, 0], [2, 3, 0, 4, 5, 1], [2, 4, 3, 0, 1, 5]])
    found = held_out.evaluate(documents, asked).metrics
    assert found["select_ndcg@10"] == 1.0 and found["report_mrr@10"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["mrr@10"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    # d0 answers q2 alone, which is not of the reported fold.
    assert found["report_d2q_mrr@10"] == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert selected_by(found) == "select_ndcg@10" and selected_by({"ndcg@10": 1.0}) == "ndcg@10"
    assert HeldOut.of(collection, "test", config).halves is None


def test_answers_choose_before_judgements_where_there_are_any(made: tuple[Collection, Config]) -> None:
    """Of DPR's passages that hold an answer few are judged: the second encoder is the better one."""
    collection, config = made
    held_out = HeldOut.of(collection, "dev", config)
    judged, answering = (
        held_out.evaluate(ranked(rows), None, np.array(firsts)).metrics
        for rows, firsts in (([[0], [1], [2]], [0, 100, 100]), ([[3], [3], [2]], [0, 5, 19]))
    )
    assert judged["ndcg@10"] > answering["ndcg@10"] and judged["coverage@20"] < answering["coverage@20"] == 1.0
    assert selected_by(judged) == "coverage@20"
    without = held_out.evaluate(ranked([[0]] * 3), None, np.array([-1, -1, -1])).metrics
    assert selected_by(without) == "ndcg@10", "no question of the split has an answer"


def test_the_choosing_fold_has_the_coverage_of_its_own_questions(made: tuple[Collection, Config]) -> None:
    collection, config = made
    seed = next(s for s in range(50) if folds(["q2", "q3", "q4"], s).tolist() == [SELECT, REPORT, SELECT])
    config = msgspec.structs.replace(config, data=msgspec.structs.replace(config.data, dev_folds=2), seed=seed)
    held_out = HeldOut.of(collection, "dev", config)
    found = held_out.evaluate(ranked([[0, 1, 2]] * 3), None, np.array([0, 0, 50])).metrics
    assert selected_by(found) == "select_coverage@20" and found["select_coverage@20"] == 0.5
    assert (found["report_coverage@20"], found["coverage@20"]) == (1.0, pytest.approx(2 / 3))
    alone = held_out.evaluate(ranked([[0, 1, 2]] * 3), None, np.array([-1, 0, -1])).metrics
    assert selected_by(alone) == "select_ndcg@10", "the choosing half has no answers"


def test_a_depth_over_the_corpus_ranks_all_of_it(made: tuple[Collection, Config]) -> None:
    collection, config = made
    deep = msgspec.structs.replace(config, evaluate=msgspec.structs.replace(config.evaluate, depth=1000))
    found = [
        HeldOut.of(collection, "dev", each).evaluate(ranked([[4, 3, 1, 2, 0]] * 3), ranked([[5, 4, 3, 2, 1, 0]] * 3))
        for each in (config, deep)
    ]
    new = {key: value for key, value in found[1].metrics.items() if key not in found[0].metrics}
    assert new == {"recall@1000": 1.0, "d2q_recall@1000": 1.0}
    assert {key: found[1].metrics[key] for key in found[0].metrics} == found[0].metrics
    assert HeldOut.of(collection, "dev", deep).d2q_depth == len(QUERIES)


def test_a_fold_without_queries_is_refused(made: tuple[Collection, Config]) -> None:
    collection, config = made
    seed = next(s for s in range(50) if len(set(folds(["q2", "q3", "q4"], s).tolist())) == 1)
    config = msgspec.structs.replace(config, data=msgspec.structs.replace(config.data, dev_folds=2), seed=seed)
    with pytest.raises(ValueError, match="data.dev_folds=2 cannot share out the 3 queries of 'dev'"):
        HeldOut.of(collection, "dev", config)


def test_folds_are_even_stable_and_seeded() -> None:
    names = [f"q{i}" for i in range(2000)]
    one = folds(names, 42)
    assert abs(one.mean() - 0.5) < 0.05 and not np.array_equal(one, folds(names, 43))
    assert np.array_equal(one[::2], folds(names[::2], 42))
    assert folds("abcdef", 42).tolist() == [1, 0, 1, 1, 0, 0]


def test_v04_what_found_nothing_counts_zero_in_both_directions(made: tuple[Collection, Config]) -> None:
    held_out = HeldOut.of(made[0], "dev", made[1])
    nothing = ranked([[-1, -1]] * 3)
    metrics = held_out.evaluate(nothing, nothing).metrics
    assert metrics and set(metrics.values()) == {0.0}


def test_what_is_written_reads_back(made: tuple[Collection, Config], tmp_path: Path) -> None:
    held_out = HeldOut.of(made[0], "dev", made[1])
    found = held_out.evaluate(ranked([[0, 1]] * 3), ranked([[2, 3]] * 3), np.array([0, 30, -1]))
    found.write(tmp_path / "step", step=7)
    told: dict[str, Any] = msgspec.json.decode((tmp_path / "step" / "metrics.json").read_bytes())
    assert told == {"step": 7, **found.metrics} and told["coverage@20"] == 0.5 and told["coverage@100"] == 1.0
    assert runfile.read(tmp_path / "step" / "run.trec") == found.documents
    assert runfile.read(tmp_path / "step" / "run-d2q.trec") == found.queries
