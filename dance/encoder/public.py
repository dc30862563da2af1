"""Public checkpoints: the layouts of ANCE's, DANCE's and DPR's code, to and from our encoders.

    ance   RoBERTa folder: roberta.*, embeddingHead.*, norm.*     norm(head(x)) on both sides
    dance  the same names                                         queries normalize(norm(head(x))),
                                                                  documents normalize(head(x))
    dpr    one file of two BERTs: question_model.*, ctx_model.*   x, the first token's state

FirstP and MaxP checkpoints have the same names; MaxP is ``model.chunks=4 model.chunking=raw``. Nor do names
tell encoders of documents from those of passages: of documents, ANCE's and what was trained from them want
``model.document_template=spelt``, or ``joined`` where they were trained by its later code; of passages
all templates are one, as these have no title. DPR's
code, and ANCE's for OpenQA, give title and passage as a pair but segment 0 to both: the tokenizer of
such an encoder has no segments. Weights that their code has and does not use either (poolers,
classifiers) are left out, and named in the log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    BertTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizer,
)

from ..corpus.tokenizer import Tokenizer
from ..location import resolve_model
from .model import Encoder, EncoderSettings, Head, Tower

log = logging.getLogger(__name__)
Weights = dict[str, Tensor]
_HEAD = {"embeddingHead.": "linear.", "norm.": "norm."}  # their names, ours
_UNUSED = ("pooler", "classifier", "position_ids", "token_type_ids")


@dataclass(frozen=True)
class Layout:
    prefixes: tuple[str, ...]  # before the names of each tower's backbone
    config: type[PretrainedConfig]
    model: type[PreTrainedModel]
    tokenizer: type[PreTrainedTokenizerFast]
    base: str  # configuration and tokenizer of a checkpoint that brings none
    meaning: Mapping[str, Any]  # settings that the layout implies
    limits: Mapping[str, int]  # tokens that the papers trained with


_PLAIN = {"query_prompt": "", "document_prompt": ""}
_ROBERTA = (("roberta.",), RobertaConfig, RobertaModel, RobertaTokenizer, "roberta-base")
_PAPER = {"query_max_tokens": 64, "document_max_tokens": 512}
LAYOUTS = {
    "ance": Layout(*_ROBERTA, {"towers": "one", "normalize": False, "document_norm": True} | _PLAIN, _PAPER),
    "dance": Layout(*_ROBERTA, {"towers": "one", "normalize": True, "document_norm": False} | _PLAIN, _PAPER),
    "dpr": Layout(
        ("question_model.", "ctx_model."),
        BertConfig,
        BertModel,
        BertTokenizer,
        "bert-base-uncased",
        {"towers": "two", "head": None, "normalize": False, "document_norm": True, "document_template": "pair"}
        | _PLAIN,
        {"query_max_tokens": 256, "document_max_tokens": 256},
    ),
}


def layout_of(name: str) -> Layout:
    """Raises ValueError that lists the layouts there are."""
    if name not in LAYOUTS:
        raise ValueError(f"layout={name}: there are {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def head_width(weights: Weights, layout: Layout) -> int | None:
    """Of the checkpoint's head; None where the layout has none."""
    if "head" in layout.meaning:
        return None
    if "embeddingHead.weight" not in weights:
        raise ValueError(f"no embeddingHead.weight in the checkpoint: it is not of this layout; {_seen(weights)}")
    return len(weights["embeddingHead.weight"])


def assemble(
    weights: Weights, layout: Layout, shape: PretrainedConfig, settings: EncoderSettings, tokenizer: Tokenizer
) -> Encoder:
    """Every weight in its place. Raises ValueError that names those missing, unexpected or of another shape."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # nothing drawn here stays
        towers = [_tower(layout, shape, settings) for _ in layout.prefixes]
    encoder = Encoder(towers, settings, tokenizer)
    places = _names(encoder, layout)
    unused = {name for name in weights.keys() - places.keys() if set(name.split(".")) & set(_UNUSED)}
    _refuse("lacks weights", places.keys() - weights.keys(), weights)
    _refuse("has weights without a place", weights.keys() - places.keys() - unused, weights)
    _refuse("has weights of another shape", {n for n, own in places.items() if own.shape != weights[n].shape}, weights)
    if unused:
        log.info("not used, as in the public code: %s", ", ".join(sorted(unused)))
    for name, own in places.items():
        own.copy_(weights[name])
    return encoder.eval()


def disassemble(encoder: Encoder, name: str) -> Weights:
    """The weights by their public names. Raises ValueError where the layout would mean another encoder."""
    layout = layout_of(name)
    settings = encoder.settings
    other = [key for key, value in layout.meaning.items() if getattr(settings, key) != value]
    if "head" not in layout.meaning and not settings.head:
        other.append("head")
    has = [f"model.{key}={getattr(settings, key)}" for key in other]
    kind = encoder.backbones()[0].config.model_type
    if kind != layout.config.model_type:
        has.append(f"a {kind} backbone")
    if has:
        raise ValueError(
            f"layout={name} would read this encoder otherwise than it was trained: it has {', '.join(has)}"
        )
    return {name: own.detach().float().cpu().contiguous() for name, own in _names(encoder, layout).items()}


def zero_poolers(encoder: Encoder, layout: Layout) -> Weights:
    """What DPR's code asks for and never computes with."""
    width = encoder.backbones()[0].config.hidden_size
    parts = {"pooler.dense.weight": torch.zeros(width, width), "pooler.dense.bias": torch.zeros(width)}
    return {f"{prefix}{name}": value.clone() for prefix in layout.prefixes for name, value in parts.items()}


def tokenizer_of(base: str, layout: Layout) -> Tokenizer:
    """Of the layout's family where the folder's config.json names none, as those of before 2020 do not.

    Raises ValueError as ``Tokenizer.load``.
    """
    family = layout.tokenizer if _untyped(Path(resolve_model(base)) / "config.json") else None
    loaded = Tokenizer.load(base, family)
    if layout.config is not BertConfig or not loaded.uses_token_types:
        return loaded
    names = ["input_ids", "attention_mask"]
    without = (family or AutoTokenizer).from_pretrained(resolve_model(base), model_input_names=names)
    assert isinstance(without, PreTrainedTokenizerFast)
    return Tokenizer(without, base)


def _untyped(path: Path) -> bool:
    return path.is_file() and "model_type" not in json.loads(path.read_bytes())


def _tower(layout: Layout, shape: PretrainedConfig, settings: EncoderSettings) -> Tower:
    head = Head(shape.hidden_size, settings.head) if settings.head else None
    return Tower(layout.model(shape, add_pooling_layer=False), settings.pooling, head)


def _names(encoder: Encoder, layout: Layout) -> Weights:
    """{public name: our tensor}, of every tower."""
    found: Weights = {}
    for prefix, tower in zip(layout.prefixes, encoder.towers, strict=True):
        assert isinstance(tower, Tower)
        found |= {f"{prefix}{name}": value for name, value in tower.backbone.state_dict().items()}
        own = tower.head.state_dict() if tower.head is not None else {}
        for theirs, ours in _HEAD.items():
            found |= {theirs + n.removeprefix(ours): value for n, value in own.items() if n.startswith(ours)}
    return found


def _refuse(fault: str, names: set[str], weights: Weights) -> None:
    if names:
        listed = ", ".join(sorted(names)[:5])
        raise ValueError(f"the checkpoint {fault}: {listed} ({len(names)} in all); {_seen(weights)}")


def _seen(weights: Weights) -> str:
    starts = sorted({name.partition(".")[0] for name in weights})
    return f"its names begin with {', '.join(starts[:6])}: is layout= the right one?"
