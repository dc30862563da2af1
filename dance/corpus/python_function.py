"""The documented functions of one Python file."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FEWEST_WORDS = 3  # of a sentence that can be searched for
_LONGEST = 400  # characters of a sentence
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(\[])|\s*:\s*$")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    file: str  # LIBRARY/path/below/it.py
    line: int
    name: str  # module path and qualified name
    source: str  # without the docstring
    sentence: str  # first of the docstring; "" where it is too short to be a query


def functions_of(path: Path, file: str, package: str) -> list[Function]:
    """Top-level functions and methods with a docstring; none where the file does not parse.

    ``file`` is LIBRARY/path/below/it.py, ``package`` the name that modules of the library are below.
    """
    raw = path.read_bytes().replace(b"\r\n", b"\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other people's escapes
            tree = ast.parse(raw)
    except (SyntaxError, ValueError, RecursionError):
        return []
    lines = raw.splitlines(keepends=True)
    return [_function(file, name, node, lines) for name, node in _definitions(tree, _module(file, package))]


def _module(file: str, package: str) -> str:
    below = file.split("/")[1:]
    parts = [package, *below[:-1], below[-1].removesuffix(".py")]
    return ".".join(part for part in parts if part not in ("", "__init__"))


def _definitions(parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, _Definition]]:
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node, f"{prefix}.{node.name}")
        elif isinstance(node, _Definition) and ast.get_docstring(node, clean=False):
            yield f"{prefix}.{node.name}", node


def _function(file: str, name: str, node: _Definition, lines: list[bytes]) -> Function:
    docstring = node.body[0]
    start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    before = _cut(lines, (start, 0), (docstring.lineno, docstring.col_offset))
    assert docstring.end_lineno and docstring.end_col_offset is not None and node.end_lineno
    after = _cut(lines, (docstring.end_lineno, docstring.end_col_offset), (node.end_lineno + 1, 0))
    source = (before.rstrip(b" \t") + after.lstrip(b" \t;").removeprefix(b"\n")).decode(errors="replace")
    return Function(file, node.lineno, name, textwrap.dedent(source).strip("\n"), sentence_of(node))


def _cut(lines: list[bytes], start: tuple[int, int], end: tuple[int, int]) -> bytes:
    """From (line, column) up to (line, column); lines count from 1, columns in bytes."""
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]]
    middle = lines[start[0] : end[0] - 1]
    last = lines[end[0] - 1][: end[1]] if end[1] else b""
    return b"".join([lines[start[0] - 1][start[1] :], *middle, last])


def sentence_of(node: _Definition) -> str:
    """First sentence of the docstring's first paragraph; "" where it says too little."""
    docstring = (ast.get_docstring(node) or "").encode(errors="ignore").decode()
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    sentence = _END.split(paragraph, maxsplit=1)[0]
    enough = len(sentence.split()) >= _FEWEST_WORDS and len(sentence) <= _LONGEST
    return sentence if enough else ""
