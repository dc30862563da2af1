"""Which build of Faiss is installed, asked before anything imports it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

CPU = "faiss-cpu"
GPU = ("faiss-gpu", "faiss-gpu-cu11", "faiss-gpu-cu12", "faiss-gpu-cuvs")


def check_faiss() -> str:
    """Name and version of the one build there is. Raises ValueError with the command that mends it."""
    found = [f"{name} {release}" for name in (CPU, *GPU) if (release := _version(name)) is not None]
    if len(found) > 1:
        names = " ".join(build.split()[0] for build in found)
        raise ValueError(
            f"{' and '.join(found)} are both installed and overwrite each other's files: "
            f"pip uninstall -y {names} && pip install 'dance-retrieval[cpu]' (or [gpu])"
        )
    if found:
        return found[0]
    if find_spec("faiss") is not None:
        return "faiss of another origin"  # conda's, or one's own build
    raise ValueError("Faiss is not installed: pip install 'dance-retrieval[cpu]' (with an NVIDIA GPU: [gpu])")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
