"""Which arithmetic is chosen."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from dance import config
from dance.encoder import files, precision
from dance.encoder.embed import embed
from tests.tiny import some_texts, tiny_bert, tiny_store

CPU = torch.device("cpu")


@pytest.mark.parametrize("native", [False, True])
def test_auto_takes_bf16_only_where_it_is_native(monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": False, "avx512_bf16": native})
    assert precision.resolve("auto", CPU) == (torch.bfloat16 if native else torch.float32)
    assert precision.resolve("fp32", CPU) == torch.float32


def test_without_its_library_torch_emulates_whatever_the_processor_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"bf16": True})
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert precision.resolve("auto", CPU) == torch.float32


def test_an_older_torch_that_cannot_say_computes_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert precision.resolve("auto", CPU) == torch.float32


def test_an_emulated_bf16_is_obeyed_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    with caplog.at_level(logging.WARNING):
        assert precision.resolve("bf16", CPU) == torch.bfloat16
    assert "only emulates it" in caplog.text


def test_bf16_vectors_point_where_float32_ones_do(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "bert")
    model = config.Model(path=str(folder), document_max_tokens=32, query_max_tokens=16, normalize=True)
    files.save(files.build(model, seed=1), tmp_path / "saved")
    store, rows = tiny_store(tmp_path / "t", folder, some_texts(20)), np.arange(20)
    exact = embed(files.load(tmp_path / "saved", CPU), store, rows, 256)
    rough = embed(files.load(tmp_path / "saved", CPU, torch.bfloat16), store, rows, 256)
    assert rough.dtype == np.float32
    assert (exact * rough).sum(axis=1).min() > 0.999
