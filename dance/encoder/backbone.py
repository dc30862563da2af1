"""Hugging Face backbones: their configuration, weights and limits. All that varies by family is here."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

import torch
from huggingface_hub import model_info, try_to_load_from_cache
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.utils import logging as chatter

from ..errors import first_line

_HUB_SECONDS = 10.0
log = logging.getLogger(__name__)


def read_config(source: str) -> PretrainedConfig:
    """Of a folder or hub name. Raises ValueError where there is none, or it is no text encoder."""
    if not Path(source).is_dir():
        _refuse_unknown(source)
    try:
        config = AutoConfig.from_pretrained(source)
    except (OSError, ValueError, KeyError) as error:
        reason = first_line(error)
        raise ValueError(
            f"model.path={source}: no configuration of a known encoder ({reason}); is it spelt as the folder "
            f"({Path(source).resolve()}) or on the hub, and can the hub be reached?"
        ) from None
    if config.is_encoder_decoder or getattr(config, "is_decoder", False):
        raise ValueError(f"model.path={source}: {config.model_type} is no plain encoder; take one like BERT")
    return config


def keep_layers(config: PretrainedConfig, layers: int) -> None:
    """Only the first of its layers will be built."""
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]


def set_dropout(config: PretrainedConfig, probability: float) -> None:
    """Every dropout that the family has, whatever it calls them."""
    for name, value in config.to_dict().items():
        if "dropout" in name and isinstance(value, float | int) and not isinstance(value, bool):
            setattr(config, name, probability)


def usable_positions(config: PretrainedConfig) -> int | None:
    """Tokens per text that there are positions for; None has no limit.

    RoBERTa and its kin count positions from behind the padding id: 514 rows serve 512 tokens.
    They are told by a position table that has a padding row.
    """
    rows = getattr(config, "max_position_embeddings", None)
    if not rows or rows < 0:
        return None
    for name, module in _skeleton(config).named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return rows if module.padding_idx is None else rows - module.padding_idx - 1
    return rows


def shapes(config: PretrainedConfig) -> dict[str, tuple[int, ...]]:
    """{name: shape} of every weight that the configuration asks for, by both names that it may have.

    Files of a model for some task have the family's name before it ("bert.").
    """
    skeleton = _skeleton(config)
    own = {name: tuple(value.shape) for name, value in skeleton.state_dict().items()}
    return own | {f"{skeleton.base_model_prefix}.{name}": shape for name, shape in own.items()}


def load(source: str, layers: int | None = None, dropout: float | None = None, whole: bool = False) -> PreTrainedModel:
    """Weights in float32; the first ``layers`` only, with this ``dropout``; None keeps what is there.

    Raises ValueError that names weights which are missing, or have no place. Layers that are cut
    off, the pooler and the heads of other tasks have none and need none; not so if ``whole``, the
    rule for what we saved ourselves.
    """
    _quiet()
    config = read_config(source)
    kept = layers or config.num_hidden_layers
    cut = kept < config.num_hidden_layers
    keep_layers(config, kept)
    if dropout is not None:
        set_dropout(config, dropout)
    try:
        # safetensors alone: the older format is a pickle, and runs what is in it.
        model, report = AutoModel.from_pretrained(
            source, config=config, dtype=torch.float32, use_safetensors=True, output_loading_info=True
        )
    except (OSError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"model.path={source}: weights cannot be loaded: {error}; copy them again") from None
    _refuse(source, "lacks weights", [name for name in report["missing_keys"] if not _is_pooler(name)])
    surplus = {name for name in report["unexpected_keys"] if not cut or _layer(name) < kept}
    _check_surplus(source, model, surplus, whole)
    return model


def for_training(model: PreTrainedModel, device: torch.device) -> None:
    """On a CPU, attention in plain products: backward through torch's fused one takes two to three times as long."""
    if device.type == "cpu":
        model.set_attn_implementation("eager")


def save(model: PreTrainedModel, folder: Path) -> None:
    _quiet()
    model.save_pretrained(folder)


def refuse_public(source: str, names: Iterable[str]) -> None:
    """A public checkpoint would leave its head behind. Raises ValueError with the command to type."""
    if head := next((name for name in names if name.startswith("embeddingHead.")), None):
        raise ValueError(f"model.path={source} holds {head}, the head of a public checkpoint: {conversion(source)}")


def conversion(source: str) -> str:
    """What to type for a public checkpoint."""
    given = source if Path(source).exists() else "DOWNLOADED_FOLDER"
    return f"dance convert from={given} to=FOLDER layout=ance (or dance, dpr), then model.path=FOLDER"


def _refuse_unknown(name: str) -> None:
    """Of the hub, asked once: the loader itself would ask for half a minute."""
    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return
    try:
        model_info(name, timeout=_HUB_SECONDS)
    except Exception as error:  # of whichever HTTP library the client is built on
        raise ValueError(
            f"model.path={name}: no such folder ({Path(name).resolve()}), and the hub does not give it "
            f"({first_line(error)}); is it spelt as it is there, and can the hub be reached?"
        ) from None


def _skeleton(config: PretrainedConfig) -> PreTrainedModel:
    """Without memory for its weights."""
    with torch.device("meta"):
        return AutoModel.from_config(config)


def _check_surplus(source: str, model: PreTrainedModel, names: set[str], whole: bool) -> None:
    refuse_public(source, names)
    own = {name for name, _ in model.named_children()}
    inside = {name for name in names if whole or (_first(name, model) in own and not _is_pooler(name))}
    _refuse(source, "has weights without a place", inside)
    if names:
        log.info("%s: heads that are not used here: %s", source, ", ".join(sorted(names)))


def _refuse(source: str, fault: str, names: Iterable[str]) -> None:
    listed = sorted(names)
    if listed:
        raise ValueError(f"model.path={source}: {fault}: {', '.join(listed[:5])} ({len(listed)} in all)")


def _is_pooler(name: str) -> bool:
    return "pooler" in name.split(".")


def _first(name: str, model: PreTrainedModel) -> str:
    return name.removeprefix(f"{model.base_model_prefix}.").partition(".")[0]


def _layer(name: str) -> int:
    """Index of the layer that a weight belongs to; -1 where it is in none."""
    return next((int(part) for part in name.split(".") if part.isdigit()), -1)


def _quiet() -> None:
    """Its own report of missing and unexpected weights is ours to judge, and no progress bars."""
    chatter.set_verbosity_error()
    chatter.disable_progress_bar()
