"""A document's fields, and the ways in which they become one input of a model (``model.document_template``).

    pair     [CLS] url title [SEP] text [SEP]             the model's own template of two texts
    joined   [CLS] url [SEP] title [SEP] text [SEP]       one sequence, one separator between two fields
    spelt    [CLS] url<sep>title<sep>text [SEP]           one sequence, the separator spelt out as text

The lines of a title are fields of their own: a reader that has a URL puts it on the first line, and "pair"
puts them on one line again. "spelt" is ANCE's code of 2020, whose encoders of documents were trained so: "<sep>" is
no token of RoBERTa's. "joined" is its later code. As there, an empty title or text leaves its
separator in both; a document without any title is its text alone, in every template.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from .chunking import Sizes, cut, head_and_pieces

Template = Literal["pair", "joined", "spelt"]
Ids = list[int]
SPELT = "<sep>"


class Frame(NamedTuple):
    """The special ids of a single text."""

    start: Ids
    separator: int  # that two fields have between them
    end: Ids

    @property
    def size(self) -> int:
        return len(self.start) + len(self.end)


def one_line(title: str) -> str:
    return title.strip("\n").replace("\n", " ")


def fields(title: str, text: str) -> list[str]:
    """Without white space at the end of each, as in the public code."""
    return [field.rstrip() for field in (*title.split("\n"), text)] if title.strip() else [text.rstrip()]


def raw(parts: Sequence[Ids], frame: Frame, sizes: Sizes) -> list[Ids]:
    """The joined ids of all fields, cut at their end to fit, then every ``max_tokens``; one chunk is ``single``."""
    content, separators = _join(parts, frame)
    room = sizes.max_tokens * sizes.chunks - frame.size
    ids = [*frame.start, *content[:room], *frame.end]
    special = [*(1 for _ in frame.start), *separators[:room], *(1 for _ in frame.end)]
    return cut(ids, special, sizes)


def titled(parts: Sequence[Ids], frame: Frame, sizes: Sizes) -> list[Ids]:
    """Whole inputs: the last field in pieces, each behind the others, which keep half of the room at most."""
    *front, text = parts
    if not front:
        return [[*frame.start, *piece, *frame.end] for piece in head_and_pieces([], text, sizes, frame.size)[1]]
    head, pieces = head_and_pieces(_join(front, frame)[0], text, sizes, frame.size + 1)
    return [[*frame.start, *head, frame.separator, *piece, *frame.end] for piece in pieces]


def _join(parts: Sequence[Ids], frame: Frame) -> tuple[Ids, Ids]:
    """(ids, 1 where a separator stands)"""
    ids, special = list(parts[0]), [0] * len(parts[0])
    for part in parts[1:]:
        ids += [frame.separator, *part]
        special += [1, *(0 for _ in part)]
    return ids, special
