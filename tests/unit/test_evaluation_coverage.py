"""Answers in passages by hand-worked cases of DPR's matching."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dance.evaluation.coverage import DEPTH, NO_ANSWERS, coverage, first_answers, matcher


@pytest.mark.parametrize(
    ("answer", "text", "there"),
    [
        ("Paris", "the capital is paris.", True),  # without case, punctuation is a word of its own
        ("Paris", "a parisian street", False),  # whole words alone
        ("New York", "in new  york city", True),  # whatever white space lies between
        ("New York", "new, york", False),  # a sign between is a word between
        ("U.S.", "the u.s. army", True),
        ("U.S.", "the us army", False),
        ("café", "the cafe\u0301 opens", True),  # composed and decomposed are one
        ("cafe", "the café opens", False),  # a mark belongs to its letter
        ("3.5", "about 3.5 km", True),
        ("١٩", "year ١٩ ends", True),
        ("don't", "I don't know", True),
        ("", "anything", False),
        ("   ", "anything", False),
        ("naïve Bayes", "Naïve bayes wins", True),
    ],
)
def test_words_of_an_answer_in_a_row(answer: str, text: str, there: bool) -> None:
    assert matcher([answer], is_regex=False)(text) is there


@pytest.mark.parametrize(
    ("pattern", "text", "there"),
    [
        (r"July \d+", "on july 4 1776", True),
        (r"^start", "first line\nstart of the second", True),
        (r"colou?r", "COLOR", True),
        (r"(unclosed", "(unclosed", False),
        (r"19\d\d$", "born in 1924\nand so on", True),
        ("caf\u00e9", "the cafe\u0301", True),
    ],
)
def test_patterns_are_searched_without_case_line_by_line(pattern: str, text: str, there: bool) -> None:
    assert matcher([pattern], is_regex=True)(text) is there


def test_any_of_several_answers_counts_and_a_broken_pattern_spoils_none() -> None:
    assert matcher(["Rome", "Paris"], is_regex=False)("in Paris")
    assert matcher(["(", "par.s"], is_regex=True)("in Paris")


def test_the_first_passage_with_an_answer_counts_and_titles_do_not() -> None:
    answers = SimpleNamespace(regex=lambda query: False, of=lambda query: [["cat"], [], ["cow"], ["dog"]][query])
    collection = SimpleNamespace(answers=answers, texts=["a cat", "a dog", "none"], titles=["", "", "cow"])
    rows = np.array([[1, 0, 2], [0, 1, 2], [0, 2, -1], [-1, -1, -1]])
    firsts = first_answers(collection, np.arange(4), rows)  # type: ignore[arg-type]
    assert firsts.tolist() == [1, NO_ANSWERS, DEPTH, DEPTH]


def test_patterns_and_strings_stand_beside_each_other() -> None:
    answers = SimpleNamespace(regex=lambda query: query == 1, of=lambda query: ["c.t"])
    collection = SimpleNamespace(answers=answers, texts=["a cat"])
    firsts = first_answers(collection, np.arange(2), np.array([[0], [0]]))  # type: ignore[arg-type]
    assert firsts.tolist() == [DEPTH, 0]


def test_coverage_is_the_share_of_questions_with_answers() -> None:
    firsts = np.array([0, 19, 20, 99, DEPTH, NO_ANSWERS])
    assert coverage(firsts) == {"coverage@20": 2 / 5, "coverage@100": 4 / 5}
    assert coverage(np.array([NO_ANSWERS])) == {}
