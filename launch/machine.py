"""What this machine offers, found without importing torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dance.cores import cores


@dataclass(frozen=True)
class Machine:
    cores: int  # that this process may use
    gpus: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them


def find() -> Machine:
    return Machine(cores(), gpus())


def gpus(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """GPUs that the installed torch can use: none with its CPU build."""
    if not torch_has_cuda():
        return ()
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(name.strip() for name in visible.split(",") if name.strip() not in ("", "-1"))
    return tuple(line.partition(",")[0].strip() for line in gpu_lines())


def gpu_lines() -> list[str]:
    """One line per GPU, "index, name, memory"; [] without a driver."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=index,name,memory.total", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return []
    return found.stdout.strip().splitlines() if found.returncode == 0 else []


def torch_has_cuda() -> bool:
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return False
    libraries = Path(spec.submodule_search_locations[0]) / "lib"
    return any((libraries / name).exists() for name in ("libtorch_cuda.so", "torch_cuda.dll"))
