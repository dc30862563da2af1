from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dance.corpus.qrels import Qrels

Judged = dict[tuple[int, int], int]
judgements = st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.integers(-1, 3), max_size=40)


def qrels_of(judged: Judged) -> Qrels:
    pairs = np.array(list(judged), dtype=np.int64).reshape(-1, 2)
    return Qrels.of(pairs[:, 0], pairs[:, 1], np.array(list(judged.values()), dtype=np.int64))


@given(judgements)
def test_relevant_are_the_grades_over_zero(judged: Judged) -> None:
    qrels = qrels_of(judged)
    for query in range(10):
        expected = sorted(d for (q, d), grade in judged.items() if q == query and grade > 0)
        assert qrels.relevant(query).tolist() == expected
        assert (query in qrels.queries) == bool(expected)
    assert qrels.queries.tolist() == sorted(qrels.queries.tolist())
    assert len(qrels.offsets) == len(qrels) + 1


@given(judgements)
def test_v06_judged_pairs_are_all_kept_with_their_grades(judged: Judged) -> None:
    queries, documents, grades = qrels_of(judged).judged()
    assert dict(zip(zip(queries.tolist(), documents.tolist()), grades.tolist())) == judged


@given(judgements, st.integers(1, 3))
def test_v06_the_least_relevant_grade_outlives_a_subset(judged: Judged, least: int) -> None:
    plain = qrels_of(judged)
    qrels = Qrels.of(*plain.judged(), least).subset(np.arange(10))
    expected = {pair for pair, grade in judged.items() if grade >= least}
    assert set(zip(*(rows.tolist() for rows in qrels.pairs()))) == expected
    assert [rows.tolist() for rows in qrels.judged()] == [rows.tolist() for rows in plain.judged()]


@given(judgements)
def test_contains_broadcasts_and_row_minus_one_is_relevant_to_nothing(judged: Judged) -> None:
    queries, documents = np.arange(-1, 11)[:, None], np.arange(-1, 11)[None, :]
    found = qrels_of(judged).contains(queries, documents)  # [12, 12]
    expected = [[judged.get((q, d), 0) > 0 for d in range(-1, 11)] for q in range(-1, 11)]
    assert found.tolist() == expected


@given(judgements, st.lists(st.integers(0, 9)))
def test_subset_keeps_the_judgements_of_its_queries(judged: Judged, queries: list[int]) -> None:
    part = qrels_of(judged).subset(np.array(queries, dtype=np.int64))
    expected = qrels_of({pair: grade for pair, grade in judged.items() if pair[0] in queries})
    assert [a.tolist() for a in part.judged()] == [a.tolist() for a in expected.judged()]
    assert [a.tolist() for a in part.pairs()] == [a.tolist() for a in expected.pairs()]


def test_saved_and_loaded_whole(tmp_path: Path) -> None:
    qrels = qrels_of({(3, 1): 2, (0, 7): 1, (3, 0): 0, (5, 5): -1})
    qrels.save(tmp_path / "qrels-dev")
    loaded = Qrels.load(tmp_path / "qrels-dev")
    assert [a.tolist() for a in loaded.judged()] == [a.tolist() for a in qrels.judged()]
    assert loaded.relevant(3).tolist() == [1]


def test_empty_qrels_are_saved_and_contain_nothing(tmp_path: Path) -> None:
    qrels_of({}).save(tmp_path / "qrels-train")
    loaded = Qrels.load(tmp_path / "qrels-train")
    assert len(loaded) == 0
    assert not loaded.contains(np.array([0]), np.array([0])).any()
