"""One corpus with its queries and judgements, as rows.

    TEXT/ document_ids.*  titles.*  texts.*  query_ids.*  query_texts.*  twins.npy  qrels-SPLIT.*  manifest.json

Document row i is the i-th kept document of the source, query rows likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import arrays, artefact
from .qrels import Qrels, Rows
from .strings import StringTable

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
    facts: Mapping[str, Any]  # of the manifest: source, settings, kept, dropped

    @classmethod
    def open(cls, path: Path) -> Collection:
        """Raises artefact.Broken where a file is missing or not of its size."""
        facts = artefact.verify(path).facts
        return cls(
            path=path,
            document_ids=StringTable(path / "document_ids"),
            titles=StringTable(path / "titles"),
            texts=StringTable(path / "texts"),
            query_ids=StringTable(path / "query_ids"),
            queries=StringTable(path / "query_texts"),
            splits={split: Qrels.load(path / f"qrels-{split}") for split in facts["splits"]},
            facts=facts,
        )

    @cached_property
    def twins(self) -> Rows:
        """Row of the first document with the same text as each. [documents]"""
        return arrays.load(self.path / "twins.npy")

    @property
    def counts(self) -> dict[str, Any]:
        """documents, queries, splits: {split: {"queries", "relevant", "judged"}}."""
        return {key: self.facts[key] for key in ("documents", "queries", "splits")}

    def split(self, name: str) -> Qrels:
        """Raises ValueError where the split is absent or has no query with a relevant document."""
        left_out = [f"{dropped['count']} {reason}" for reason, dropped in self.facts["dropped"].items()]
        require_splits(self.splits, [name], str(self.facts["source"]), left_out)
        return self.splits[name]


def require_splits(
    splits: Mapping[str, Qrels], names: Sequence[str], source: str, left_out: Sequence[str] = ()
) -> None:
    """Raises ValueError unless each named split has a query with a relevant document.

    ``left_out`` explains: what was dropped on the way here.
    """
    counts = ", ".join(f"{split} ({len(qrels)} queries)" for split, qrels in splits.items())
    why = f" Left out: {'; '.join(left_out)}." if left_out else ""
    for name in names:
        if not len(splits.get(name, ())):
            raise ValueError(
                f"{source}: split {name!r} has no query with a relevant document; there are: {counts or 'none'}. "
                f"Name another by data.train_split or data.dev_split, or complete its qrels.{why}"
            )
