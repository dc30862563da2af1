"""Public folders as old as their papers, which name less than later ones do."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    RobertaConfig,
)

from tests.public import (
    LONG,
    QUERIES,
    PublicRoberta,
    taken_in,
)


def test_a_folder_of_its_time_names_no_type(tmp_path: Path) -> None:
    """transformers 2.3: config.json without model_type, vocab.json and merges.txt, no tokenizer.json."""
    folder = tmp_path / "public"
    folder.mkdir()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = ByteLevelBPETokenizer()
    trainer.train_from_iterator([text for _, text in LONG], vocab_size=300, special_tokens=special)
    trainer.save_model(str(folder))
    sizes = {"vocab_size": 300, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 32, "type_vocab_size": 1, "max_position_embeddings": 34}  # fmt: skip
    config = RobertaConfig(**sizes, pad_token_id=1, bos_token_id=0, eos_token_id=2, initializer_range=0.2)
    (folder / "config.json").write_text(json.dumps({**sizes, "architectures": ["RobertaDot"], "num_labels": 2}))
    torch.manual_seed(5)
    torch.save(PublicRoberta(config).state_dict(), folder / "pytorch_model.bin")
    ours = taken_in(folder, "ance", tmp_path / "ours")
    ids = [trainer.token_to_id(token) for token in trainer.encode("read a file").tokens]
    assert ours.encoder.tokenizer.encode_queries(["read a file"], 16) == [[0, *ids, 2]]
    assert ours.encoder.tokenizer.encode_documents(["read"], ["file"], 16)[0].count(2) == 3
    assert ours.queries(QUERIES).std(axis=0).max() > 0.01
