"""Metrics by hand-worked cases and trec_eval's conventions; run files that read back the same."""

import math

import numpy as np
import pytest

from dance.evaluation import runfile
from dance.evaluation.metrics import measure


def test_v01_ties_fall_as_in_trec_eval_for_every_metric():
    found = measure({"q": {"a": 1}}, {"q": {"a": 1.0, "b": 1.0}})
    assert found["mrr@10"] == pytest.approx(0.5)
    assert found["ndcg@10"] == pytest.approx(1 / math.log2(3))
    assert measure({"q": {"9": 1}}, {"q": {"10": 1.0, "9": 1.0}})["mrr@10"] == 1.0
    documents = ["e", "a", "d", "c", "b"]
    constant = [measure({"q": {"c": 1}}, {"q": dict.fromkeys(order, 1.0)}) for order in (documents, sorted(documents))]
    assert constant[0] == constant[1]


def test_v02_v04_judged_queries_without_an_answer_count_zero():
    found = measure({"q1": {"a": 1}, "q2": {"b": 1}}, {"q1": {"a": 2.0}, "q3": {"a": 1.0}})
    assert found == {"ndcg@10": 0.5, "mrr@10": 0.5, "recall@100": 0.5}
    assert measure({"q": {"a": 1}}, {"q": {}})["mrr@10"] == 0.0


def test_v06_v11_graded_gain_against_a_hand_worked_ideal():
    found = measure({"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"c": 3.0, "b": 2.0, "a": 1.0}})
    gained = 1 / 1 + 2 / math.log2(3) + 3 / 2
    ideal = 3 / 1 + 2 / math.log2(3) + 1 / 2
    assert found["ndcg@10"] == pytest.approx(gained / ideal)
    missed = measure({"q": {"a": 1, "b": 1}}, {"q": {"a": 3.0, "x": 2.0}})
    assert missed["recall@100"] == 0.5 and missed["ndcg@10"] == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_reciprocal_rank_stops_at_ten():
    run = {"q": {f"d{i:02}": float(100 - i) for i in range(20)}}
    assert measure({"q": {"d09": 1}}, run)["mrr@10"] == pytest.approx(0.1)
    assert measure({"q": {"d10": 1}}, run)["mrr@10"] == 0.0


def test_v12_run_file_round_trip_keeps_order_and_metrics(tmp_path):
    rng = np.random.default_rng(0)
    ranking = {f"q{i}": {f"d{j}": float(np.float32(rng.random())) for j in range(30)} for i in range(5)}
    ranking["q0"] |= {"near1": float(np.float32(0.123451)), "near2": float(np.float32(0.123449))}
    judged = {f"q{i}": {"d3": 1, "d7": 2} for i in range(5)}
    runfile.write(tmp_path / "run.trec", ranking)
    again = runfile.read(tmp_path / "run.trec")
    assert measure(judged, again) == measure(judged, ranking)
    assert {q: np.float32(list(s.values())).tolist() for q, s in again.items()} == {
        q: np.float32(sorted(s.values(), reverse=True)).tolist() for q, s in ranking.items()
    }


def test_v12_white_space_in_ids_is_escaped_and_other_formats_are_refused(tmp_path):
    path = tmp_path / "run.trec"
    runfile.write(path, {"q 1": {"a b": 1.0}})
    assert path.read_text() == "q%201 Q0 a%20b 1 1 dance\n"
    path.write_text("q1\td1\t1\n")
    with pytest.raises(ValueError, match=r"run.trec:1: a TREC run line has 6 fields, this one 3"):
        runfile.read(path)
    path.write_text("q Q0 d 1 2.0 t\nq Q0 d 2 1.0 t\n")
    with pytest.raises(ValueError, match=r"run.trec:2: d is ranked twice"):
        runfile.read(path)
