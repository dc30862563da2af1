"""A document that is longer than the model's input becomes several inputs (ANCE MaxP), two ways.

    titled   [CLS] title [SEP] text 1 [SEP]   [CLS] title [SEP] text 2 [SEP]   ...   whole inputs
    raw      [CLS] title [SEP] text 1         text 2                           ...   one input, cut

A chunk that holds nothing but special tokens is not made, and every document has at least one chunk. The
public code does score a last chunk of the closing separator alone, where one input ends just there, and reads no more
than the first 10,000 characters of a document; otherwise "raw" is what it does.
"""

from __future__ import annotations

from typing import NamedTuple

import tokenizers


class Sizes(NamedTuple):
    max_tokens: int  # of a chunk, special ones counted
    chunks: int  # of a document, at most


def titled(
    fast: tokenizers.Tokenizer, title: tokenizers.Encoding | None, text: tokenizers.Encoding, sizes: Sizes
) -> list[tokenizers.Encoding]:
    """Whole inputs: the text in pieces without overlap, each under the title where there is one.

    Both encodings come without special tokens. A title keeps half of the room at most, or what the text
    leaves: as "longest first" truncation cuts a pair, so that the first chunk is that of a single one.
    """
    room = sizes.max_tokens - fast.num_special_tokens_to_add(title is not None)
    if title is not None:
        half = (room + (len(title) > len(text))) // 2
        title.truncate(max(half, room - len(text)))
        room -= len(title)
    text.truncate(room)
    pieces = [text, *text.overflowing][: sizes.chunks]
    if title is None:
        return [fast.post_process(piece) for piece in pieces]
    return [fast.post_process(title, piece) for piece in pieces]


def head_and_pieces(head: list[int], text: list[int], sizes: Sizes, special: int) -> tuple[list[int], list[list[int]]]:
    """The same division of ids: what a head keeps, and the pieces of the text, at least one.

    ``special`` is how many ids a chunk holds beside.
    """
    room = sizes.max_tokens - special
    head = head[: max(room // 2, room - len(text))]
    step = max(1, room - len(head))  # a text that is empty leaves the head all of it
    return head, [text[start : start + step] for start in range(0, max(len(text), 1), step)[: sizes.chunks]]


def cut(ids: list[int], special: list[int], sizes: Sizes) -> list[list[int]]:
    """One input of ids, cut every ``max_tokens``; ``special`` is 1 where the template added the token."""
    starts = range(0, len(ids), sizes.max_tokens)[: sizes.chunks]
    spans = [slice(start, start + sizes.max_tokens) for start in starts]
    return [ids[span] for at, span in enumerate(spans) if at == 0 or not all(special[span])]
