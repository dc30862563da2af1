"""Two towers, and documents without the LayerNorm: what a side means, in memory and on disk."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModel, AutoTokenizer

from dance.corpus.tokens import TokenStore
from dance.encoder import files
from dance.encoder.batching import Batch, pad
from dance.encoder.embed import embed, embed_shard
from dance.encoder.model import SIDES, Encoder
from tests.tiny import model_settings, some_texts, tiny_bert, tiny_roberta, tiny_store

CPU = torch.device("cpu")
ROWS = np.arange(10)


def trained(folder: Path, **changed: object) -> Encoder:
    """As after some steps: no weight is where it started."""
    encoder = files.build(model_settings(folder, **changed), seed=1, dropout=0.0)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(7)
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return encoder


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "bert")


@pytest.fixture
def store(tmp_path: Path, bert: Path) -> TokenStore:
    return tiny_store(tmp_path / "texts", bert, some_texts(10), titles=["a title"] * 10)


@pytest.fixture
def saved(tmp_path: Path, bert: Path) -> Path:
    files.save(trained(bert, towers="two", head=8), tmp_path / "saved")
    return tmp_path / "saved"


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("towers", ["one", "two"])
@pytest.mark.parametrize("document_norm", [False, True])
def test_t07_either_side_comes_back_tied_or_untied(
    tmp_path: Path, bert: Path, store: TokenStore, towers: str, document_norm: bool
) -> None:
    encoder = trained(bert, towers=towers, head=8, document_norm=document_norm)
    files.save(encoder, tmp_path / "saved")
    loaded = files.load(tmp_path / "saved", CPU)
    again = model_settings(tmp_path / "saved", towers=towers, head=8, document_norm=document_norm)
    rebuilt = files.build(again, seed=5, dropout=0.0)
    assert loaded.settings == encoder.settings == rebuilt.settings
    for side in SIDES:
        expected = embed(encoder, store, ROWS, 128, side=side)
        np.testing.assert_array_equal(embed(loaded, store, ROWS, 128, side=side), expected)
        np.testing.assert_array_equal(embed(rebuilt, store, ROWS, 128, side=side), expected)


def test_towers_are_two_plain_folders(saved: Path) -> None:
    encoder = files.load(saved, CPU)
    for side in SIDES:
        plain = AutoModel.from_pretrained(saved / side, add_pooling_layer=False)
        ours = encoder.tower(side).backbone
        assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), ours.parameters(), strict=True))
        theirs = AutoTokenizer.from_pretrained(saved / side)("a b").input_ids
        assert theirs == encoder.tokenizer.encode_queries(["a b"], 8)[0]
        longest = json.loads((saved / side / "sentence_bert_config.json").read_text())["max_seq_length"]
        assert longest == {"query": 16, "document": 32}[side]
    names = {name.split(".")[1] for name in encoder.state_dict()}
    assert names == {"0", "1"} and not (saved / "model.safetensors").exists()


def test_towers_start_equal_and_share_nothing(bert: Path, store: TokenStore) -> None:
    encoder = files.build(model_settings(bert, towers="two", head=8), seed=1, dropout=0.0)
    query, document = (embed(encoder, store, ROWS, 128, side=side) for side in SIDES)
    np.testing.assert_array_equal(query, document)
    own = [{p.data_ptr() for p in encoder.tower(side).parameters()} for side in SIDES]
    assert len(own[0]) == len(own[1]) and not own[0] & own[1]
    with torch.no_grad():
        encoder.tower("query").head.linear.bias.add_(1.0)  # type: ignore[union-attr]
    np.testing.assert_array_equal(embed(encoder, store, ROWS, 128), document)


@torch.inference_mode()
def test_documents_skip_the_norm_and_queries_do_not(bert: Path, store: TokenStore) -> None:
    """DANCE's public code: queries normalize(norm(head(x))), documents normalize(head(x))."""
    encoder = trained(bert, head=8, document_norm=False, normalize=True).eval()
    batch = pad(store, ROWS)
    states = encoder.backbones()[0](batch.ids, batch.mask.long(), batch.types).last_hidden_state[:, 0]
    head = encoder.towers[0].head
    projected = states @ head.linear.weight.T + head.linear.bias
    mean, variance = projected.mean(1, keepdim=True), projected.var(1, keepdim=True, correction=0)
    normed = (projected - mean) / (variance + 1e-5).sqrt() * head.norm.weight + head.norm.bias
    for side, vectors in (("query", normed), ("document", projected)):
        got = encoder(batch.ids, batch.mask, batch.types, side)
        torch.testing.assert_close(got, vectors / vectors.norm(dim=1, keepdim=True), atol=1e-5, rtol=0)


class Pair(nn.Module):
    """Both sides in one forward call, as training does."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, queries: Batch, documents: Batch) -> Tensor:
        vectors = [self.encoder(b.ids, b.mask, b.types, side) for b, side in zip((queries, documents), SIDES)]
        return (vectors[0] * vectors[1]).sum()


@pytest.mark.parametrize("family", [tiny_bert, tiny_roberta])
@pytest.mark.parametrize("towers", ["one", "two"])
@pytest.mark.parametrize("document_norm", [False, True])
def test_r05_no_parameter_is_left_out_of_a_step(
    tmp_path: Path, family: type, towers: str, document_norm: bool, alone: None
) -> None:
    folder = family(tmp_path / "model")
    encoder = files.build(model_settings(folder, towers=towers, head=8, document_norm=document_norm), seed=1)
    store = tiny_store(tmp_path / "t", folder, some_texts(8), titles=["title"] * 8)
    model = DistributedDataParallel(Pair(encoder))
    for step in range(4):
        with model.no_sync() if step == 2 else torch.enable_grad():
            model(pad(store, np.arange(4)), pad(store, np.arange(4, 8))).backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


def test_t08_dropout_is_off_on_both_sides(bert: Path, store: TokenStore) -> None:
    encoder = files.build(model_settings(bert, towers="two"), seed=1, dropout=0.5)
    for side in SIDES:
        first, second = (embed(encoder, store, ROWS, 128, side=side) for _ in range(2))
        np.testing.assert_array_equal(first, second)
    assert encoder.training and all(tower.training for tower in encoder.towers)


def test_t05_what_one_tower_lacks_is_named(saved: Path) -> None:
    path = saved / "document" / "model.safetensors"
    weights = load_file(path)
    del weights["encoder.layer.1.output.dense.bias"]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(ValueError, match=r"document: lacks weights: .*layer\.1\.output\.dense\.bias"):
        files.load(saved, CPU)
    shutil.rmtree(saved / "query" / "2_Dense")
    with pytest.raises(ValueError, match=r"query/2_Dense/model\.safetensors: no such file"):
        files.check(model_settings(saved, towers="two", head=8))


def test_one_of_two_towers_is_no_model_path(saved: Path) -> None:
    with pytest.raises(ValueError, match=r"query is one tower of an encoder: set model\.path=.*saved$"):
        files.check(model_settings(saved / "query", head=8))


def test_settings_saved_before_there_were_towers_are_read_with_defaults(tmp_path: Path, bert: Path) -> None:
    files.save(files.build(model_settings(bert), seed=1), tmp_path / "saved")
    plain = json.loads((tmp_path / "saved" / "dance.json").read_text())
    assert list(plain) == [
        "pooling", "head", "normalize", "layers", "query_max_tokens", "document_max_tokens", "tokenizer_fingerprint",
    ]  # fmt: skip
    read = files.read_settings(tmp_path / "saved")
    assert read is not None and (read.towers, read.document_norm, read.chunks) == ("one", True, 1)


@pytest.mark.parametrize(
    ("own", "asked", "remedy"),
    [
        ({"towers": "two"}, {}, r"set model\.towers=two"),
        ({}, {"towers": "two"}, r"set model\.towers=one"),
        ({"head": 8, "document_norm": False}, {"head": 8}, r"set model\.document_norm=false"),
        ({"query_prompt": "query: "}, {}, r"set 'model\.query_prompt=query: '"),
        ({}, {"document_prompt": "p"}, r"set model\.document_prompt="),
    ],
)
def test_what_changes_the_meaning_of_vectors_is_refused(
    tmp_path: Path, bert: Path, own: dict[str, object], asked: dict[str, object], remedy: str
) -> None:
    files.save(files.build(model_settings(bert, **own), seed=1), tmp_path / "saved")
    with pytest.raises(ValueError, match=remedy):
        files.check(model_settings(tmp_path / "saved", **asked))
    assert files.check(model_settings(tmp_path / "saved", **own)).saved


def test_chunks_may_change_and_are_logged(tmp_path: Path, bert: Path, caplog: pytest.LogCaptureFixture) -> None:
    files.save(files.build(model_settings(bert), seed=1), tmp_path / "saved")
    with caplog.at_level(logging.INFO):
        outline = files.check(model_settings(tmp_path / "saved", chunks=4, chunking="raw"))
    assert (outline.settings.chunks, outline.settings.chunking) == (4, "raw")
    assert "model.chunks=4 replaces the encoder's 1" in caplog.text


def test_a_norm_that_is_not_there_cannot_be_left_out(bert: Path) -> None:
    with pytest.raises(ValueError, match=r"leaves out the LayerNorm of a head: set model\.head"):
        files.check(model_settings(bert, document_norm=False))


def test_a_shard_names_the_documents_of_its_chunks(tmp_path: Path, bert: Path, store: TokenStore) -> None:
    owners = np.array([0, 0, 0, 1, 2, 2, 3, 4, 4, 4])
    encoder = trained(bert)
    shards = [embed_shard(encoder, store, ROWS, r, 2, tmp_path / "e", 64, owners=owners) for r in range(2)]
    plain = [embed_shard(encoder, store, ROWS, r, 2, tmp_path / "p", 64) for r in range(2)]
    for shard, rows in zip(shards, plain):
        assert shard.rows.tolist() == owners[rows.rows].tolist()
        np.testing.assert_array_equal(shard.vectors, rows.vectors)
