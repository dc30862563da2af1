"""The folder layout of sentence-transformers: ``SentenceTransformer(FOLDER)`` is the same encoder.

    modules.json  sentence_bert_config.json  config_sentence_transformers.json
    1_Pooling/config.json
    2_Dense/  3_LayerNorm/       config.json and model.safetensors: the head, where there is one

The weights of the head lie here alone, so that there are no two copies to disagree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from safetensors.torch import load_file, save_file
from torch import Tensor

from .model import EncoderSettings, Head

DENSE, NORM = "2_Dense", "3_LayerNorm"
_WEIGHTS = "model.safetensors"


def write(settings: EncoderSettings, hidden: int, head: Head | None, folder: Path) -> None:
    """Everything but the backbone; ``hidden`` is the width of its states."""
    pooling = {
        "word_embedding_dimension": hidden,
        "pooling_mode_cls_token": settings.pooling == "cls",
        "pooling_mode_mean_tokens": settings.pooling == "mean",
    }
    _write(folder / "1_Pooling" / "config.json", pooling)
    stages = [("Transformer", ""), ("Pooling", "1_Pooling")]
    if head is not None:
        _write_head(head, folder)
        stages += [("Dense", DENSE), ("LayerNorm", NORM)]
    if settings.normalize:
        stages.append(("Normalize", "4_Normalize"))
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (kind, path) in enumerate(stages)
    ]
    _write(folder / "modules.json", modules)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": settings.document_max_tokens})
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": "dot"})


def has_head(folder: Path) -> bool:
    return (folder / DENSE).exists() or (folder / NORM).exists()


def read_head(head: Head, folder: Path) -> None:
    """Raises ValueError that names weights which are missing, unexpected or of another shape."""
    found: dict[str, Tensor] = {}
    for path in (folder / DENSE / _WEIGHTS, folder / NORM / _WEIGHTS):
        if not path.is_file():
            raise ValueError(f"{path}: no such file, but the encoder has a head; copy its folder whole")
        found |= load_file(path)
    wanted = head.state_dict()
    wrong = found.keys() ^ wanted.keys()
    wrong |= {name for name in found.keys() & wanted.keys() if found[name].shape != wanted[name].shape}
    if wrong:
        raise ValueError(f"{folder}: head weights missing, unexpected or of another shape: {', '.join(sorted(wrong))}")
    head.load_state_dict(found)


def _write_head(head: Head, folder: Path) -> None:
    width, inputs = head.linear.weight.shape
    identity = "torch.nn.modules.linear.Identity"
    dense = {"in_features": inputs, "out_features": width, "bias": True, "activation_function": identity}
    for name, config in ((DENSE, dense), (NORM, {"dimension": width})):
        _write(folder / name / "config.json", config)
    weights = head.state_dict()
    for name, part in ((DENSE, "linear."), (NORM, "norm.")):
        save_file({key: weights[key] for key in weights if key.startswith(part)}, folder / name / _WEIGHTS)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
