"""`dance doctor`: what is installed and found here, and what will bite."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from dance.config import Config
from dance.location import resolve_model

from . import machine, terminal
from .preflight import size

_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "pyzmq",
    "hydra-core",
    "msgspec",
    "bm25s",
    "ir-measures",
)
_OPEN_FILES = 1024
_SHARED_MEMORY = 64 << 20
_DISK = 2_000_000_000


def main() -> int:
    """Facts, then a mark per check and what is good to know; 1 where something will bite."""
    for line in facts():
        terminal.show(line)
    bad = 0
    for name, check in CHECKS.items():
        trouble = check()
        bad += trouble is not None
        terminal.show(f"{'!!' if trouble else 'ok'}  {name}" + (f": {trouble}" if trouble else ""))
    for name, check in NOTES.items():
        if (told := check()) is not None:
            terminal.show(f"--  {name}: {told}")
    return 1 if bad else 0


def facts() -> list[str]:
    """Versions and devices."""
    found = machine.find()
    lines = [f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {sys.executable}"]
    lines.append(", ".join(f"{name} {_version(name)}" for name in _PACKAGES))
    memory = size(psutil.virtual_memory().total)
    lines.append(
        f"{found.cores} cores, {memory} of memory, {size(shutil.disk_usage(Path.cwd()).free)} of disk free here"
    )
    lines += [f"GPU {line}" for line in machine.gpu_lines()] or ["no NVIDIA GPU"]
    return lines


def faiss() -> str | None:
    from dance.search.flavour import check_faiss

    try:
        check_faiss()
    except ValueError as error:
        return str(error)
    return None


def torch_and_gpus() -> str | None:
    """A GPU that torch cannot use is the costliest thing to overlook."""
    if machine.gpu_lines() and not machine.torch_has_cuda():
        return "there is a GPU, but torch is the CPU build: make run EXTRAS=gpu, in a new .venv"
    if not machine.torch_has_cuda() or not machine.gpu_lines():
        return None
    asked = "import torch; print(torch.cuda.is_available())"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    return None if "True" in told.stdout else "torch cannot use the GPU: driver and CUDA build do not match"


def packages() -> str | None:
    missing = [name for name in _PACKAGES if _version(name) == "missing"]
    return f"not installed: {', '.join(missing)}; pip install -e '.[cpu]'" if missing else None


def default_encoder() -> str | None:
    try:
        resolve_model(Config().model.path)
    except ValueError as error:
        return str(error)
    return None


def loopback() -> str | None:
    """torchrun's rendezvous and tcp endpoints."""
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
    except OSError as error:
        return f"no port on 127.0.0.1: {error}"
    return None


def local_sockets() -> str | None:
    """The exchange's: in the folder for temporary files."""
    if not hasattr(socket, "AF_UNIX"):
        return "no Unix sockets here: set exchange.encoders and exchange.negatives to tcp://127.0.0.1:PORT"
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(str(Path(folder) / "probe"))
        except OSError as error:
            return f"no Unix socket in {tempfile.gettempdir()} ({error}): set TMPDIR to a short local path"
    return None


def disk() -> str | None:
    free = shutil.disk_usage(Path.cwd()).free
    return f"{size(free)} free here: set run_dir and data.prepared elsewhere" if free < _DISK else None


def open_files() -> str | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"limit of {soft}: raise it with ulimit -n {_OPEN_FILES}" if 0 <= soft < _OPEN_FILES else None


def shared_memory() -> str | None:
    shm = Path("/dev/shm")  # noqa: S108 - looked at, not written to
    if not machine.gpu_lines() or not shm.is_dir():
        return None
    total = shutil.disk_usage(shm).total
    return (
        f"{size(total)} in /dev/shm: NCCL wants more, start the container with --shm-size=1g"
        if total < _SHARED_MEMORY
        else None
    )


def threads() -> str | None:
    value = os.environ.get("OMP_NUM_THREADS")
    return f"OMP_NUM_THREADS={value} is replaced for the roles: set launch.threads instead" if value else None


CHECKS: dict[str, Callable[[], str | None]] = {
    "packages": packages,
    "Faiss, exactly one build": faiss,
    "torch and GPUs fit": torch_and_gpus,
    "default encoder": default_encoder,
    "ports on loopback": loopback,
    "local sockets": local_sockets,
    "disk": disk,
    "open files": open_files,
    "shared memory": shared_memory,
}
NOTES: dict[str, Callable[[], str | None]] = {"threads": threads}  # nothing is wrong with it


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
