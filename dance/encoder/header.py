"""Names and shapes of weights on disk, from the headers of their files: no weight is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers import PretrainedConfig

from . import backbone as backbones

WEIGHTS = "model.safetensors"
DENSE, NORM = "2_Dense", "3_LayerNorm"  # where the parts of a head lie
_INDEX = f"{WEIGHTS}.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
Shape = tuple[int, ...]


def check_backbone(source: str, config: PretrainedConfig) -> None:
    """Of a local folder; a hub name is left to the hub.

    Raises ValueError where the file is missing or cut, does not fit its config.json, or is a public
    checkpoint whose head would be left behind.
    """
    folder = Path(source)
    if not folder.is_dir():
        return
    found = _shapes_of_folder(folder)
    backbones.refuse_public(source, found)
    for name, shape in backbones.shapes(config).items():
        if found.get(name, shape) != shape:
            raise ValueError(
                f"{folder / WEIGHTS}: {name} is {_by(found[name])}, but by config.json {_by(shape)}; they do not "
                "belong together: copy the folder whole"
            )


def check_head(folder: Path, hidden: int, width: int, normed: bool) -> None:
    """Raises ValueError where a file is missing or cut, or the head is not ``hidden`` -> ``width``."""
    wanted: dict[str, dict[str, Shape]] = {DENSE: {"linear.weight": (width, hidden), "linear.bias": (width,)}}
    if normed:
        wanted[NORM] = {"norm.weight": (width,), "norm.bias": (width,)}
    for name, shapes in wanted.items():
        path = folder / name / WEIGHTS
        found = read(path)
        wrong = sorted(key for key in found.keys() | shapes.keys() if found.get(key) != shapes.get(key))
        if wrong:
            raise ValueError(
                f"{path}: head weights missing, unexpected or of another shape than {hidden} -> {width}: "
                f"{', '.join(wrong)}; copy the encoder's folder whole"
            )


def read(path: Path) -> dict[str, Shape]:
    """{name: shape}. Raises ValueError where the file is missing, cut or no safetensors file."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; copy its folder whole")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: cut or damaged ({error}); copy it again") from None


def _shapes_of_folder(folder: Path) -> Mapping[str, Shape]:
    index = folder / _INDEX
    if not (folder / WEIGHTS).is_file() and index.is_file():
        parts = set(json.loads(index.read_bytes())["weight_map"].values())
        return {name: shape for part in sorted(parts) for name, shape in read(folder / part).items()}
    if not (folder / WEIGHTS).is_file():
        raise ValueError(_absent(folder))
    return read(folder / WEIGHTS)


def _absent(folder: Path) -> str:
    pickle = next((name for name in _PICKLES if (folder / name).is_file()), None)
    if pickle is None:
        return f"model.path={folder}: no {WEIGHTS} there; copy its folder whole"
    return (
        f"model.path={folder}: no {WEIGHTS}, and {pickle} is a pickle, which is not loaded here: save the model "
        f"again as safetensors; of a public ANCE, DANCE or DPR checkpoint: {backbones.conversion(str(folder))}"
    )


def _by(shape: Shape) -> str:
    return " x ".join(map(str, shape))
