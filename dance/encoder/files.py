"""Encoders on disk: built, saved and loaded whole; never a random weight in silence.

A saved encoder is a plain Hugging Face folder, a sentence-transformers folder, and ours:

    config.json  model.safetensors  tokenizer files      the backbone, for any tool
    modules.json  1_Pooling/  2_Dense/  3_LayerNorm/     pooling and head: see ``sentence``
    dance.json                                           EncoderSettings

Two towers are two such folders, query/ and document/, beside one dance.json and the tokenizer, which
is read from there.
"""

from __future__ import annotations

import copy
import logging
from pathlib import Path

import msgspec
import torch
from transformers import PreTrainedModel

from .. import config
from . import backbone as backbones
from . import sentence
from .model import Encoder, EncoderSettings, Head, Side, Tower
from .outline import SETTINGS, Outline, check, has_norm, places, read_settings, read_tokenizer

__all__ = ["SETTINGS", "Encoder", "Outline", "build", "check", "load", "read_settings", "save"]
log = logging.getLogger(__name__)


def build(model: config.Model, seed: int, dropout: float | None = None) -> Encoder:
    """The encoder that training starts from, in float32 and training mode.

    All weights come from ``model.path``, but for the head of a backbone that has none: that is
    drawn from ``seed``, and logged; two towers then start equal. ``dropout`` replaces every dropout
    of the backbone; None keeps its own. Raises ValueError as ``check`` does, for weights that are
    missing, and for a first token that does not see the text.
    """
    outline = check(model)
    if outline.saved:
        towers = _saved_towers(outline.source, outline.settings, outline.settings.layers, dropout)
    else:
        towers = _new_towers(outline, seed, dropout)
    for tower in towers:
        _refuse_blind(tower, model.path)
    log.info("encoder from %s: %d layers, width %d", outline.source, outline.settings.layers, outline.width)
    return Encoder(towers, outline.settings, outline.tokenizer).train()


def save(encoder: Encoder, folder: Path) -> None:
    """Everything that ``load`` needs, into a folder; it is whole only once ``artefact.publishing`` ends."""
    for side, place in places(folder, encoder.settings):
        place.mkdir(parents=True, exist_ok=True)
        tower = encoder.tower(side)
        backbones.save(tower.backbone, place)
        sentence.write(encoder.settings, side, tower.backbone.config.hidden_size, tower.head, place)
        encoder.tokenizer.save(place)  # for other tools
    encoder.tokenizer.save(folder)
    written = msgspec.json.format(msgspec.json.encode(encoder.settings), indent=2)
    (folder / SETTINGS).write_bytes(written + b"\n")


def load(folder: Path, device: torch.device, dtype: torch.dtype = torch.float32) -> Encoder:
    """A saved encoder, in evaluation mode, its backbones' weights in ``dtype``.

    Raises ValueError that names weights which are missing or have no place.
    """
    saved = read_settings(folder)
    if saved is None:
        raise ValueError(f"{folder}: no {SETTINGS}; not a saved encoder: give it as model.path instead")
    towers = _saved_towers(str(folder), saved)
    tokenizer = read_tokenizer(str(folder), towers[0].backbone.config.vocab_size, saved)
    for tower in towers:
        # Parameters alone: buffers such as rotary frequencies lose too much in bf16.
        for parameter in tower.backbone.parameters():
            parameter.data = parameter.data.to(dtype)
    return Encoder(towers, saved, tokenizer).to(device).eval()


def _new_towers(outline: Outline, seed: int, dropout: float | None) -> list[Tower]:
    settings = outline.settings
    backbone = backbones.load(outline.source, settings.layers, dropout)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = Head(outline.hidden, settings.head) if settings.head else None
    if head is not None:
        log.info("new head %d -> %d, drawn from seed %d", outline.hidden, outline.width, seed)
    queries = Tower(backbone, settings.pooling, head)
    if settings.towers == "one":
        return [queries]
    documents = copy.deepcopy(queries)
    if documents.head is not None and not has_norm(settings, "document"):
        documents.head.norm = None
    return [queries, documents]


def _saved_towers(
    source: str, settings: EncoderSettings, layers: int | None = None, dropout: float | None = None
) -> list[Tower]:
    return [
        _saved_tower(folder, side, settings, backbones.load(folder, layers, dropout, whole=True))
        for side, folder in places(source, settings)
    ]


def _saved_tower(folder: str, side: Side, settings: EncoderSettings, backbone: PreTrainedModel) -> Tower:
    head = Head(backbone.config.hidden_size, settings.head, has_norm(settings, side)) if settings.head else None
    if head is not None:
        sentence.read_head(head, Path(folder))
    elif sentence.has_head(Path(folder)):
        raise ValueError(f"{folder}: has a head that {SETTINGS} does not know of; the folder was mixed up")
    return Tower(backbone, settings.pooling, head)


@torch.inference_mode()
def _refuse_blind(tower: Tower, path: str) -> None:
    """A model that reads left to right gives every text the same first state."""
    if tower.pooling != "cls":
        return
    last = tower.backbone.config.vocab_size - 1
    ids = torch.tensor([[last, last - 1, last - 2], [last, last - 3, last - 4]])
    first = tower.backbone.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[:, 0]
    if torch.allclose(first[0], first[1], rtol=0, atol=1e-6):
        raise ValueError(f"{path} reads left to right, its first token sees no text: set model.pooling=mean")
