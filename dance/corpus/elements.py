"""The elements of a JSON array in a file, one at a time, whatever the size of the file."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .lines import opened

_READ = 1 << 20  # bytes read at a time; twice as much whenever an element is longer than what is held
_DECODER = json.JSONDecoder()


def read_elements(path: Path) -> Iterator[tuple[int, Any]]:
    """(number from 1, object) of an array of objects.

    Raises ValueError with the file and the number of the element that is broken or cut.
    """
    window = _Window(path)
    if window.take() != "[":
        raise ValueError(f"{path}: expected a JSON array of objects: [{{...}}, ...]")
    number = 0
    ends = "]" if window.peek() == "]" else ","
    while ends == ",":
        number += 1
        yield number, window.element(number)
        ends = window.take()
    if ends != "]":
        raise ValueError(f"{path}: after element {number}: expected a comma or the end of the array, found {ends!r}")


class _Window:
    """What is held of the text: from the next character on, as far as an element needs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts = _texts(path)
        self._held = ""
        self._at = 0

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self._at < len(self._held):
                if not self._held[self._at].isspace():
                    return self._held[self._at]
                self._at += 1
            if not self._more():
                return ""

    def take(self) -> str:
        character = self.peek()
        self._at += len(character)
        return character

    def element(self, number: int) -> Any:
        if self.peek() != "{":
            raise ValueError(f"{self._path}: element {number}: expected an object, found {self.peek() or 'the end'!r}")
        while True:
            try:
                value, self._at = _DECODER.raw_decode(self._held, self._at)
                return value
            except json.JSONDecodeError as error:
                if not self._more():
                    raise ValueError(f"{self._path}: element {number}: {error.msg}, or the file is cut short") from None

    def _more(self) -> bool:
        """Hold at least twice as much, so that a long element is not decoded again and again."""
        wanted = max(2 * (len(self._held) - self._at), 1)
        parts = [self._held[self._at :]]
        length = len(parts[0])
        for part in self._parts:
            parts.append(part)
            length += len(part)
            if length >= wanted:
                break
        more = len(parts) > 1
        self._held, self._at = "".join(parts), 0
        return more


def _texts(path: Path) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    with opened(path) as file:
        while raw := file.read(_READ):
            try:
                yield decoder.decode(raw)
            except UnicodeDecodeError:
                raise ValueError(f"{path}: byte {file.tell() - len(raw)} of the file or after is not UTF-8") from None
