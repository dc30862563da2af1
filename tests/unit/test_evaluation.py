"""Metrics by hand-worked cases and trec_eval's conventions; run files that read back the same."""

import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

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
    assert found == {"ndcg@10": 0.5, "mrr@10": 0.5, "mrr@100": 0.5, "recall@100": 0.5}
    assert measure({"q": {"a": 1}}, {"q": {}})["mrr@10"] == 0.0


def test_v06_v11_graded_gain_against_a_hand_worked_ideal():
    found = measure({"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"c": 3.0, "b": 2.0, "a": 1.0}})
    gained = 1 / 1 + 2 / math.log2(3) + 3 / 2
    ideal = 3 / 1 + 2 / math.log2(3) + 1 / 2
    assert found["ndcg@10"] == pytest.approx(gained / ideal)
    missed = measure({"q": {"a": 1, "b": 1}}, {"q": {"a": 3.0, "x": 2.0}})
    assert missed["recall@100"] == 0.5 and missed["ndcg@10"] == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_v06_negative_grades_gain_nothing_and_the_threshold_is_for_binary_metrics():
    judged, run = {"q": {"a": -2, "b": 3, "c": 1}}, {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    assert measure(judged, run)["ndcg@10"] == pytest.approx(0.659, abs=5e-4)
    graded, worst = {"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"c": 3.0, "b": 2.0, "a": 1.0}}
    one, two = measure(graded, worst), measure(graded, worst, least=2)
    assert one["ndcg@10"] == two["ndcg@10"] == pytest.approx(0.79, abs=5e-4)
    assert (one["mrr@10"], two["mrr@10"]) == (1.0, 0.5)
    missing = {"q": {"c": 3.0, "b": 2.0}}
    assert measure(graded, missing)["recall@100"] == pytest.approx(2 / 3)
    assert measure(graded, missing, least=2)["recall@100"] == 0.5


def test_reciprocal_ranks_stop_at_ten_and_at_a_hundred():
    run = {"q": {f"d{i:03}": float(1000 - i) for i in range(120)}}
    assert measure({"q": {"d009": 1}}, run)["mrr@10"] == pytest.approx(0.1)
    tenth = measure({"q": {"d010": 1}}, run)
    assert tenth["mrr@10"] == 0.0 and tenth["mrr@100"] == pytest.approx(1 / 11)
    assert measure({"q": {"d100": 1}}, run)["mrr@100"] == 0.0


def test_recall_at_a_thousand_is_there_where_so_many_are_ranked():
    run = {"q": {f"d{i:04}": float(2000 - i) for i in range(1000)}}
    judged = {"q": {"d0099": 1, "d0100": 1, "d0999": 1, "other": 1}}
    assert "recall@1000" not in measure(judged, run)
    found = measure(judged, run, depth=1000)
    assert found["recall@100"] == 0.25 and found["recall@1000"] == 0.75


def trec_eval(judged, run):
    """trec_eval's own figures, from its own code, without what stands between it and us."""
    wanted = {"ndcg_cut_10", "recip_rank", "recall_100", "recall_1000"}
    found = pytrec_eval.RelevanceEvaluator(judged, wanted).evaluate(run)
    return {name: float(np.mean([found[q][name] if q in found else 0.0 for q in judged])) for name in wanted}


@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_v01_v02_v06_figures_are_trec_evals(data):
    """Ties, graded and negative judgements, unjudged documents, queries without answers."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    names = [f"d{i}" for i in range(int(random.integers(1, 130)))]
    queries = [f"q{i}" for i in range(int(random.integers(1, 5)))]
    judged = {q: {d: int(random.choice([-1, 0, 1, 2, 3])) for d in random.choice(names, 12)} for q in queries}
    run = {q: {d: float(random.integers(0, 6)) for d in names} for q in queries if random.random() < 0.8}
    ours, theirs = measure(judged, run, depth=1000), trec_eval(judged, run)
    assert ours["ndcg@10"] == pytest.approx(theirs["ndcg_cut_10"])
    assert ours["recall@100"] == pytest.approx(theirs["recall_100"])
    assert ours["recall@1000"] == pytest.approx(theirs["recall_1000"])
    cut = {q: dict(sorted(scores.items(), key=lambda p: (p[1], p[0]))[-10:]) for q, scores in run.items()}
    assert ours["mrr@10"] == pytest.approx(trec_eval(judged, cut)["recip_rank"])


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


@given(st.text(max_size=8) | st.text(alphabet="% \t2F0aé\u3000", max_size=8))
def test_v12_every_id_comes_back_as_it_was(name):
    written = runfile.escaped(name)
    assert written.split() == [written] and runfile.unescaped(written) == name


def test_v12_ids_of_every_kind_survive_a_run_file(tmp_path):
    names = ["a b", "100%", "%20", "%2520", "a\u00a0b", "", "\r", "%0", "d1"]
    ranking = {name: {other: float(-i) for i, other in enumerate(names)} for name in names}
    runfile.write(tmp_path / "run.trec", ranking)
    assert runfile.read(tmp_path / "run.trec") == ranking
