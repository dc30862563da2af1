"""Pairs by the texts that they share, and which of them oppose each other."""

from __future__ import annotations

import numpy as np
import pytest

from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance
from inferencer.pairs import Pairs


def pairs(queries: list[int], positives: list[int], by_queries: bool = False) -> Pairs:
    made = Qrels.of(np.array(queries), np.array(positives), np.ones(len(queries)))
    relevance = Relevance.of(made, np.arange(max(positives) + 1))
    return Pairs(relevance, *made.pairs(), by_queries)


def test_pairs_of_one_query_and_of_one_positive_do_not_oppose_each_other() -> None:
    made = pairs([0, 0, 1, 2], [5, 6, 6, 7])
    places = np.arange(4)
    answered = [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]]  # 0 answers 6 as well, which is that of 1
    assert np.array_equal(made.opposes(places[:, None], places[None, :]), ~np.array(answered, dtype=bool))


@pytest.mark.parametrize(("by_queries", "shared"), [(False, [[0], [1, 2], [3]]), (True, [[0, 1], [2], [3]])])
def test_a_text_is_there_once_and_stands_for_its_pairs_in_turn(by_queries: bool, shared: list[list[int]]) -> None:
    made = pairs([0, 0, 1, 2], [5, 6, 6, 7], by_queries)
    assert made.firsts.tolist() == [each[0] for each in shared]
    asking, texts = np.arange(4)[:, None], np.tile(np.arange(3), (4, 1))
    found = made.having(texts, asking)  # [4, 3]
    assert [sorted(set(column)) for column in found.T.tolist()] == shared


@pytest.mark.parametrize("by_queries", [False, True])
def test_a_copy_has_the_text_of_the_first_and_does_not_oppose_it(by_queries: bool) -> None:
    rows, copies = np.arange(4), np.array([0, 1, 0, 3])  # 2 is a copy of 0
    twins = {"twins": rows, "query_twins": copies} if by_queries else {"twins": copies}
    made = Pairs(Relevance.of(Qrels.of(rows, rows, np.ones(4)), **twins), rows, rows, by_queries)
    assert made.firsts.tolist() == [0, 1, 3]
    assert made.opposes(rows[:, None], rows[None, :]).tolist() == (copies[:, None] != copies[None, :]).tolist()
    plain = Pairs(Relevance.of(Qrels.of(rows, rows, np.ones(4)), **twins, copies=False), rows, rows, by_queries)
    assert plain.firsts.tolist() == [0, 1, 2, 3] and plain.opposes(rows[:1], rows[2:3]).all()
