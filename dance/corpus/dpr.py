"""The files of DPR: Wikipedia passages, questions with passages, and questions with answers alone.

    psgs_w100.tsv                 id, text, title; real CSV with tab as separator, quotes doubled inside quotes
    NAME-train.json  NAME-dev.json   questions with positive and negative passages and answers
    NAME.qa.csv                   question and a Python list of answers, separated by a tab; NAME-train.csv,
                                  NAME-dev.csv and NAME-test.csv, as DPR's own download has them, are the same

Each plain or .gz. All ``*-train.json`` together are the split "train" (more than one is the papers'
"multi-task"), all ``*-dev.json`` the split "dev"; a question file is a split of its own: nq-test.qa.csv
or nq-test.csv is "nq-test". A query is named FILE-NUMBER, from 0, without the "biencoder-" that DPR's own
download puts first. Its given negatives are the hard ones, the other ones where it has no hard ones.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec

from .columns import wrong_columns
from .elements import read_elements
from .lines import at, file_and_line, files_digest, found, line_of, raw_lines
from .reading import Answered, Document, Judgement, Query, Scored

_PASSAGES = "psgs_w100.tsv"
_EXAMPLES = re.compile(r"(?:biencoder-)?(?P<stem>(?:.*-)?(?P<split>train|dev))\.json(?:\.gz)?")
_QUESTIONS = re.compile(
    r"(?P<split>[A-Za-z0-9_][A-Za-z0-9_.-]*?)\.qa\.csv(?:\.gz)?"
    r"|(?P<downloaded>[A-Za-z0-9_][A-Za-z0-9_.-]*-(?:train|dev|test))\.csv(?:\.gz)?"
)
_LIKE_OURS = re.compile(r".*\.(?:json|csv)(?:\.gz)?")
_REGULAR_EXPRESSIONS = "curatedtrec"  # the one set of DPR's whose answers are expressions
_LONGEST_FIELD = (1 << 31) - 1  # characters


class _File(NamedTuple):
    path: Path
    stem: str  # first part of its queries' ids
    split: str
    judged: bool  # it names passages


class _Passage(msgspec.Struct):
    passage_id: str | int | None = None
    psg_id: str | int | None = None


class _Example(msgspec.Struct):
    question: str
    answers: tuple[str, ...] = ()
    positive_ctxs: tuple[_Passage, ...] = ()
    negative_ctxs: tuple[_Passage, ...] = ()
    hard_negative_ctxs: tuple[_Passage, ...] = ()


class _Question(NamedTuple):
    """Ids of passages stand in one string, a line each: a file has tens of thousands of questions."""

    text: str
    answers: tuple[str, ...]
    positives: str
    negatives: str
    line: int


@dataclass(frozen=True)
class DprFolder:
    """A ``Source``."""

    root: Path
    passages: Path
    files: tuple[_File, ...]

    @classmethod
    def open(cls, root: Path) -> DprFolder:
        """Raises ValueError that lists the official names where a needed file is absent."""
        if not root.is_dir():
            raise ValueError(f"data.path: no such folder: {root}")
        passages, files = found(root, _PASSAGES), _question_files(root)
        if passages is None or not files:
            lacking = _PASSAGES if passages is None else "question file"
            raise ValueError(
                f"{root}: no {lacking}. Expected under their official names, plain or .gz: {_PASSAGES}, "
                "NAME-train.json and NAME-dev.json (e.g. biencoder-nq-train.json); optional: NAME-test.qa.csv or "
                "NAME-test.csv (e.g. nq-test.qa.csv, trivia-test.csv)"
                + (f". Of unknown names: {', '.join(unread)}" if (unread := _unread(root, files)) else "")
            )
        return cls(root, passages, files)

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def unread(self) -> tuple[str, ...]:
        return _unread(self.root, self.files)

    def documents(self) -> Iterator[Document]:
        csv.field_size_limit(_LONGEST_FIELD)
        rows = csv.reader((line for _, line in raw_lines(self.passages)), delimiter="\t", strict=True)
        last = 0  # line on which the row before ended
        for fields in _rows(rows, self.passages):
            number, last = last + 1, rows.line_num
            if not fields or (number == 1 and fields[0].strip().lower() == "id"):
                continue
            if len(fields) != 3:
                expected = "3 columns (id, text, title) separated by tabs"
                raise wrong_columns(self.passages, number, "\t".join(fields), expected, len(fields))
            yield Document(fields[0], fields[2], fields[1], number)

    def queries(self) -> Iterator[Query]:
        for file, questions in self._questions.items():
            for number, question in enumerate(questions):
                yield Query(f"{file.stem}-{number}", question.text, question.line)

    def judgements(self) -> dict[str, Iterator[Judgement]]:
        splits = dict.fromkeys(file.split for file in self.files if file.judged)
        return {split: self._pairs(split, "positives") for split in splits}

    def given(self) -> dict[str, Iterator[Judgement]]:
        splits = dict.fromkeys(file.split for file in self.files if file.judged)
        return {split: self._pairs(split, "negatives") for split in splits}

    def teacher(self) -> dict[str, Iterator[Scored]]:
        return {}

    def answers(self) -> Iterator[Answered]:
        for file, questions in self._questions.items():
            regex = file.stem.startswith(_REGULAR_EXPRESSIONS)
            for number, question in enumerate(questions):
                yield Answered(f"{file.stem}-{number}", question.answers, regex, file.split, question.line)

    def place(self, part: str, line: int) -> str:
        """A question's line is the number of its element in a JSON file."""
        if part == "documents":
            return at(self.passages, line)
        number, line = file_and_line(line)
        if line:
            return at(self.files[number].path, line)
        split = part.split("/")[-1]
        return str(next((file.path for file in self.files if file.split == split), self.root / f"*-{split}.json"))

    def fingerprint(self) -> str:
        contents = files_digest([self.passages, *(file.path for file in self.files)])
        return hashlib.sha256("\n".join([contents, *(file.stem for file in self.files)]).encode()).hexdigest()

    @cached_property
    def _questions(self) -> dict[_File, list[_Question]]:
        read = {True: _examples, False: _asked}
        return {file: list(read[file.judged](number, file.path)) for number, file in enumerate(self.files)}

    def _pairs(self, split: str, kind: str) -> Iterator[Judgement]:
        for file, questions in self._questions.items():
            for number, question in enumerate(questions if file.split == split and file.judged else ()):
                for passage in getattr(question, kind).splitlines():
                    yield Judgement(f"{file.stem}-{number}", passage, 1, question.line)


def _question_files(root: Path) -> tuple[_File, ...]:
    files: dict[str, _File] = {}
    for path in sorted(root.iterdir()):  # of a file that is there plain and compressed, the plain one
        if match := _EXAMPLES.fullmatch(path.name):
            files.setdefault(match["stem"], _File(path, match["stem"], match["split"], True))
        elif match := _QUESTIONS.fullmatch(path.name):
            split = match["split"] or match["downloaded"]
            files.setdefault(f"{split}.qa", _File(path, f"{split}.qa", split, False))
    return tuple(files.values())


def _unread(root: Path, files: Iterable[_File]) -> tuple[str, ...]:
    read = {file.path.name.removesuffix(".gz") for file in files}
    names = (path.name for path in sorted(root.iterdir()) if _LIKE_OURS.fullmatch(path.name))
    return tuple(name for name in names if name.removesuffix(".gz") not in read)


def _rows(rows: Iterator[list[str]], path: Path) -> Iterator[list[str]]:
    try:
        yield from rows
    except csv.Error as error:
        line = getattr(rows, "line_num", 0)
        raise ValueError(
            f"{path}:{line}: {error}; a field that holds quotes is itself in quotes, its own doubled"
        ) from None


def _examples(file: int, path: Path) -> Iterator[_Question]:
    for number, element in read_elements(path):
        try:
            example = msgspec.convert(element, _Example)
            positives = _ids(example.positive_ctxs)
            negatives = _ids(example.hard_negative_ctxs) or _ids(example.negative_ctxs)
        except (msgspec.ValidationError, ValueError) as error:
            raise ValueError(f"{path}: element {number}: {error}") from None
        yield _Question(example.question, example.answers, positives, negatives, line_of(file, number))


def _ids(passages: tuple[_Passage, ...]) -> str:
    names = [p.passage_id if p.passage_id is not None else p.psg_id for p in passages]
    if None in names:
        raise ValueError("a passage has neither passage_id nor psg_id")
    return "\n".join(map(str, names))


def _asked(file: int, path: Path) -> Iterator[_Question]:
    csv.field_size_limit(_LONGEST_FIELD)
    rows = csv.reader((line for _, line in raw_lines(path)), delimiter="\t")
    for fields in _rows(rows, path):
        if not fields:
            continue
        if len(fields) != 2:
            expected = "2 columns (question, list of answers) separated by a tab"
            raise wrong_columns(path, rows.line_num, "\t".join(fields), expected, len(fields))
        yield _Question(fields[0], _answers(path, rows.line_num, fields[1]), "", "", line_of(file, rows.line_num))


def _answers(path: Path, line: int, field: str) -> tuple[str, ...]:
    try:
        answers = ast.literal_eval(field)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        answers = None
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise ValueError(f"{path}:{line}: expected a Python list of strings, found {field[:80]!r}")
    return tuple(answers)
