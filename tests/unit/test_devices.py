"""The same on every device; on a machine with a GPU, `make gpu EXTRAS=gpu`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dance import config
from dance.encoder import files
from dance.encoder.embed import embed
from dance.encoder.model import Encoder
from dance.search.flat import search
from tests.tiny import some_texts, tiny_bert, tiny_store
from trainer.snapshot import Snapshot

GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
DEVICES = [torch.device("cpu"), pytest.param(torch.device("cuda", 0), marks=GPU)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    path = tiny_bert(tmp_path_factory.mktemp("devices") / "bert")
    return files.build(config.Model(path=str(path), query_max_tokens=16, document_max_tokens=32), seed=1)


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_neighbours_are_the_same_to_the_last_bit(device: torch.device) -> None:
    random = np.random.default_rng(0)
    vectors, queries = (random.normal(size=(count, 32)).astype(np.float32) for count in (5000, 40))
    found = search(vectors, np.arange(5000), queries, 20, device, block=1000)
    scores = np.einsum("qd,nd->qn", queries.astype(np.float64), vectors.astype(np.float64))
    assert np.array_equal(found.rows, np.argsort(-scores, axis=1)[:, :20])
    assert np.array_equal(found.scores, search(vectors, np.arange(5000), queries, 20).scores)


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_vectors_are_the_same_but_for_rounding(encoder: Encoder, device: torch.device, tmp_path: Path) -> None:
    files.save(encoder, tmp_path / "saved")
    store = tiny_store(tmp_path / "texts", tmp_path / "saved", some_texts(20))
    here, there = (files.load(tmp_path / "saved", each) for each in (torch.device("cpu"), device))
    rows = np.arange(len(store))
    np.testing.assert_allclose(embed(there, store, rows, 64), embed(here, store, rows, 64), atol=1e-4)


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_snapshot_is_what_was_trained_and_stays_so(encoder: Encoder, device: torch.device) -> None:
    trained = encoder.to(device)
    before = [parameter.detach().cpu().clone() for parameter in trained.parameters()]
    taken = Snapshot().take(trained)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(one, other) for one, other in zip(taken.parameters(), before, strict=True))
    assert all(parameter.device.type == "cpu" for parameter in taken.parameters())
