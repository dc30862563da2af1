import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from dance.config import Data
from dance.corpus import python_library
from dance.corpus.python_function import Function, functions_of
from dance.corpus.python_library import PythonLibraries, installed_libraries, library_at
from dance.corpus.reading import open_source


def functions(
    tmp_path: Path, source: str | bytes, file: str = "lib/pkg/module.py", package: str = "lib"
) -> list[Function]:
    path = tmp_path / "module.py"
    path.write_bytes(source if isinstance(source, bytes) else textwrap.dedent(source).encode())
    return functions_of(path, file, package)


def sentence(tmp_path: Path, docstring: str) -> str:
    return functions(tmp_path, f"def f():\n    '''{docstring}'''\n")[0].sentence


def test_document_is_the_source_without_its_docstring(tmp_path: Path) -> None:
    source = '''
    import os

    class Reader(object):
        @property
        def name(self):
            """Return the name of the file.

            Not the path.
            """
            # kept
            return "é" + self._name
    '''
    (function,) = functions(tmp_path, source)
    assert function.name == "lib.pkg.module.Reader.name"
    assert function.source == '@property\ndef name(self):\n    # kept\n    return "é" + self._name'
    assert function.sentence == "Return the name of the file."


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('def f(): "Do nothing at all."\n', "def f():"),
        ('def f(): "Do nothing at all."; return 1\n', "def f():return 1"),
        ('def f():\n    "Do nothing at all."\n', "def f():"),
        ('async def f(a):\n    """Do nothing at all."""\n    await a', "async def f(a):\n    await a"),
        ('def f():\r\n    """Do nothing\r\n    at all."""\r\n    return 1\r\n', "def f():\n    return 1"),
    ],
)
def test_docstrings_are_cut_out_wherever_they_stand(tmp_path: Path, source: str, expected: str) -> None:
    (function,) = functions(tmp_path, source.encode())
    assert function.source == expected
    assert function.sentence == "Do nothing at all."


def test_only_documented_functions_and_methods_are_documents(tmp_path: Path) -> None:
    source = '''
    def plain(): return 1
    def outer():
        """Return a function inside."""
        def inner():
            """Never a document itself."""
    class A:
        """A class, no function."""
        class B:
            def method(self):
                """Return the inner thing."""
    '''
    names = [function.name for function in functions(tmp_path, source)]
    assert names == ["lib.pkg.module.outer", "lib.pkg.module.A.B.method"]


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Read a file. Then close it.", "Read a file."),
        ("Read a file,\\n    line by line.\\n\\n    More.".replace("\\n", "\n"), "Read a file, line by line."),
        ("Like os.path.join but safe", "Like os.path.join but safe"),
        ("Use e.g. a list of words. Or not.", "Use e.g. a list of words."),
        ("See base.", ""),
        ("word " * 200, ""),
    ],
)
def test_sentence_is_the_first_of_the_docstring(tmp_path: Path, docstring: str, expected: str) -> None:
    assert sentence(tmp_path, docstring) == expected


@pytest.mark.parametrize("source", [b"def f(:\n", b"\x00", b"print 'old'\n", b"# \xff\n"])
def test_files_that_do_not_parse_hold_nothing(tmp_path: Path, source: bytes) -> None:
    assert functions(tmp_path, source) == []


@pytest.mark.parametrize(
    ("file", "package", "name"),
    [
        ("python/json/decoder.py", "", "json.decoder.f"),
        ("torch/__init__.py", "torch", "torch.f"),
        ("x/m.py", "", "m.f"),
    ],
)
def test_names_are_import_paths(tmp_path: Path, file: str, package: str, name: str) -> None:
    (function,) = functions(tmp_path, 'def f():\n    "Do nothing at all."\n', file, package)
    assert function.name == name


def library(root: Path, sentences: dict[str, list[str]]) -> Path:
    for file, docs in sentences.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        body = "\n".join(f'def f{i}():\n    "{doc}"\n    return {i}\n' for i, doc in enumerate(docs))
        (root / file).write_text(body)
    return root


def test_relevant_are_all_functions_with_the_sentence_up_to_three(tmp_path: Path) -> None:
    files = {"a.py": ["Say it three times."] * 3 + ["Say it four times."] * 4 + ["Say it once only."]}
    source = PythonLibraries([library_at(library(tmp_path / "lib", files))])
    assert [q.text for q in source.queries()] == ["Say it three times.", "Say it once only."]
    judged = [(j.query_id, j.document_id) for split in source.judgements().values() for j in split]
    first, second = (q.id for q in source.queries())
    assert judged == [(first, "a.f0"), (first, "a.f1"), (first, "a.f2"), (second, "a.f7")]
    assert len(list(source.documents())) == 8


def test_no_file_and_no_sentence_is_in_two_splits(tmp_path: Path) -> None:
    files = {f"m{i}.py": [f"Return number {i} of them.", "Shared by every file."] for i in range(40)}
    files |= {"m0.py": ["Shared by two files."], "m1.py": ["Shared by two files."]}
    source = PythonLibraries([library_at(library(tmp_path / "lib", files))])
    homes: dict[str, set[str]] = {}
    for split, judgements in source.judgements().items():
        for judgement in judgements:
            homes.setdefault(judgement.document_id.split(".")[0], set()).add(split)
    assert len(homes) >= 38
    assert all(len(splits) == 1 for splits in homes.values())
    assert {split for splits in homes.values() for split in splits} == {"train", "dev", "test"}


def test_split_and_order_are_the_same_on_every_machine(tmp_path: Path) -> None:
    files = {f"pkg/m{i}.py": [f"Return number {i} of them."] for i in range(20)}
    here = PythonLibraries([library_at(library(tmp_path / "here" / "lib", files))])
    there = PythonLibraries([library_at(library(tmp_path / "there" / "lib", dict(reversed(files.items()))))])
    assert list(here.documents()) == list(there.documents())
    assert {s: list(j) for s, j in here.judgements().items()} == {s: list(j) for s, j in there.judgements().items()}
    assert here.fingerprint() == there.fingerprint()
    (tmp_path / "there" / "lib" / "pkg" / "m0.py").write_text("")
    fresh = PythonLibraries([library_at(tmp_path / "there" / "lib")])
    assert fresh.fingerprint() != here.fingerprint()


def test_a_pool_of_processes_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"m{i}.py": [f"Return number {i} of them."] for i in range(4)}
    lib = library_at(library(tmp_path / "lib", files))
    alone = list(PythonLibraries([lib]).documents())
    monkeypatch.setattr(python_library, "_PARALLEL_FROM", 1)
    assert list(PythonLibraries([lib]).documents()) == alone


_POOL = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from dance.corpus.python_library import start_worker
pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=start_worker)
print(pool.submit(os.getpid).result(), flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_no_process_of_the_pool_outlives_a_killed_parent() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(python_library.__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-c", _POOL], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    assert psutil.wait_procs([worker], timeout=10)[1] == []


def test_d12_names_defined_again_get_ids_of_their_own(tmp_path: Path) -> None:
    source = "class A:\n" + '    def f(self):\n        "Return the first of two."\n' * 2
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "m.py").write_text(source)
    documents = list(PythonLibraries([library_at(tmp_path / "lib")]).documents())
    assert [(d.id, d.title) for d in documents] == [("m.A.f", "m.A.f"), ("m.A.f~2", "m.A.f")]


def test_test_folders_are_skipped(tmp_path: Path) -> None:
    files = {
        "a.py": ["Return a useful thing."],
        "tests/b.py": ["Check a useful thing."],
        "x/test/c.py": ["Check it again now."],
    }
    source = PythonLibraries([library_at(library(tmp_path / "lib", files))])
    assert [d.id for d in source.documents()] == ["a.f0"]


def test_the_standard_library_and_what_is_installed_are_found() -> None:
    found = {lib.name: lib for lib in installed_libraries()}
    assert {"python", "torch", "numpy", "transformers"} <= found.keys()
    assert (found["python"].root / "json" / "decoder.py").is_file()
    assert isinstance(open_source(Data()), PythonLibraries)


def test_c02_a_folder_that_is_not_there_is_shown_whole(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no such folder: {tmp_path}/nowhere"):
        open_source(Data(path=str(tmp_path / "nowhere"), format="python"))
