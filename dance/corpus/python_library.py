"""Text that is there without a download: the functions of the Python libraries installed beside us.

A document is the source of a documented function without its docstring, titled by module path and
qualified name. A query is the first sentence of a docstring; relevant to it are all functions that
have it. Sentences shared by many functions, or across splits, say too little: their functions stay
in the corpus without a query. Files are parsed, never imported, and a file is in one split only.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import logging
import multiprocessing
import os
import sysconfig
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..cores import cores
from .lines import files_digest
from .python_function import Function, functions_of
from .reading import Answered, Document, Judgement, Query, Scored

log = logging.getLogger(__name__)
PACKAGES = ("torch", "transformers", "numpy", "scipy", "networkx")
MOST_SHARED = 3  # functions that one sentence may describe
_SKIPPED = {"test", "tests", "testing", "idle_test", "__pycache__", "site-packages", "_vendor"}
_TWENTIETHS = {0: "dev", 1: "test"}  # of the files; the other eighteen train
_PARALLEL_FROM = 200  # files; fewer are parsed here, before a pool has even started
_MOST_PROCESSES = 8  # there is not work for more


class Library(NamedTuple):
    name: str
    root: Path
    package: str  # name that its modules are imported below; "" where they have none above them


class Described(NamedTuple):
    """A query and what answers it."""

    sentence: str
    split: str
    functions: tuple[int, ...]  # document rows


def installed_libraries() -> list[Library]:
    """The standard library and those of ``PACKAGES`` that are installed; nothing is imported."""
    found = [Library("python", Path(sysconfig.get_path("stdlib")), "")]
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            found.append(Library(name, Path(spec.submodule_search_locations[0]), name))
    return found


def library_at(root: Path) -> Library:
    """Any folder of Python files. Raises ValueError where there is none."""
    if not root.is_dir():
        raise ValueError(f"data.path: no such folder: {root}")
    return Library(root.name, root, root.name if (root / "__init__.py").is_file() else "")


@dataclass(frozen=True)
class PythonLibraries:
    """A ``Source``."""

    libraries: list[Library]

    @property
    def name(self) -> str:
        return "python"

    @property
    def unread(self) -> tuple[str, ...]:
        return ()

    def documents(self) -> Iterator[Document]:
        for identity, function in zip(self._ids, self._functions):
            yield Document(identity, function.name, function.source, function.line)

    def queries(self) -> Iterator[Query]:
        for described in self._described:
            yield Query(_query_id(described.sentence), described.sentence, 1)

    def judgements(self) -> dict[str, Iterator[Judgement]]:
        return {split: self._judgements(split) for split in ("train", *_TWENTIETHS.values())}

    def given(self) -> dict[str, Iterator[Judgement]]:
        return {}

    def teacher(self) -> dict[str, Iterator[Scored]]:
        return {}

    def answers(self) -> Iterator[Answered]:
        return iter(())

    def place(self, part: str, line: int) -> str:
        return f"{part} of the Python libraries" + (f", line {line}" if line else "")

    def fingerprint(self) -> str:
        names = "\n".join(f"{library.name}/{path}" for library, path in self._files)
        contents = files_digest([library.root / path for library, path in self._files])
        return hashlib.sha256(f"{names}\n{contents}".encode()).hexdigest()

    def _judgements(self, split: str) -> Iterator[Judgement]:
        for described in self._described:
            if described.split == split:
                for row in described.functions:
                    yield Judgement(_query_id(described.sentence), self._ids[row], 1, 1)

    @cached_property
    def _files(self) -> list[tuple[Library, str]]:
        """In the order of the libraries, then of the paths below them."""
        return [(library, path) for library in self.libraries for path in _python_files(library.root)]

    @cached_property
    def _functions(self) -> list[Function]:
        arguments = [(library.root / path, f"{library.name}/{path}", library.package) for library, path in self._files]
        if len(arguments) < _PARALLEL_FROM:
            return _flat(functions_of(*argument) for argument in arguments)
        # Spawned, not forked: our own process may already run threads of tokenizers or OpenMP.
        context = multiprocessing.get_context("spawn")
        processes = min(cores(), _MOST_PROCESSES)
        log.info("parsing %d Python files with %d processes, once", len(arguments), processes)
        with ProcessPoolExecutor(processes, context, initializer=start_worker) as pool:
            return _flat(pool.map(functions_of, *zip(*arguments), chunksize=32))

    @cached_property
    def _ids(self) -> list[str]:
        """Names, numbered from the second on where a name is defined again (overloads, branches)."""
        seen: dict[str, int] = defaultdict(int)
        ids = []
        for function in self._functions:
            seen[function.name] += 1
            again = seen[function.name]
            ids.append(function.name if again == 1 else f"{function.name}~{again}")
        return ids

    @cached_property
    def _described(self) -> list[Described]:
        """Queries in the order of their first function."""
        rows: dict[str, list[int]] = defaultdict(list)
        for row, function in enumerate(self._functions):
            if function.sentence:
                rows[function.sentence].append(row)
        described = []
        for sentence, shared in rows.items():
            splits = {_split(self._functions[row].file) for row in shared}
            if len(shared) <= MOST_SHARED and len(splits) == 1:
                described.append(Described(sentence, splits.pop(), tuple(shared)))
        return described


def _python_files(root: Path) -> list[str]:
    paths = (path.relative_to(root) for path in root.rglob("*.py"))
    return sorted(path.as_posix() for path in paths if not _SKIPPED & set(path.parts[:-1]))


def start_worker() -> None:
    """In each process of a pool, first."""
    gc.disable()  # syntax trees hold no cycles: looking for some only costs time
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A pool's processes outlive a killed parent otherwise, waiting for work."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _flat(parts: Iterable[list[Function]]) -> list[Function]:
    return [function for part in parts for function in part]


def _split(file: str) -> str:
    """The same on every machine: it depends on the path below the library alone."""
    draw = int.from_bytes(hashlib.sha256(file.encode()).digest()[:8], "big") % 20
    return _TWENTIETHS.get(draw, "train")


def _query_id(sentence: str) -> str:
    return "sentence-" + hashlib.sha256(sentence.encode()).hexdigest()[:16]
