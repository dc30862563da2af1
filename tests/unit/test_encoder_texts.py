"""The encoder as its users call it gives the vectors that a run computes."""

import numpy as np
import torch

from dance import config
from dance.encoder import files
from dance.encoder.texts import TextEncoder
from tests.tiny import tiny_bert


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
