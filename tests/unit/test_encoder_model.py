"""Pooling, head, normalisation; what a vector may and may not depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dance.encoder import files
from dance.encoder.batching import pad
from dance.encoder.model import Encoder, EncoderSettings, Side, Tower
from dance.search.flat import search
from tests.tiny import model_settings, some_texts, tiny_bert, tiny_distilbert, tiny_modernbert, tiny_roberta, tiny_store

FAMILIES = [tiny_bert, tiny_roberta, tiny_distilbert, tiny_modernbert]
Family = Callable[[Path], Path]


def build(folder: Path, **settings: object) -> Encoder:
    return files.build(model_settings(folder, **settings), seed=1, dropout=0.0)


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@torch.inference_mode()
def test_vectors_do_not_depend_on_batch_neighbours(tmp_path: Path, family: Family, pooling: str) -> None:
    folder = family(tmp_path / "model")
    encoder = build(folder, pooling=pooling, head=8, normalize=True).eval()
    store = tiny_store(tmp_path / "t", folder, some_texts(6), titles=["title", "", "a", "b c", "", "d"])
    together = pad(store, np.arange(6))
    vectors = encoder(together.ids, together.mask, together.types)
    for row in range(6):
        alone = pad(store, np.array([row]))
        torch.testing.assert_close(encoder(alone.ids, alone.mask, alone.types)[0], vectors[row], atol=1e-5, rtol=0)


@torch.inference_mode()
def test_mean_is_over_tokens_and_cls_is_the_first(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "model")
    batch = pad(tiny_store(tmp_path / "t", folder, ["read the file", "sort"]), np.arange(2))
    cls, mean = build(folder).eval(), build(folder, pooling="mean").eval()
    states = cls.backbones()[0](input_ids=batch.ids, attention_mask=batch.mask.long()).last_hidden_state
    torch.testing.assert_close(cls(batch.ids, batch.mask), states[:, 0])
    by_hand = torch.stack([states[0].mean(0), states[1, : batch.mask[1].sum()].mean(0)])
    torch.testing.assert_close(mean(batch.ids, batch.mask), by_hand)


@torch.inference_mode()
def test_normalisation_comes_after_the_head(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "model")
    batch = pad(tiny_store(tmp_path / "t", folder, some_texts(3)), np.arange(3))
    plain, unit = build(folder, head=8).eval(), build(folder, head=8, normalize=True).eval()
    assert plain.width == unit.width == 8
    vectors = unit(batch.ids, batch.mask)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))
    raw = plain(batch.ids, batch.mask)
    torch.testing.assert_close(vectors, raw / raw.norm(dim=1, keepdim=True))


@torch.inference_mode()
def test_what_follows_the_backbone_is_float32_under_autocast(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "model")
    encoder = build(folder, head=8, normalize=True).eval()
    batch = pad(tiny_store(tmp_path / "t", folder, some_texts(3)), np.arange(3))
    with torch.autocast("cpu", torch.bfloat16):
        vectors = encoder(batch.ids, batch.mask)
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3), atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_t02_token_types_are_left_out_for_models_without(tmp_path: Path, family: Family) -> None:
    folder = family(tmp_path / "model")
    encoder = build(folder)
    store = tiny_store(tmp_path / "t", folder, some_texts(4), titles=["title"] * 4)
    batch = pad(store, np.arange(4))
    assert (batch.types is None) == (family is tiny_roberta)
    assert torch.isfinite(encoder(batch.ids, batch.mask, batch.types)).all()
    plain = encoder(batch.ids, batch.mask)
    typed = encoder(batch.ids, batch.mask, torch.ones_like(batch.ids))
    assert torch.equal(plain, typed) == (family is not tiny_bert)


@pytest.mark.parametrize("family", FAMILIES)
def test_r05_ddp_finds_every_parameter_used(tmp_path: Path, family: Family, alone: None) -> None:
    folder = family(tmp_path / "model")
    encoder = build(folder, head=8)
    assert getattr(encoder.backbones()[0], "pooler", None) is None
    store = tiny_store(tmp_path / "t", folder, some_texts(4), titles=["title"] * 4)
    batch = pad(store, np.arange(4))
    model = DistributedDataParallel(encoder)
    for step in range(4):
        with model.no_sync() if step == 2 else torch.enable_grad():
            model(batch.ids, batch.mask, batch.types)[:, 0].sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


class Table(nn.Module):
    """A backbone whose state of a token is a row of a table."""

    def __init__(self, rows: list[list[float]]) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=2)
        self.rows = nn.Parameter(torch.tensor(rows))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self.rows[input_ids])


@pytest.mark.parametrize(("normalize", "first"), [(False, 1), (True, 0)])
@torch.inference_mode()
def test_e11_inner_product_and_cosine_are_told_apart_on_both_sides(normalize: bool, first: int) -> None:
    """Documents [1, 0] and [10, 10], query [2, 0]: the long one wins by inner product alone."""
    made = EncoderSettings(pooling="cls", head=None, normalize=normalize, layers=1, query_max_tokens=4,
                           document_max_tokens=4, tokenizer_fingerprint="")  # fmt: skip
    tower = Tower(Table([[1.0, 0.0], [10.0, 10.0], [2.0, 0.0]]), "cls", None)  # type: ignore[arg-type]
    encoder = Encoder([tower], made, None)  # type: ignore[arg-type]
    sides: list[tuple[list[list[int]], Side]] = [([[0], [1]], "document"), ([[2]], "query")]
    documents, queries = (encoder(torch.tensor(i), torch.ones(len(i), 1, dtype=torch.bool), None, s) for i, s in sides)
    found = search(documents.numpy(), np.arange(2), queries.numpy(), 2, torch.device("cpu"))
    assert found.rows[0, 0] == first
    assert found.scores[0].max() == pytest.approx(1.0 if normalize else 20.0)
