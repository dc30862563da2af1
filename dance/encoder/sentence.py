"""The folder layout of sentence-transformers: ``SentenceTransformer(FOLDER)`` is the same encoder.

    modules.json  sentence_bert_config.json  config_sentence_transformers.json
    1_Pooling/config.json
    2_Dense/  3_LayerNorm/       config.json and model.safetensors: the head, where there is one

The weights of the head lie here alone, so that there are no two copies to disagree. A shared tower
whose documents pass no LayerNorm (DANCE) is given as it is for queries: the layout has one way for both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from safetensors.torch import load_file, save_file

from .header import DENSE, NORM, WEIGHTS, check_head
from .model import EncoderSettings, Head, Side


def write(settings: EncoderSettings, side: Side, hidden: int, head: Head | None, folder: Path) -> None:
    """Everything of one tower but the backbone; ``hidden`` is the width of its states."""
    pooling = {
        "word_embedding_dimension": hidden,
        "pooling_mode_cls_token": settings.pooling == "cls",
        "pooling_mode_mean_tokens": settings.pooling == "mean",
    }
    _write(folder / "1_Pooling" / "config.json", pooling)
    stages = [("Transformer", ""), ("Pooling", "1_Pooling")]
    if head is not None:
        _write_head(head, folder)
        stages += [("Dense", DENSE)] if head.norm is None else [("Dense", DENSE), ("LayerNorm", NORM)]
    if settings.normalize:
        stages.append(("Normalize", "4_Normalize"))
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (kind, path) in enumerate(stages)
    ]
    _write(folder / "modules.json", modules)
    lone_query = settings.towers == "two" and side == "query"
    longest = settings.query_max_tokens if lone_query else settings.document_max_tokens
    _write(folder / "sentence_bert_config.json", {"max_seq_length": longest})
    prompts = {"query": settings.query_prompt, "document": settings.document_prompt}
    said = {"prompts": prompts} if any(prompts.values()) else {}
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": "dot", **said})


def has_head(folder: Path) -> bool:
    return (folder / DENSE).exists() or (folder / NORM).exists()


def read_head(head: Head, folder: Path) -> None:
    """Raises ValueError that names weights which are missing, unexpected or of another shape."""
    width, hidden = head.linear.weight.shape
    check_head(folder, hidden, width, head.norm is not None)
    found = load_file(folder / DENSE / WEIGHTS)
    if head.norm is not None:
        found |= load_file(folder / NORM / WEIGHTS)
    head.load_state_dict(found)


def _write_head(head: Head, folder: Path) -> None:
    width, inputs = head.linear.weight.shape
    identity = "torch.nn.modules.linear.Identity"
    dense = {"in_features": inputs, "out_features": width, "bias": True, "activation_function": identity}
    weights = head.state_dict()
    parts = [(DENSE, "linear.", dense)]
    if head.norm is not None:
        parts.append((NORM, "norm.", {"dimension": width}))
    for name, start, config in parts:
        _write(folder / name / "config.json", config)
        save_file({key: weights[key] for key in weights if key.startswith(start)}, folder / name / WEIGHTS)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
