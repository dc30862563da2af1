"""TREC run files: ``qid Q0 docid rank score tag``, one line per ranked document."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from .metrics import Ranking

TAG = "dance"


def write(path: Path, ranking: Ranking) -> None:
    """Best first; scores are written so that a float32 reads back as itself."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        for query, scores in ranking.items():
            ordered = sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
            for rank, (document, score) in enumerate(ordered, start=1):
                file.write(f"{escaped(query)} Q0 {escaped(document)} {rank} {score:.9g} {TAG}\n")
    temporary.rename(path)


def read(path: Path) -> Ranking:
    """Raises ValueError with file and line where a line is not of the format."""
    ranking: Ranking = {}
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            fields = line.split()
            if len(fields) != 6:
                raise ValueError(f"{path}:{number}: a TREC run line has 6 fields, this one {len(fields)}")
            scores = ranking.setdefault(fields[0], {})
            if fields[2] in scores:
                raise ValueError(f"{path}:{number}: {fields[2]} is ranked twice for query {fields[0]}")
            scores[fields[2]] = _number(fields[4], path, number)
    return ranking


def _number(field: str, path: Path, line: int) -> float:
    try:
        return float(field)
    except ValueError:
        raise ValueError(f"{path}:{line}: score {field!r} is not a number") from None


def escaped(name: str) -> str:
    """White space, which would break the line, as %20 and the like; any other id byte for byte."""
    return re.sub(r"\s", lambda space: quote(space.group()), name) or "%00"
