"""TREC run files: ``qid Q0 docid rank score tag``, one line per ranked document."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote

from .metrics import Ranking

TAG = "dance"
_EMPTY = "%00"  # an id without a character
_ODD = re.compile(r"\s|%(?=[0-9A-Fa-f]{2})")


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
            query, document = unescaped(fields[0]), unescaped(fields[2])
            scores = ranking.setdefault(query, {})
            if document in scores:
                raise ValueError(f"{path}:{number}: {document} is ranked twice for query {query}")
            scores[document] = _number(fields[4], path, number)
    return ranking


def _number(field: str, path: Path, line: int) -> float:
    try:
        return float(field)
    except ValueError:
        raise ValueError(f"{path}:{line}: score {field!r} is not a number") from None


def escaped(name: str) -> str:
    """White space, which would break the line, as %20 and the like; any other id byte for byte.

    A percent sign that would read as such an escape is %25, so that ``unescaped`` gives every id back.
    """
    return _ODD.sub(lambda sign: quote(sign.group()), name) or _EMPTY


def unescaped(field: str) -> str:
    """The id that ``escaped`` wrote."""
    return "" if field == _EMPTY else unquote(field)
