"""Encoders on disk: whole or refused."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, BertForMaskedLM

from dance import config
from dance.encoder import files
from dance.encoder.embed import embed
from tests.tiny import model_settings, some_texts, tiny_bert, tiny_gpt2, tiny_store

CPU = torch.device("cpu")


def edit_weights(path: Path, drop: str = "", add: str = "") -> None:
    weights = load_file(path)
    kept = {name: value for name, value in weights.items() if not drop or drop not in name}
    save_file(kept | ({add: torch.zeros(2)} if add else {}), path, {"format": "pt"})


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "bert")


@pytest.fixture
def saved(tmp_path: Path, bert: Path) -> Path:
    encoder = files.build(model_settings(bert, pooling="mean", head=8, normalize=True), seed=1)
    files.save(encoder, tmp_path / "saved")
    return tmp_path / "saved"


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("head", [None, 8])
@pytest.mark.parametrize("normalize", [False, True])
def test_t07_what_was_trained_is_what_is_loaded(
    tmp_path: Path, bert: Path, pooling: str, head: int | None, normalize: bool
) -> None:
    encoder = files.build(model_settings(bert, pooling=pooling, head=head, normalize=normalize), seed=1)
    with torch.no_grad():  # as after some steps of training
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    files.save(encoder, tmp_path / "saved")
    loaded = files.load(tmp_path / "saved", CPU)
    assert loaded.settings == encoder.settings and not loaded.training
    store, rows = tiny_store(tmp_path / "t", bert, some_texts(10)), np.arange(10)
    np.testing.assert_array_equal(embed(encoder, store, rows, 128), embed(loaded, store, rows, 128))


def test_t07_missing_and_unexpected_weights_are_named(saved: Path, tmp_path: Path) -> None:
    for name, file, change in [
        ("encoder.layer.1.output.dense.bias", "model.safetensors", {"drop": "layer.1.output.dense.bias"}),
        ("encoder.layer.2.extra", "model.safetensors", {"add": "encoder.layer.2.extra"}),
        ("cls.other.bias", "model.safetensors", {"add": "cls.other.bias"}),
        ("norm.weight", "3_LayerNorm/model.safetensors", {"drop": "norm.weight"}),
        ("linear.scale", "2_Dense/model.safetensors", {"add": "linear.scale"}),
    ]:
        broken = tmp_path / "broken"
        shutil.copytree(saved, broken)
        edit_weights(broken / file, **change)
        with pytest.raises(ValueError, match=name):
            files.load(broken, CPU)
        shutil.rmtree(broken)


def test_t07_a_lost_or_foreign_head_is_refused(tmp_path: Path, bert: Path, saved: Path) -> None:
    files.save(files.build(model_settings(bert), seed=1), tmp_path / "bare")
    shutil.move(saved / "2_Dense", tmp_path / "bare")
    with pytest.raises(ValueError, match=r"2_Dense/model\.safetensors: no such file.*copy its folder whole"):
        files.load(saved, CPU)
    with pytest.raises(ValueError, match=r"a head that dance\.json does not know of"):
        files.load(tmp_path / "bare", CPU)


def test_t05_a_backbone_without_a_used_weight_is_refused(bert: Path) -> None:
    edit_weights(bert / "model.safetensors", drop="layer.1.attention.self.query.weight")
    with pytest.raises(ValueError, match=r"lacks weights: .*layer\.1\.attention\.self\.query\.weight \(1 in all\)"):
        files.build(model_settings(bert), seed=1)


def test_t05_a_missing_pooler_is_no_matter(tmp_path: Path, bert: Path) -> None:
    edit_weights(bert / "model.safetensors", drop="pooler")
    files.build(model_settings(bert), seed=1)


def test_t05_a_new_head_is_seeded_logged_and_handed_on(
    tmp_path: Path, bert: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with caplog.at_level(logging.INFO):
        encoder = files.build(model_settings(bert, head=8), seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert "new head 16 -> 8, drawn from seed 1" in caplog.text
    again, other = (files.build(model_settings(bert, head=8), seed=seed) for seed in (1, 2))
    assert encoder.towers[0].head is not None and again.towers[0].head is not None and other.towers[0].head is not None
    assert torch.equal(encoder.towers[0].head.linear.weight, again.towers[0].head.linear.weight)
    assert not torch.equal(encoder.towers[0].head.linear.weight, other.towers[0].head.linear.weight)
    files.save(encoder, tmp_path / "saved")
    from_saved = files.build(model_settings(tmp_path / "saved", head=8), seed=99)
    assert from_saved.towers[0].head is not None
    assert torch.equal(encoder.towers[0].head.linear.weight, from_saved.towers[0].head.linear.weight)


def test_layers_keeps_the_first_and_at_most_those_that_there_are(tmp_path: Path, bert: Path) -> None:
    encoder = files.build(model_settings(bert, layers=1), seed=1)
    assert encoder.settings.layers == encoder.backbones()[0].config.num_hidden_layers == 1
    whole = AutoModel.from_pretrained(bert)
    kept = encoder.backbones()[0].state_dict()
    assert all(torch.equal(value, whole.state_dict()[name]) for name, value in kept.items())
    files.save(encoder, tmp_path / "saved")
    assert files.load(tmp_path / "saved", CPU).settings.layers == 1
    assert files.check(model_settings(bert, layers=3)).settings.layers == 2


def test_too_many_layers_in_the_weights_are_no_silent_loss(bert: Path) -> None:
    edit_weights(bert / "model.safetensors", add="encoder.layer.2.attention.self.query.bias")
    shape = json.loads((bert / "config.json").read_text())
    assert shape["num_hidden_layers"] == 2
    with pytest.raises(ValueError, match=r"without a place: .*layer\.2"):
        files.build(model_settings(bert), seed=1)


def test_heads_of_other_tasks_are_left_out(tmp_path: Path, bert: Path) -> None:
    masked = BertForMaskedLM(AutoConfig.from_pretrained(bert))
    masked.save_pretrained(bert)
    encoder = files.build(model_settings(bert), seed=1)
    weight = "embeddings.word_embeddings.weight"
    assert torch.equal(encoder.backbones()[0].state_dict()[weight], masked.bert.state_dict()[weight])


def test_settings_that_contradict_a_saved_encoder_are_refused_with_the_remedy(saved: Path) -> None:
    with pytest.raises(ValueError, match=r"set model\.pooling=mean model\.head=8 model\.normalize=true"):
        files.check(model_settings(saved))
    right = model_settings(saved, pooling="mean", head=8, normalize=True, document_max_tokens=20)
    assert files.build(right, seed=1).settings.document_max_tokens == 20


def test_unit_length_may_be_added_to_a_saved_encoder_but_not_taken_away(tmp_path: Path, bert: Path) -> None:
    """DANCE's normalisation tuning starts from an ANCE encoder; the norm adds no weights."""
    files.save(files.build(model_settings(bert, head=8), seed=1), tmp_path / "plain")
    unit = files.build(model_settings(tmp_path / "plain", head=8, normalize=True), seed=1)
    assert unit.settings.normalize
    files.save(unit, tmp_path / "unit")
    with pytest.raises(ValueError, match=r"set model\.normalize=true"):
        files.check(model_settings(tmp_path / "unit", head=8))


def test_dropout_replaces_every_dropout_of_the_backbone(bert: Path) -> None:
    encoder = files.build(model_settings(bert), seed=1, dropout=0.5)
    found = {module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)}
    assert found == {0.5} and encoder.training


def test_bf16_changes_parameters_of_the_backbone_alone(saved: Path) -> None:
    encoder = files.load(saved, CPU, torch.bfloat16)
    assert {parameter.dtype for parameter in encoder.backbones()[0].parameters()} == {torch.bfloat16}
    assert encoder.towers[0].head is not None
    assert {parameter.dtype for parameter in encoder.towers[0].head.parameters()} == {torch.float32}
    assert all(buffer.dtype != torch.bfloat16 for buffer in encoder.buffers())


def test_a_saved_folder_is_a_plain_hugging_face_folder(saved: Path) -> None:
    plain = AutoModel.from_pretrained(saved, add_pooling_layer=False)
    ours = files.load(saved, CPU).backbones()[0]
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), ours.parameters(), strict=True))


def test_a_pickle_is_not_read(bert: Path) -> None:
    torch.save(load_file(bert / "model.safetensors"), bert / "pytorch_model.bin")
    (bert / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="safetensors"):
        files.build(model_settings(bert), seed=1)


def test_a_tokenizer_with_more_ids_than_the_model_is_refused(tmp_path: Path, bert: Path) -> None:
    tiny = tiny_bert(tmp_path / "other", vocab_size=50)
    with pytest.raises(ValueError, match="its tokenizer has 138 ids, the model rows for 50"):
        files.check(model_settings(tiny))


def test_t10_a_swapped_tokenizer_is_refused(tmp_path: Path, saved: Path) -> None:
    path = saved / "tokenizer.json"
    path.write_text(path.read_text().replace('"lowercase": true', '"lowercase": false'))
    with pytest.raises(ValueError, match="trained with tokenizer"):
        files.load(saved, CPU)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/no/such/folder", "no such folder"),
        ("pkg://no_such_package/model", "not installed"),
        ("EMPTY", "no configuration of a known encoder"),
        ("DECODER", "no plain encoder"),
    ],
)
def test_a_wrong_path_is_one_message(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "DECODER").mkdir()
    (tmp_path / "DECODER" / "config.json").write_text('{"model_type": "t5"}')
    folder = path if path.startswith(("/", "pkg")) else str(tmp_path / path)
    with pytest.raises(ValueError, match=message):
        files.check(model_settings(Path(folder)) if folder.startswith("/") else config.Model(path=folder))


def test_the_first_token_of_a_model_that_reads_left_to_right_is_refused(tmp_path: Path) -> None:
    folder = tiny_gpt2(tmp_path / "gpt2")
    with pytest.raises(ValueError, match=r"sees no text: set model\.pooling=mean"):
        files.build(model_settings(folder), seed=1)
    assert files.build(model_settings(folder, pooling="mean"), seed=1).training


def test_a_folder_that_is_not_ours_is_not_loaded(bert: Path) -> None:
    with pytest.raises(ValueError, match="give it as model.path instead"):
        files.load(bert, CPU)
