"""The `convert` verb: what is typed, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, BertModel

from dance.encoder import files
from launch.convert import main
from tests.tiny import tiny_bert


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    shape = AutoConfig.from_pretrained(tiny_bert(tmp_path / "base"))
    towers = {"question_model": BertModel(shape), "ctx_model": BertModel(shape)}
    weights = {f"{name}.{key}": value for name, tower in towers.items() for key, value in tower.state_dict().items()}
    torch.save({"model_dict": weights}, tmp_path / "dpr.cp")
    return tmp_path / "dpr.cp"


def test_there_and_back(tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["model.query_max_tokens=16", "model.document_max_tokens=32"]
    ours = tmp_path / "ours"
    assert main([f"from={checkpoint}", f"to={ours}", "layout=dpr", f"model.path={tmp_path / 'base'}", *limits]) == 0
    said = capsys.readouterr().out
    assert f"model.path={ours} model.towers=two model.query_max_tokens=16 model.document_max_tokens=32" in said
    assert files.read_settings(ours) is not None
    assert main([f"from={ours}", f"to={tmp_path / 'back.cp'}", "layout=dpr", "export=true"]) == 0
    assert "model_dict" in torch.load(tmp_path / "back.cp", weights_only=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["from=a"], "missing to=, layout="),
        (["from=a", "to=b", "layout=ance", "train.steps=3"], r"'train\.steps=3': write from=, to=, layout=, export="),
        (["from=a", "to=b", "layout=ance", "export=yes"], "write export=true or export=false"),
        (["from=a", "to=b", "layout=ance", "export=true", "model.head=3"], r"model\.head is the encoder's own"),
        (["from=/none", "to=b", "layout=ance"], "no such file, nor a folder with"),
        (["from=/none", "to=b", "layout=ance", "export=true"], r"no dance\.json; not a saved encoder"),
    ],
)
def test_bad_input_is_one_message(arguments: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        main(arguments)
