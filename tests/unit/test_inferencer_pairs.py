"""Pairs by the texts that they share, and which of them oppose each other."""

from __future__ import annotations

import numpy as np
import pytest

from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance
from dance.search.neighbours import NONE, Neighbours
from inferencer.groups import _apart
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
    assert made.most == 2


@pytest.mark.parametrize(("by_queries", "shared"), [(False, [[0], [1, 2], [3]]), (True, [[0, 1], [2], [3]])])
def test_a_text_is_there_once_and_stands_for_its_pairs_in_turn(by_queries: bool, shared: list[list[int]]) -> None:
    made = pairs([0, 0, 1, 2], [5, 6, 6, 7], by_queries)
    assert made.firsts.tolist() == [each[0] for each in shared]
    asking, texts = np.arange(4)[:, None], np.tile(np.arange(3), (4, 1))
    found = made.having(texts, asking)  # [4, 3]
    assert [sorted(set(column)) for column in found.T.tolist()] == shared


def test_what_answers_is_left_out_of_the_neighbours_and_the_next_ones_come_up() -> None:
    made = pairs([0, 0, 1, 2], [5, 6, 6, 7])
    near = Neighbours(np.array([[0.9, 0.8, 0.7]], np.float32), np.array([[1, 0, 2]]))  # texts 6, 5 and 7
    found = _apart(made, np.array([0]), near)
    assert found.rows[0, :2].tolist() == [3, NONE] and found.scores[0, 0] == np.float32(0.7)
