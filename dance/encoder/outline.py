"""What an encoder will be, known and checked before a single weight is read.

Where ``model.path`` is an encoder that we saved, its towers, pooling, head, normalisation, prompts and template
are part of what its weights mean: settings that differ are refused, but that vectors may be made unit
ones. Token limits and chunks are not: the configured ones win, and the change is logged.
"""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from transformers import PretrainedConfig

from .. import config
from ..corpus.tokenizer import Tokenizer
from ..location import resolve_model
from . import backbone as backbones
from . import header
from .model import SIDES, EncoderSettings, Side

SETTINGS = "dance.json"
MEANING = (
    "towers", "pooling", "head", "normalize", "document_norm", "query_prompt", "document_prompt", "document_template",
)  # fmt: skip
LIMITS = ("query_max_tokens", "document_max_tokens", "chunks", "chunking")
Folder = TypeVar("Folder", str, Path)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outline:
    """What an encoder will be, known before a single weight is read."""

    source: str  # folder or hub name
    hidden: int  # width of the backbone's states
    positions: int | None  # tokens per text that it has positions for; None has no limit
    settings: EncoderSettings
    tokenizer: Tokenizer
    saved: bool  # one of ours: head and all are loaded

    @property
    def width(self) -> int:
        return self.settings.head or self.hidden


def check(model: config.Model) -> Outline:
    """Reads configuration, tokenizer and the headers of weights. Raises ValueError with the keys and the remedy."""
    source = resolve_model(model.path)
    _refuse_lone_tower(source)
    saved = read_settings(Path(source))
    folders = [folder for _, folder in places(source, saved)] if saved else [source]
    backbone = _one_shape([backbones.read_config(folder) for folder in folders], source)
    _refuse_conflicts(model, saved)
    positions = backbones.usable_positions(backbone)
    refuse_long(model, positions)
    _check_headers(source, backbone, saved)
    tokenizer = read_tokenizer(source, backbone.vocab_size, saved)
    layers = min(model.layers or backbone.num_hidden_layers, backbone.num_hidden_layers)
    chosen = EncoderSettings(
        **{key: getattr(model, key) for key in (*MEANING, *LIMITS)},
        layers=layers,
        tokenizer_fingerprint=tokenizer.fingerprint,
    )
    return Outline(source, backbone.hidden_size, positions, chosen, tokenizer, saved is not None)


def places(folder: Folder, settings: EncoderSettings) -> list[tuple[Side, Folder]]:
    """Where each tower of a saved encoder lies; a shared one is the queries', which has all parts."""
    if settings.towers == "one":
        return [("query", folder)]
    return [(side, folder / side if isinstance(folder, Path) else f"{folder}/{side}") for side in SIDES]


def has_norm(settings: EncoderSettings, side: Side) -> bool:
    """Whether any text passes the LayerNorm of this side's tower."""
    return side == "query" or settings.document_norm


def read_settings(folder: Path) -> EncoderSettings | None:
    """None where the folder is not one of ours. Raises ValueError for a file that cannot be read."""
    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=EncoderSettings)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}; it is written beside the weights, save the encoder again") from None


def read_tokenizer(source: str, vocabulary: int, saved: EncoderSettings | None) -> Tokenizer:
    """Refuses one that is not the encoder's own, before its ids run out of the model's table."""
    tokenizer = Tokenizer.load(source)
    if tokenizer.vocabulary_size > vocabulary:
        raise ValueError(
            f"model.path={source}: its tokenizer has {tokenizer.vocabulary_size} ids, the model rows for "
            f"{vocabulary}; they do not belong together"
        )
    if saved is not None and saved.tokenizer_fingerprint != tokenizer.fingerprint:
        raise ValueError(
            f"{source}: trained with tokenizer {saved.tokenizer_fingerprint}, but the folder has "
            f"{tokenizer.fingerprint}; copy the encoder's folder whole"
        )
    return tokenizer


def as_arguments(path: str, settings: EncoderSettings) -> str:
    """What to type for a saved encoder, where it is not the default."""
    fresh = config.Model()
    changed = [key for key in (*MEANING, *LIMITS) if getattr(settings, key) != getattr(fresh, key)]
    return " ".join([shlex.quote(f"model.path={path}"), *(typed(key, settings) for key in changed)])


def typed(key: str, settings: EncoderSettings) -> str:
    """KEY=VALUE for a shell."""
    value = getattr(settings, key)
    plain = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return shlex.quote(f"model.{key}={plain}")


def _one_shape(configs: list[PretrainedConfig], source: str) -> PretrainedConfig:
    """The towers' common configuration, as far as it matters outside of them."""
    for key in ("hidden_size", "vocab_size", "num_hidden_layers", "max_position_embeddings"):
        values = {getattr(shape, key, None) for shape in configs}
        if len(values) > 1:
            raise ValueError(f"{source}: its towers differ in {key} ({', '.join(map(str, values))}); copy it whole")
    return configs[0]


def _check_headers(source: str, backbone: PretrainedConfig, saved: EncoderSettings | None) -> None:
    if saved is None:
        header.check_backbone(source, backbone)
        return
    for side, folder in places(source, saved):
        header.check_backbone(folder, backbone)
        if saved.head:
            header.check_head(Path(folder), backbone.hidden_size, saved.head, has_norm(saved, side))


def _refuse_lone_tower(source: str) -> None:
    """One of two towers, given alone, would lose its head in silence."""
    parent = Path(source).parent
    if Path(source).name in SIDES and (parent / SETTINGS).is_file():
        raise ValueError(f"model.path={source} is one tower of an encoder: set model.path={parent}")


def _refuse_conflicts(model: config.Model, saved: EncoderSettings | None) -> None:
    if not model.document_norm and model.head is None:
        raise ValueError("model.document_norm=false leaves out the LayerNorm of a head: set model.head as well")
    if saved is None:
        return
    differing = [key for key in MEANING if getattr(model, key) != getattr(saved, key)]
    if "normalize" in differing and model.normalize:  # no default: it was asked for, and adds no weights
        differing.remove("normalize")
        log.info("model.normalize=true: the encoder's vectors are made unit ones from here on")
    if differing:
        remedy = " ".join(typed(key, saved) for key in differing)
        raise ValueError(f"{model.path} was trained otherwise than model.{differing[0]} says: set {remedy}")
    for key in LIMITS:
        if getattr(model, key) != getattr(saved, key):
            log.info("model.%s=%s replaces the encoder's %s", key, getattr(model, key), getattr(saved, key))


def refuse_long(model: config.Model, positions: int | None) -> None:
    """Raises ValueError for limits over the positions that there are."""
    for key in ("query_max_tokens", "document_max_tokens"):
        value = getattr(model, key)
        if positions is not None and value > positions:
            raise ValueError(f"model.{key}={value}: {model.path} has positions for {positions} tokens; lower it")
