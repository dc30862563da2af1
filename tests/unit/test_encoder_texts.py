"""The encoder as its users call it gives the vectors that a run computes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dance import config
from dance.encoder import files
from dance.encoder.texts import TextEncoder
from tests.tiny import some_texts, tiny_bert


def test_texts_get_the_vectors_of_the_token_store(tmp_path):
    model = config.Model(
        path=str(tiny_bert(tmp_path / "model")), pooling="mean", query_max_tokens=16, document_max_tokens=32
    )
    encoder = files.build(model, 0)
    files.save(encoder, tmp_path / "saved")
    opened = TextEncoder.open(tmp_path / "saved", precision="fp32")
    documents = [("list", "read the line"), ("", "sort a table of numbers by key"), ("node", "")]
    vectors = opened.documents(documents)
    tokens = encoder.tokenizer.encode_documents(*map(list, zip(*documents)), 32)
    for row, ids in enumerate(tokens):
        types = [int(3 in ids[:at]) for at in range(len(ids))] if ids.count(3) > 1 else [0] * len(ids)
        one = encoder.eval()(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool), torch.tensor([types]))
        assert np.allclose(vectors[row], one[0].detach().numpy(), atol=1e-5)
    assert opened.queries(["open a file"]).shape == (1, 16)
    assert opened.documents([]).shape == (0, 16)


def opened(tmp_path: Path, **settings: object) -> TextEncoder:
    folder = tiny_bert(tmp_path / "model", initializer_range=0.2)
    model = {"path": str(folder), "query_max_tokens": 16, "document_max_tokens": 12, "pooling": "mean"} | settings
    return TextEncoder(files.build(config.Model(**model), 0, dropout=0.0))  # type: ignore[arg-type]


def test_each_side_goes_through_its_own_tower(tmp_path: Path) -> None:
    texts = opened(tmp_path, towers="two")
    before = texts.queries(["sort"]), texts.documents([("", "sort")])
    with torch.no_grad():
        for parameter in texts.encoder.tower("query").parameters():
            parameter.mul_(1.1)
    after = texts.queries(["sort"]), texts.documents([("", "sort")])
    assert np.array_equal(before[0], before[1]) and np.array_equal(before[1], after[1])
    assert not np.allclose(before[0], after[0], atol=1e-3)


def test_prompts_go_before_the_text_of_their_side(tmp_path: Path) -> None:
    prompted = opened(tmp_path, query_prompt="find: ", document_prompt="text: ")
    plain = opened(tmp_path)
    assert np.array_equal(prompted.queries(["a key"]), plain.queries(["find: a key"]))
    for title, text in (("list", "the file"), ("", "the file"), ("list", "")):
        wanted = plain.documents([(f"text: {title}", text) if title else ("", f"text: {text}")])
        assert np.array_equal(prompted.documents([(title, text)]), wanted)


@pytest.mark.parametrize("chunking", ["titled", "raw"])
def test_the_score_of_a_document_is_its_best_chunk(tmp_path: Path, chunking: str) -> None:
    texts = opened(tmp_path, chunks=3, chunking=chunking, normalize=True)
    documents = [("", "a"), ("list", " ".join(some_texts(3, longest=20))), ("", "")]
    queries = some_texts(4, seed=3)
    vectors, owners = texts.document_chunks(documents)
    assert owners.tolist() == [0, 1, 1, 1, 2]
    every = texts.queries(queries) @ vectors.T
    by_hand = np.stack([every[:, [at for at, own in enumerate(owners) if own == row]].max(1) for row in range(3)], 1)
    np.testing.assert_allclose(texts.scores(queries, documents), by_hand, rtol=1e-6)
    assert texts.scores(queries, []).shape == (4, 0)
    with pytest.raises(ValueError, match=r"up to 3 vectors, one per chunk: take document_chunks\(\)"):
        texts.documents(documents)


def test_scores_of_single_vectors_are_inner_products(tmp_path: Path) -> None:
    texts = opened(tmp_path)
    documents = [("list", "read"), ("", "the row")]
    expected = texts.queries(["row", "list"]) @ texts.documents(documents).T
    np.testing.assert_allclose(texts.scores(["row", "list"], documents), expected, rtol=1e-6)
