"""Public checkpoint files to encoder folders and back; the names inside are ``public``'s.

Pickles are read as tensors alone (``weights_only``): nothing in them is run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import PretrainedConfig

from .. import artefact, config
from ..errors import first_line
from . import backbone as backbones
from . import files
from .model import Encoder, EncoderSettings
from .outline import LIMITS, MEANING, refuse_long
from .public import LAYOUTS, Layout, Weights, assemble, disassemble, head_width, layout_of, tokenizer_of, zero_poolers

_FILES = ("model.safetensors", "pytorch_model.bin")
_FREE = (*LIMITS, "pooling", "document_template", "path")  # where the layout does not say; all else follows from it
log = logging.getLogger(__name__)


def take_in(source: Path, name: str, given: Mapping[str, str], to: Path) -> Encoder:
    """A public checkpoint, folder or file, becomes the encoder folder ``to``.

    ``given`` are settings by their name under ``model.``, as typed: ``path`` brings configuration and
    tokenizer where the checkpoint has none, limits, chunks and the template of documents are free. Raises
    ValueError before anything is written.
    """
    layout = layout_of(name)
    _refuse_there(to)
    weights = read_weights(source)
    base = given.get("path") or (str(source) if (source / "config.json").is_file() else layout.base)
    shape = _shape(base, layout)
    model = _model(layout, given, head_width(weights, layout))
    refuse_long(model, backbones.usable_positions(shape))
    tokenizer = tokenizer_of(base, layout)
    settings = EncoderSettings(
        **{key: getattr(model, key) for key in (*MEANING, *LIMITS)},
        layers=shape.num_hidden_layers,
        tokenizer_fingerprint=tokenizer.fingerprint,
    )
    with torch.no_grad():
        encoder = assemble(weights, layout, shape, settings, tokenizer)
    with artefact.publishing(to, "encoder", None, {"layout": name}) as folder:
        files.save(encoder, folder)
    return encoder


def give_out(source: Path, name: str, to: Path) -> None:
    """One of our encoders becomes a public checkpoint: a folder, or DPR's one file."""
    _refuse_there(to)
    encoder = files.load(source, torch.device("cpu"))
    weights = disassemble(encoder, name)
    dropped = {key: getattr(encoder.settings, key) for key in (*LIMITS, "pooling", "document_template")}
    log.info("the layout has no place for %s", ", ".join(f"model.{key}={value}" for key, value in dropped.items()))
    if name == "dpr":
        _write_dpr(to, weights | zero_poolers(encoder, LAYOUTS[name]))
    else:
        _write_folder(to, weights, encoder)


def read_weights(source: Path) -> Weights:
    """Of a file, or of the one in a folder. Raises ValueError where there is none, or more than tensors in it."""
    path = next((source / name for name in _FILES if (source / name).is_file()), source)
    if not path.is_file():
        raise ValueError(f"from={source}: no such file, nor a folder with {' or '.join(_FILES)}")
    found = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    inner = found.get("model_dict", found) if isinstance(found, dict) else found
    if not isinstance(inner, dict) or not inner or not all(isinstance(value, Tensor) for value in inner.values()):
        raise ValueError(f"{path}: neither weights by name nor a dict with them as model_dict")
    return dict(inner)


def _read_safetensors(path: Path) -> Weights:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: cut or damaged ({error}); copy it again") from None


def _read_pickle(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what a damaged pickle raises has no common base
        raise ValueError(
            f"{path}: not tensors alone, or damaged, so not read: that could run what is in it ({first_line(error)}); "
            "where you trust it, save its state dict alone with torch.save"
        ) from None


def _shape(base: str, layout: Layout) -> PretrainedConfig:
    """Configuration of the layout's own family; files of its time do not always name one."""
    family = layout.config.model_type
    local = Path(base)
    found = _config_of(local / "config.json") if local.is_dir() else backbones.read_config(base).to_dict()
    if found.get("model_type", family) != family:
        raise ValueError(f"{base} is of {found['model_type']}, the layout is {family}'s: set model.path to one of it")
    return layout.config.from_dict(found)


def _config_of(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise ValueError(f"{path}: no configuration ({error}); set model.path to a folder that has one") from None


def _model(layout: Layout, given: Mapping[str, str], head: int | None) -> config.Model:
    """The layout's settings, with those ``given``."""
    allowed = [key for key in _FREE if key not in layout.meaning]
    fixed = [key for key in given if key not in allowed]
    if fixed:
        free = ", ".join(f"model.{key}" for key in allowed)
        raise ValueError(f"model.{fixed[0]} follows from layout=: leave it out; free are {free}")
    settings = {"path": layout.base, "pooling": "cls", **layout.limits, **layout.meaning, "head": head, **given}
    try:
        return msgspec.convert(settings, config.Model, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"model.*: {error}") from None


def _write_folder(to: Path, weights: Weights, encoder: Encoder) -> None:
    temporary = artefact.draft(to)
    encoder.backbones()[0].config.save_pretrained(temporary)
    encoder.tokenizer.save(temporary)
    torch.save(weights, temporary / "pytorch_model.bin")  # the one name that the public code knows
    artefact.flush(temporary)
    artefact.place(temporary, to)


def _write_dpr(to: Path, weights: Weights) -> None:
    """All keys of its checkpoints; only the weights are filled."""
    to.parent.mkdir(parents=True, exist_ok=True)
    empty: dict[str, Any] = {"optimizer_dict": {}, "scheduler_dict": {}, "offset": 0, "epoch": 0, "encoder_params": {}}
    temporary = to.with_name(f".tmp-{to.name}")
    torch.save({"model_dict": weights, **empty}, temporary)
    temporary.rename(to)


def _refuse_there(to: Path) -> None:
    if to.exists():
        raise ValueError(f"to={to} is there already: choose another, or remove it")
