"""The shape of the code: imports go downwards only, heavy libraries stay in their rooms, files stay small."""

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAGES = ["corpus", "encoder", "search", "mining", "exchange", "learning", "evaluation"]
FILES = sorted(p for top in ("dance", "trainer", "inferencer", "launch") for p in (ROOT / top).rglob("*.py"))
# Where each heavy library may be imported.
ROOMS = {
    "zmq": {"dance/exchange"},
    "faiss": {"dance/search"},
    "hydra": {"launch"},
    "omegaconf": {"launch"},
    "transformers": {"dance/encoder", "dance/corpus/tokenizer.py"},
    "ir_measures": {"dance/evaluation"},
    "bm25s": {"dance/search"},
    "pickle": set(),
    "torch": {
        "dance/encoder",
        "dance/learning",
        "dance/evaluation/scoring.py",
        "dance/world.py",
        "dance/tracking.py",
        "dance/search/flat.py",
        "trainer",
        "inferencer",
    },
}


@functools.cache
def imports(path: Path) -> set[str]:
    """Absolute dotted names of everything that a file imports, anywhere in it."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{module}.{alias.name}" for alias in node.names} | {module}
    return names


def stage(name: str) -> int | None:
    """Height of a dance module: 0 is the ground floor, None is not ours."""
    parts = name.split(".")
    if parts[0] != "dance":
        return None
    return STAGES.index(parts[1]) + 1 if len(parts) > 1 and parts[1] in STAGES else 0


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_go_downwards(path):
    place = path.relative_to(ROOT).with_suffix("").parts
    for name in imports(path):
        top = name.split(".")[0]
        if place[0] == "dance":
            assert top not in ("trainer", "inferencer", "launch"), name
            height = stage(name)
            assert height is None or height <= (stage(".".join(place)) or 0), f"{path} imports {name}"
        elif place[0] in ("trainer", "inferencer"):
            assert top not in ({"trainer", "inferencer", "launch"} - {place[0]}), name
        else:
            assert top not in ("trainer", "inferencer"), name


@pytest.mark.parametrize("library", ROOMS)
def test_heavy_libraries_stay_in_their_rooms(library):
    for path in FILES:
        if any(name.split(".")[0] == library for name in imports(path)):
            place = path.relative_to(ROOT).as_posix()
            assert any(place == room or place.startswith(f"{room}/") for room in ROOMS[library]), place


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_files_and_functions_stay_small(path):
    source = path.read_text()
    assert source.count("\n") <= 250
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno + 1 <= 50, node.name
