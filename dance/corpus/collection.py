"""One corpus with its queries and judgements, as rows.

    TEXT/ document_ids.*  titles.*  texts.*  twins.npy  query_ids.*  query_texts.*  query_twins.npy  qrels-SPLIT.*
          own_documents.npy  manifest.json
          and where the data has them: given-SPLIT.*  teacher-SPLIT.*  asked-SPLIT.npy
          answers.*  answer_offsets.npy  answer_patterns.npy

Document row i is the i-th kept document of the source, query rows likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .. import arrays, artefact
from . import own
from .answers import Answers
from .qrels import Qrels, Rows
from .relevance import Relevance
from .strings import StringTable
from .teacher import TeacherScores

KIND = "text"


@dataclass(frozen=True)
class Collection:
    path: Path
    document_ids: StringTable
    titles: StringTable
    texts: StringTable
    query_ids: StringTable
    queries: StringTable
    splits: Mapping[str, Qrels]
    given: Mapping[str, Qrels]  # by split: "relevant" in these are the pairs that the data gives as negatives
    teacher: Mapping[str, TeacherScores]  # by split
    answers: Answers | None
    facts: Mapping[str, Any]  # of the manifest: source, settings, kept, dropped

    @classmethod
    def open(cls, path: Path) -> Collection:
        """Raises artefact.Broken where a file is missing or not of its size."""
        facts = artefact.verify(path).facts
        least = facts["settings"].get("relevant_from", 1)  # a folder of an earlier version has none
        if not (path / "query_twins.npy").is_file():
            raise artefact.Broken(f"{path} was made by an earlier version; run `dance prepare` again")
        return cls(
            path=path,
            document_ids=StringTable(path / "document_ids"),
            titles=StringTable(path / "titles"),
            texts=StringTable(path / "texts"),
            query_ids=StringTable(path / "query_ids"),
            queries=StringTable(path / "query_texts"),
            splits={split: Qrels.load(path / f"qrels-{split}", least) for split in facts["splits"]},
            given={split: Qrels.load(path / f"given-{split}") for split in facts["given"]},
            teacher={split: TeacherScores.load(path / f"teacher-{split}") for split in facts["teacher"]},
            answers=None if facts["answers"] is None else Answers.load(path),
            facts=facts,
        )

    @cached_property
    def twins(self) -> Rows:
        """Row of the first document with the same text as each. [documents]"""
        return arrays.load(self.path / "twins.npy")

    @cached_property
    def query_twins(self) -> Rows:
        """Row of the first query with the same text as each. [queries]"""
        return arrays.load(self.path / "query_twins.npy")

    @cached_property
    def own_documents(self) -> Rows:
        """Row of the document that is skipped for each query, being the query itself; -1 without one. [queries]"""
        path = self.path / own.FILE
        # An earlier version skipped none: its encoders are measured as they were trained.
        return arrays.load(path) if path.is_file() else np.full(len(self.query_ids), own.NONE)

    def relevance(self, split: str, copies: bool = True) -> Relevance:
        """What must never oppose what, by a split's judgements; ``copies`` widens them by equal texts and queries."""
        return Relevance.of(self.splits[split], self.twins, copies, self.query_twins, self.own_documents)

    @property
    def counts(self) -> dict[str, Any]:
        """documents, queries, splits: {split: {"queries", "relevant", "judged"}}."""
        return {key: self.facts[key] for key in ("documents", "queries", "splits")}

    def judged(self, split: str) -> dict[str, int]:
        """judged: queries of a split's judgements; usable: those that are there with something relevant. {} unknown."""
        return dict(self.facts.get("usable", {}).get(split, {}))

    def told(self, split: str) -> list[str]:
        """What has to be known to read the metrics of a split."""
        lines = []
        if counts := self.judged(split):
            judged, usable = counts["judged"], counts["usable"]
            lines.append(f"{split}: {judged} queries judged, {len(self.splits[split])} scored; means are over these")
            if usable < judged:
                lines[0] += f", with the {judged - usable} that cannot be scored as 0 times {usable / judged:.3g}"
        if (least := self.facts["settings"].get("relevant_from", 1)) != 1:
            lines.append(f"data.relevant_from: relevant is a grade of {least} or more; NDCG takes the grades")
        return lines + own.told(self.facts.get("own_documents", {"same_id": 0}))

    def missing(self, splits: Sequence[str]) -> list[str]:
        """Of the splits whose judgements are mostly of queries that cannot be scored: another split's, perhaps."""
        counted = {split: counts for split in splits if (counts := self.judged(split))}
        return [
            f"{split}: {counts['usable']} of {counts['judged']} judged queries can be scored; are the judgements of "
            "another split, or queries and documents of another corpus?"
            for split, counts in counted.items()
            if 2 * counts["usable"] < counts["judged"]
        ]

    def split(self, name: str) -> Qrels:
        """Raises ValueError where the split is absent or has no query with a relevant document."""
        require_splits(self.splits, [name], str(self.facts["source"]), self.facts["files"], self._left_out)
        return self.splits[name]

    def asked(self, name: str) -> Rows:
        """Query rows of a split: those with a relevant document or, in one without judgements, with answers.

        Raises as ``split``.
        """
        if name in self.facts["asked"]:
            return np.asarray(arrays.load(self.path / f"asked-{name}.npy"))
        return self.split(name).queries

    def require(self, names: Sequence[str]) -> None:
        """Raises ValueError unless each split has queries with relevant documents, or with answers."""
        for name in names:
            self.asked(name)

    @property
    def _left_out(self) -> list[str]:
        return [f"{dropped['count']} {reason}" for reason, dropped in self.facts["dropped"].items()]


def require_splits(
    splits: Mapping[str, Qrels],
    names: Sequence[str],
    source: str,
    files: Mapping[str, str] | None = None,
    left_out: Sequence[str] = (),
) -> None:
    """Raises ValueError unless each named split has a query with a relevant document.

    ``files`` names where the judgements of a split are, ``left_out`` explains: what was dropped on the way here.
    """
    counts = ", ".join(f"{split} ({len(qrels)} queries)" for split, qrels in splits.items())
    why = f" Left out: {'; '.join(left_out)}." if left_out else ""
    for name in names:
        if not len(splits.get(name, ())):
            where = f", {files[name]}" if files and name in files else ""
            raise ValueError(
                f"{source}: split {name!r} has no query with a relevant document; there are: {counts or 'none'}. "
                f"Name another by data.train_split or data.dev_split, or complete its qrels{where}.{why}"
            )
