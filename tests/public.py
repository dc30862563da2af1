"""Checkpoints of ANCE, DANCE and DPR as their authors give them, and what they compute, in plain torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BertModel,
    RobertaForSequenceClassification,
    RobertaModel,
)

from dance.encoder import convert
from dance.encoder.texts import TextEncoder
from tests.tiny import some_texts, tiny_bert, tiny_roberta

QUERIES = some_texts(4, seed=1, longest=12)
DOCUMENTS = list(zip(["the file", "", "a node", "read"], some_texts(4, seed=2, longest=10)))
LONG = [(title, f"{text} " * 12) for title, text in DOCUMENTS]
LIMITS = {"query_max_tokens": "16", "document_max_tokens": "32"}
Vectors = NDArray[np.float32]


class PublicRoberta(RobertaForSequenceClassification):
    """The names of ANCE's and DANCE's public checkpoints, classifier and all."""

    def __init__(self, config: AutoConfig) -> None:
        super().__init__(config)
        self.embeddingHead = nn.Linear(config.hidden_size, 24)
        self.norm = nn.LayerNorm(24)
        nn.init.normal_(self.norm.weight, 1.0, 0.3)
        nn.init.normal_(self.norm.bias)


def write_ance(tmp_path: Path) -> Path:
    """A folder as its authors give it: config.json, tokenizer, pytorch_model.bin."""
    folder = tiny_roberta(tmp_path / "public", initializer_range=0.2)
    (folder / "model.safetensors").unlink()
    torch.manual_seed(5)
    weights = PublicRoberta(AutoConfig.from_pretrained(folder)).state_dict()
    weights["roberta.embeddings.position_ids"] = torch.arange(34)[None]
    weights["roberta.pooler.dense.weight"] = torch.randn(16, 16)
    torch.save(weights, folder / "pytorch_model.bin")
    return folder


def write_base(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "base", initializer_range=0.2)


def write_dpr(tmp_path: Path, base: Path) -> Path:
    """One file, as DPR's trainer writes it."""
    torch.manual_seed(6)
    shape = AutoConfig.from_pretrained(base)
    towers = {"question_model": BertModel(shape), "ctx_model": BertModel(shape)}
    weights = {f"{name}.{key}": value for name, tower in towers.items() for key, value in tower.state_dict().items()}
    weights["ctx_model.embeddings.position_ids"] = torch.arange(64)[None]
    path = tmp_path / "biencoder.cp"
    torch.save({"model_dict": weights, "optimizer_dict": {"step": 3}, "scheduler_dict": {}, "offset": 7, "epoch": 2,
                "encoder_params": {"do_lower_case": True}}, path)  # fmt: skip
    return path


def pick(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


@torch.inference_mode()
def first_state(model: nn.Module, ids: list[int]) -> Tensor:
    """[hidden] of one text alone: no padding, no mask, no segments."""
    return model.eval()(input_ids=torch.tensor([ids])).last_hidden_state[0, 0]


def tokens(folder: Path, text: str | tuple[str, str], limit: int) -> list[int]:
    """By transformers' own call; a document without title is a single text."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    parts = [text] if isinstance(text, str) else [part for part in text if part]
    return tokenizer(*parts, truncation="longest_first", max_length=limit)["input_ids"]


def roberta_vectors(folder: Path, inputs: list[list[int]], normed: bool, unit: bool) -> Vectors:
    """norm(head(x)) or head(x), then unit length or not, operation by operation."""
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    model = RobertaModel(AutoConfig.from_pretrained(folder), add_pooling_layer=False)
    model.load_state_dict({k: v for k, v in pick(weights, "roberta.").items() if "pooler" not in k and "_ids" not in k})
    states = torch.stack([first_state(model, ids) for ids in inputs])
    vectors = states @ weights["embeddingHead.weight"].T + weights["embeddingHead.bias"]
    if normed:
        mean, variance = vectors.mean(1, keepdim=True), vectors.var(1, keepdim=True, correction=0)
        vectors = (vectors - mean) / (variance + 1e-5).sqrt() * weights["norm.weight"] + weights["norm.bias"]
    return (vectors / vectors.norm(dim=1, keepdim=True) if unit else vectors).numpy()


def taken_in(source: Path, layout: str, to: Path, **given: str) -> TextEncoder:
    convert.take_in(source, layout, LIMITS | given, to)
    return TextEncoder.open(to, precision="fp32")


def same(ours: Vectors, theirs: Vectors) -> None:
    """Within 1e-5, and texts that differ by much more."""
    np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=0)
    assert theirs.std(axis=0).max() > 0.01


def score_alike(ours: Vectors, theirs: Vectors) -> None:
    """Scores are sums of products, and larger than vectors."""
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
