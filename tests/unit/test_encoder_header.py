"""Weights that are absent, cut or of another shape are refused from their headers alone."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from dance import config
from dance.encoder import backbone, files
from tests.tiny import tiny_bert, tiny_roberta


def settings(folder: Path | str, **changed: object) -> config.Model:
    model = {"path": str(folder), "query_max_tokens": 16, "document_max_tokens": 32} | changed
    return config.Model(**model)  # type: ignore[arg-type]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "bert")


@pytest.fixture(autouse=True)
def no_weight_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(backbone, "load", refused)


def test_absent_weights(bert: Path) -> None:
    (bert / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no model\.safetensors there; copy its folder whole"):
        files.check(settings(bert))


def test_a_cut_file(bert: Path) -> None:
    path = bert / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"model\.safetensors: cut or damaged"):
        files.check(settings(bert))


def test_a_hidden_size_that_is_not_the_configured(bert: Path) -> None:
    plain = json.loads((bert / "config.json").read_text())
    (bert / "config.json").write_text(json.dumps(plain | {"hidden_size": 8}))
    with pytest.raises(ValueError, match=r"is 138 x 16, but by config\.json 138 x 8; they do not belong together"):
        files.check(settings(bert))


@pytest.mark.parametrize("part", ["2_Dense", "3_LayerNorm"])
def test_t07_a_head_of_another_width(tmp_path: Path, bert: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    files.save(files.build(settings(bert, head=8), seed=1), tmp_path / "saved")
    path = tmp_path / "saved" / part / "model.safetensors"
    save_file({name: value[:7].clone() for name, value in load_file(path).items()}, path)
    with pytest.raises(ValueError, match=r"missing, unexpected or of another shape than 16 -> 8: .*\.bias"):
        files.check(settings(tmp_path / "saved", head=8))


def test_t07_a_public_checkpoint_does_not_lose_its_head(tmp_path: Path) -> None:
    folder = tiny_roberta(tmp_path / "public")
    path = folder / "model.safetensors"
    weights = {f"roberta.{name}": value for name, value in load_file(path).items()}
    save_file(weights | {"embeddingHead.weight": torch.zeros(8, 16), "norm.weight": torch.ones(8)}, path)
    with pytest.raises(ValueError, match=r"holds embeddingHead\.weight, .* dance convert from=.*public to=FOLDER"):
        files.check(settings(folder))
    path.rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is a pickle.* dance convert from="):
        files.check(settings(folder))


def test_weights_in_several_files(bert: Path) -> None:
    weights = load_file(bert / "model.safetensors")
    parts = {name: f"model-0000{at % 2 + 1}-of-00002.safetensors" for at, name in enumerate(weights)}
    for file in set(parts.values()):
        save_file({name: value for name, value in weights.items() if parts[name] == file}, bert / file)
    (bert / "model.safetensors").unlink()
    (bert / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    assert files.check(settings(bert)).hidden == 16
    (bert / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model-00002-of-00002\.safetensors: no such file"):
        files.check(settings(bert))


def test_an_unknown_name_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def model_info(name: str, timeout: float) -> None:
        asked.append(name)
        raise ConnectionError("no such host\nand more")

    monkeypatch.setattr(backbone, "model_info", model_info)
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"the hub does not give it \(no such host\); is it spelt"):
        files.check(settings("bert-bse-uncased"))
    assert asked == ["bert-bse-uncased"] and time.monotonic() - start < 1
