"""Saved encoders as sentence-transformers reads them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dance import config
from dance.encoder import files
from dance.encoder.embed import embed
from dance.encoder.model import SIDES
from dance.encoder.texts import TextEncoder
from tests.tiny import some_texts, tiny_bert, tiny_store


def settings(folder: Path, **changed: object) -> config.Model:
    model = {"path": str(folder), "query_max_tokens": 16, "document_max_tokens": 32} | changed
    return config.Model(**model)  # type: ignore[arg-type]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "bert")


def test_a_saved_folder_has_the_layout_of_sentence_transformers(tmp_path: Path, bert: Path) -> None:
    saved = tmp_path / "saved"
    files.save(files.build(settings(bert, pooling="mean", head=8, normalize=True), seed=1), saved)
    modules = json.loads((saved / "modules.json").read_text())
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    assert kinds == ["Transformer", "Pooling", "Dense", "LayerNorm", "Normalize"]
    pooling = json.loads((saved / "1_Pooling" / "config.json").read_text())
    assert pooling["pooling_mode_mean_tokens"] and not pooling["pooling_mode_cls_token"]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("head", [None, 8])
def test_sentence_transformers_gives_the_same_vectors(
    tmp_path: Path, bert: Path, pooling: str, head: int | None
) -> None:
    """Where it is installed; the product does not need it."""
    theirs = pytest.importorskip("sentence_transformers")
    encoder = files.build(settings(bert, pooling=pooling, head=head), seed=1)
    files.save(encoder, tmp_path / "saved")
    loaded = theirs.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    queries = tiny_store(tmp_path / "q", bert, some_texts(5))
    ours = embed(encoder, queries, np.arange(5), 64)
    np.testing.assert_allclose(loaded.encode(some_texts(5)), ours, atol=1e-5)
    documents = tiny_store(tmp_path / "d", bert, some_texts(5), titles=["a title"] * 5)
    pairs = [("a title", text) for text in some_texts(5)]
    ours = embed(encoder, documents, np.arange(5), 64)
    np.testing.assert_allclose(loaded.encode(pairs), ours, atol=1e-5)


def test_sentence_transformers_reads_either_tower_with_its_prompt(tmp_path: Path, bert: Path) -> None:
    """Where it is installed. The document tower has no LayerNorm here."""
    theirs = pytest.importorskip("sentence_transformers")
    prompts = {"query_prompt": "find: ", "document_prompt": "text: "}
    model = settings(bert, towers="two", head=8, document_norm=False, normalize=True, **prompts)
    files.save(files.build(model, seed=1), tmp_path / "saved")
    ours, texts = TextEncoder.open(tmp_path / "saved", precision="fp32"), some_texts(5)
    query, document = (theirs.SentenceTransformer(str(tmp_path / "saved" / side), device="cpu") for side in SIDES)
    np.testing.assert_allclose(query.encode_query(texts), ours.queries(texts), atol=1e-5)
    np.testing.assert_allclose(document.encode_document(texts), ours.documents([("", t) for t in texts]), atol=1e-5)
