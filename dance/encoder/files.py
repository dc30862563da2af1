"""Encoders on disk: found, checked, built, saved and loaded whole; never a random weight in silence.

A saved encoder is a plain Hugging Face folder, a sentence-transformers folder, and ours:

    config.json  model.safetensors  tokenizer files      the backbone, for any tool
    modules.json  1_Pooling/  2_Dense/  3_LayerNorm/     pooling and head: see ``sentence``
    dance.json                                           EncoderSettings

Where ``model.path`` is such a folder, its pooling, head and normalisation are part of what its
weights mean: settings that differ are refused. Token limits are not: the configured ones win, and
the change is logged.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch

from .. import config
from ..corpus.tokenizer import Tokenizer
from ..location import resolve_model
from . import backbone as backbones
from . import sentence
from .model import Encoder, EncoderSettings

SETTINGS = "dance.json"
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
    """Reads configuration and tokenizer only. Raises ValueError with the keys and the remedy."""
    source = resolve_model(model.path)
    backbone = backbones.read_config(source)
    saved = read_settings(Path(source))
    if saved is not None:
        _refuse_conflicts(model, saved)
    layers = min(model.layers or backbone.num_hidden_layers, backbone.num_hidden_layers)
    positions = backbones.usable_positions(backbone)
    _refuse_long(model, positions)
    tokenizer = _tokenizer(source, backbone.vocab_size, saved)
    chosen = EncoderSettings(
        pooling=model.pooling,
        head=model.head,
        normalize=model.normalize,
        layers=layers,
        query_max_tokens=model.query_max_tokens,
        document_max_tokens=model.document_max_tokens,
        tokenizer_fingerprint=tokenizer.fingerprint,
    )
    return Outline(source, backbone.hidden_size, positions, chosen, tokenizer, saved is not None)


def build(model: config.Model, seed: int, dropout: float | None = None) -> Encoder:
    """The encoder that training starts from, in float32 and training mode.

    All weights come from ``model.path``, but for the head of a backbone that has none: that is
    drawn from ``seed``, and logged. ``dropout`` replaces every dropout of the backbone; None keeps
    its own. Raises ValueError as ``check`` does, for weights that are missing, and for a first token
    that does not see the text.
    """
    outline = check(model)
    backbone = backbones.load(outline.source, outline.settings.layers, dropout)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = Encoder(backbone, outline.settings, outline.tokenizer)
    if outline.saved:
        _load_head(encoder, Path(outline.source))
    elif encoder.head is not None:
        log.info("new head %d -> %d, drawn from seed %d", outline.hidden, outline.width, seed)
    _refuse_blind(encoder, model.path)
    log.info("encoder from %s: %d layers, width %d", outline.source, outline.settings.layers, outline.width)
    return encoder.train()


def save(encoder: Encoder, folder: Path) -> None:
    """Everything that ``load`` needs, into a folder; it is whole only once ``artefact.publishing`` ends."""
    folder.mkdir(parents=True, exist_ok=True)
    backbones.save(encoder.backbone, folder)
    sentence.write(encoder.settings, encoder.backbone.config.hidden_size, encoder.head, folder)
    written = msgspec.json.format(msgspec.json.encode(encoder.settings), indent=2)
    (folder / SETTINGS).write_bytes(written + b"\n")
    encoder.tokenizer.save(folder)


def load(folder: Path, device: torch.device, dtype: torch.dtype = torch.float32) -> Encoder:
    """A saved encoder, in evaluation mode, its backbone's weights in ``dtype``.

    Raises ValueError that names weights which are missing or have no place.
    """
    saved = read_settings(folder)
    if saved is None:
        raise ValueError(f"{folder}: no {SETTINGS}; not a saved encoder: give it as model.path instead")
    tokenizer = _tokenizer(str(folder), backbones.read_config(str(folder)).vocab_size, saved)
    encoder = Encoder(backbones.load(str(folder), whole=True), saved, tokenizer)
    _load_head(encoder, folder)
    # Parameters alone: buffers such as rotary frequencies lose too much in bf16.
    for parameter in encoder.backbone.parameters():
        parameter.data = parameter.data.to(dtype)
    return encoder.to(device).eval()


def read_settings(folder: Path) -> EncoderSettings | None:
    """None where the folder is not one of ours. Raises ValueError for a file that cannot be read."""
    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=EncoderSettings)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}; it is written beside the weights, save the encoder again") from None


def _tokenizer(source: str, vocabulary: int, saved: EncoderSettings | None) -> Tokenizer:
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


def _load_head(encoder: Encoder, folder: Path) -> None:
    if encoder.head is not None:
        sentence.read_head(encoder.head, folder)
    elif sentence.has_head(folder):
        raise ValueError(f"{folder}: has a head that {SETTINGS} does not know of; the folder was mixed up")


@torch.inference_mode()
def _refuse_blind(encoder: Encoder, path: str) -> None:
    """A model that reads left to right gives every text the same first state."""
    if encoder.settings.pooling != "cls":
        return
    last = encoder.backbone.config.vocab_size - 1
    ids = torch.tensor([[last, last - 1, last - 2], [last, last - 3, last - 4]])
    first = encoder.backbone.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[:, 0]
    if torch.allclose(first[0], first[1], rtol=0, atol=1e-6):
        raise ValueError(f"{path} reads left to right, its first token sees no text: set model.pooling=mean")


def _refuse_conflicts(model: config.Model, saved: EncoderSettings) -> None:
    differing = [key for key in ("pooling", "head", "normalize") if getattr(model, key) != getattr(saved, key)]
    if differing:
        remedy = " ".join(f"model.{key}={_plain(getattr(saved, key))}" for key in differing)
        raise ValueError(f"{model.path} was trained otherwise than model.{differing[0]} says: set {remedy}")
    for key in ("query_max_tokens", "document_max_tokens"):
        if getattr(model, key) != getattr(saved, key):
            log.info("model.%s=%d replaces the encoder's %d", key, getattr(model, key), getattr(saved, key))


def _refuse_long(model: config.Model, positions: int | None) -> None:
    for key in ("query_max_tokens", "document_max_tokens"):
        value = getattr(model, key)
        if positions is not None and value > positions:
            raise ValueError(f"model.{key}={value}: {model.path} has positions for {positions} tokens; lower it")


def _plain(value: object) -> str:
    """As it is typed on the command line."""
    return {None: "null", True: "true", False: "false"}.get(value, str(value))  # type: ignore[call-overload]
