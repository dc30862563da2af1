"""Texts to vectors, whole or in shards."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dance import artefact, config
from dance.corpus.tokens import TokenStore
from dance.encoder import files
from dance.encoder.embed import Interrupted, embed, embed_shard
from dance.encoder.model import Encoder
from dance.encoder.store import EmbeddingShard
from dance.search.flat import search
from tests.tiny import some_texts, tiny_bert, tiny_store

BUDGET = 64


def build(folder: Path, dropout: float = 0.0, **settings: object) -> Encoder:
    model = {"path": str(folder), "query_max_tokens": 16, "document_max_tokens": 32} | settings
    return files.build(config.Model(**model), seed=1, dropout=dropout)  # type: ignore[arg-type]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "bert")


@pytest.fixture
def store(tmp_path: Path, bert: Path) -> TokenStore:
    return tiny_store(tmp_path / "texts", bert, [*some_texts(11), ""])  # with an empty document


def opened(folder: Path, size: int, step: int) -> list[EmbeddingShard]:
    return [EmbeddingShard.open(folder, rank, size, step) for rank in range(size)]


def test_t08_dropout_is_off_while_encoding_and_back_on_after(bert: Path, store: TokenStore) -> None:
    encoder = build(bert, dropout=0.5)
    rows = np.arange(len(store))
    assert encoder.training
    np.testing.assert_array_equal(embed(encoder, store, rows, BUDGET), embed(encoder, store, rows, BUDGET))
    assert encoder.training and encoder.backbones()[0].training
    encoder.eval()
    embed(encoder, store, rows, BUDGET)
    assert not encoder.training


def test_t08_the_mode_is_restored_when_encoding_fails(bert: Path, store: TokenStore) -> None:
    encoder = build(bert)
    with pytest.raises(Interrupted):
        embed(encoder, store, np.arange(3), BUDGET, should_stop=lambda: True)
    assert encoder.training and not torch.is_inference_mode_enabled()


def test_vectors_come_in_the_order_asked_for(bert: Path, store: TokenStore) -> None:
    encoder = build(bert)
    rows = np.array([5, 0, 11, 5, 2])
    one_by_one = np.concatenate([embed(encoder, store, rows[i : i + 1], BUDGET) for i in range(5)])
    np.testing.assert_allclose(embed(encoder, store, rows, BUDGET), one_by_one, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_e05_shards_hold_every_document_once_bit_for_bit(
    tmp_path: Path, bert: Path, store: TokenStore, size: int
) -> None:
    encoder = build(bert, head=8)
    rows = np.arange(len(store))
    whole = embed(encoder, store, rows, BUDGET)
    for rank in range(size):
        embed_shard(encoder, store, rows, rank, size, tmp_path / "e", BUDGET, step=3)
    shards = opened(tmp_path / "e", size, 3)
    assert sorted(np.concatenate([shard.rows for shard in shards]).tolist()) == rows.tolist()
    for shard in shards:
        np.testing.assert_array_equal(shard.vectors, whole[shard.rows])


def test_e05_more_processes_than_documents(tmp_path: Path, bert: Path, store: TokenStore) -> None:
    encoder = build(bert)
    shards = [embed_shard(encoder, store, np.array([4]), rank, 2, tmp_path / "e", BUDGET) for rank in range(2)]
    assert [len(shard.rows) for shard in shards] == [1, 0]
    assert shards[1].vectors.shape == (0, 16)
    assert EmbeddingShard.open(tmp_path / "e", 0, 2, None).rows.tolist() == [4]


def test_e05_a_refresh_may_cover_part_of_the_corpus(tmp_path: Path, bert: Path, store: TokenStore) -> None:
    covered = np.array([9, 1, 4, 7])
    for rank in range(2):
        embed_shard(build(bert), store, covered, rank, 2, tmp_path / "e", 16, step=3)
    rows = np.concatenate([shard.rows for shard in opened(tmp_path / "e", 2, 3)])
    assert sorted(rows.tolist()) == [1, 4, 7, 9]


def test_e06_each_document_is_nearest_to_its_own_text(tmp_path: Path, bert: Path, store: TokenStore) -> None:
    encoder = build(bert, pooling="mean", normalize=True)
    rows = np.arange(len(store))
    for rank in range(3):
        embed_shard(encoder, store, rows, rank, 3, tmp_path / "e", BUDGET, step=3)
    shards = opened(tmp_path / "e", 3, 3)
    vectors = np.concatenate([shard.vectors for shard in shards])
    found = search(vectors, np.concatenate([shard.rows for shard in shards]), embed(encoder, store, rows, BUDGET), 1)
    assert found.rows[:, 0].tolist() == rows.tolist()


def test_an_interrupted_shard_leaves_nothing(tmp_path: Path, bert: Path, store: TokenStore) -> None:
    seen: list[int] = []
    with pytest.raises(Interrupted):
        embed_shard(build(bert), store, np.arange(12), 0, 1, tmp_path / "e", 16, seen.append, lambda: len(seen) == 2)
    assert len(seen) == 2 and not list((tmp_path / "e").iterdir())


def test_progress_counts_documents_done(bert: Path, store: TokenStore) -> None:
    seen: list[int] = []
    embed(build(bert), store, np.arange(12), 16, seen.append)
    assert seen == sorted(seen) and seen[-1] == 12


def test_t10_texts_of_another_tokenizer_are_refused(bert: Path, store: TokenStore) -> None:
    store.fingerprint = "of another one"
    with pytest.raises(ValueError, match="tokenizer of another one, the encoder has [0-9a-f]{64}"):
        embed(build(bert), store, np.arange(2), BUDGET)


def test_a_vector_that_is_not_finite_names_its_row(bert: Path, store: TokenStore) -> None:
    encoder = build(bert)
    with torch.no_grad():
        encoder.backbones()[0].embeddings.word_embeddings.weight[int(store.row(6)[1])] = torch.nan
    first = next(row for row in range(12) if store.row(6)[1] in store.row(row))
    with pytest.raises(ValueError, match=f"vector of row {first} is not finite"):
        embed(encoder, store, np.arange(first + 1), 10_000)


class Constant(nn.Module):
    """Stands in for an encoder where only the flow of vectors matters."""

    def __init__(self, fingerprint: str, width: int = 64) -> None:
        super().__init__()
        self.width, self.device = width, torch.device("cpu")
        self.settings = type("Settings", (), {"tokenizer_fingerprint": fingerprint})

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None, side: str) -> Tensor:
        return ids[:, :1].float().expand(-1, self.width)


def test_s02_memory_does_not_grow_with_the_corpus(tmp_path: Path, bert: Path) -> None:
    store = tiny_store(tmp_path / "many", bert, ["a"] * 20_000)
    encoder = Constant(store.fingerprint)
    peaks = []
    for documents in (2_000, 20_000):
        tracemalloc.start()
        folder = tmp_path / str(documents)
        embed_shard(encoder, store, np.arange(documents), 0, 1, folder, 1_000)  # type: ignore[arg-type]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        artefact.remove(folder)
    vectors = 18_000 * 64 * 4  # bytes by which the output grew
    assert peaks[1] - peaks[0] < vectors / 2
