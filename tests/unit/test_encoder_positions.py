"""How long a text may be for a model, by the positions that it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dance.encoder import files
from dance.encoder.embed import embed
from tests.tiny import model_settings, tiny_bert, tiny_modernbert, tiny_roberta, tiny_store


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "bert")


def test_t01_lengths_beyond_the_usable_positions_are_refused(tmp_path: Path) -> None:
    roberta = tiny_roberta(tmp_path / "roberta")  # 34 rows of positions, two of them unused
    with pytest.raises(ValueError, match="document_max_tokens=34: .* positions for 32 tokens"):
        files.check(model_settings(roberta, document_max_tokens=34))
    with pytest.raises(ValueError, match="query_max_tokens=33"):
        files.check(model_settings(roberta, query_max_tokens=33))
    encoder = files.build(model_settings(roberta), seed=1)
    store = tiny_store(tmp_path / "t", roberta, ["file " * 100], max_tokens=32)
    assert len(store.row(0)) == 32 and store.row(0)[-1] == 2  # the end token survives truncation
    assert np.isfinite(embed(encoder, store, np.arange(1), 64)).all()


def test_t01_plain_bert_has_all_its_positions(bert: Path) -> None:
    assert files.check(model_settings(bert, document_max_tokens=64)).positions == 64
    with pytest.raises(ValueError, match="positions for 64 tokens"):
        files.check(model_settings(bert, document_max_tokens=65))


def test_t01_a_long_family_reads_all_its_positions(tmp_path: Path) -> None:
    """8k tokens: what stands behind the first 512 changes the vector."""
    folder = tiny_modernbert(tmp_path / "long", max_position_embeddings=8192)
    with pytest.raises(ValueError, match="document_max_tokens=8193: .* positions for 8192 tokens"):
        files.check(model_settings(folder, document_max_tokens=8193))
    encoder = files.build(model_settings(folder, document_max_tokens=8192), seed=1)
    same = "file " * 3_000
    store = tiny_store(tmp_path / "t", folder, [f"{same}row", f"{same}key", "file " * 9_000], max_tokens=8192)
    assert store.lengths.tolist() == [3_003, 3_003, 8_192]
    vectors = embed(encoder, store, np.arange(2), 8192)
    assert np.isfinite(vectors).all() and not np.array_equal(vectors[0], vectors[1])
