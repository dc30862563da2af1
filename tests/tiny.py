"""Models small enough for a test: a real architecture with random weights and a real tokenizer."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoModel,
    BertConfig,
    DistilBertConfig,
    GPT2Config,
    ModernBertConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
)
from transformers.utils import logging as chatter

from dance import config
from dance.corpus.tokenizer import Tokenizer as OurTokenizer
from dance.corpus.tokens import TokenSettings, TokenStore, write_tokens

chatter.disable_progress_bar()

_SENTENCE = """the of and to in is for that it with as on by from this are be or at an read write open close file
line text word list table sort find search index row column key value number count sum mean matrix vector
graph tree node path parse print format string byte"""
COMMON = _SENTENCE.split()
LETTERS = list(string.ascii_lowercase + string.digits)
WORDS = COMMON + LETTERS + ["##" + letter for letter in LETTERS] + list("._,-()'\"")


def tiny_bert(folder: Path, seed: int = 0, **config: Any) -> Path:
    """A BERT of two layers, 16 wide, 64 positions, two token types; all words can be spelt."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = _word_pieces(vocabulary)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    _save_tokenizer(tokenizer, folder, pad="[PAD]", unk="[UNK]", cls="[CLS]", sep="[SEP]", mask="[MASK]", types=True)
    shape = {"type_vocab_size": 2, "max_position_embeddings": 64, "pad_token_id": 0}
    return _save_model(folder, seed, BertConfig(**_sizes(len(vocabulary), shape | config)))


def tiny_distilbert(folder: Path, seed: int = 0, **config: Any) -> Path:
    """As ``tiny_bert``, but the model takes no token types although the tokenizer has them."""
    tiny_bert(folder)
    sizes = {"vocab_size": 5 + len(WORDS), "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    shape = {"max_position_embeddings": 64, "pad_token_id": 0}
    return _save_model(folder, seed, DistilBertConfig(**(sizes | shape | config)))


def tiny_modernbert(folder: Path, seed: int = 0, **config: Any) -> Path:
    """As ``tiny_bert``, with rotary positions, local and global attention."""
    tiny_bert(folder)
    shape = {"max_position_embeddings": 64, "local_attention": 8, "global_attn_every_n_layers": 2}
    special = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    return _save_model(folder, seed, ModernBertConfig(**_sizes(5 + len(WORDS), shape | special | config)))


def tiny_gpt2(folder: Path, seed: int = 0, **config: Any) -> Path:
    """As ``tiny_bert``, reading left to right."""
    tiny_bert(folder)
    shape = {"max_position_embeddings": 64, "bos_token_id": 2, "eos_token_id": 3}
    return _save_model(folder, seed, GPT2Config(**_sizes(5 + len(WORDS), shape | config)))


def tiny_roberta(folder: Path, seed: int = 0, **config: Any) -> Path:
    """A RoBERTa of 34 positions, hence 32 tokens; one token type, pairs joined by two separators."""
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *WORDS]
    tokenizer = _word_pieces(vocabulary, unknown="<unk>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s>:0 $A:0 </s>:0",
        pair="<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    _save_tokenizer(tokenizer, folder, pad="<pad>", unk="<unk>", cls="<s>", sep="</s>", mask="<mask>", types=False)
    shape = {"type_vocab_size": 1, "max_position_embeddings": 34, "pad_token_id": 1}
    return _save_model(folder, seed, RobertaConfig(**_sizes(len(vocabulary), shape | config)))


def tiny_store(
    prefix: Path, model: Path, texts: list[str], titles: list[str] | None = None, max_tokens: int = 32
) -> TokenStore:
    """Texts tokenised for a model: documents where there are titles, else queries."""
    tokenizer = OurTokenizer.load(str(model))
    if titles is None:
        ids = tokenizer.encode_queries(texts, max_tokens)
    else:
        ids = tokenizer.encode_documents(titles, texts, max_tokens)
    write_tokens(prefix, [ids], tokenizer.vocabulary_size)
    return TokenStore.open(prefix, token_settings(tokenizer, max_tokens), max_tokens)


def token_settings(tokenizer: OurTokenizer, max_tokens: int) -> TokenSettings:
    return tokenizer.settings(max_tokens, max_tokens)


def model_settings(folder: Path, **changed: object) -> config.Model:
    """Of a tiny model: 16 tokens of a query, 32 of a document."""
    model = {"path": str(folder), "query_max_tokens": 16, "document_max_tokens": 32} | changed
    return config.Model(**model)  # type: ignore[arg-type]


def some_texts(count: int, seed: int = 0, longest: int = 20) -> list[str]:
    """Different texts of 1 to ``longest`` words."""
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(COMMON, random.integers(1, longest + 1))) for _ in range(count)]


def _sizes(vocabulary: int, config: dict[str, Any]) -> dict[str, Any]:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return {"vocab_size": vocabulary, **sizes, **config}


def _word_pieces(vocabulary: list[str], unknown: str = "[UNK]") -> Tokenizer:
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _save_tokenizer(
    tokenizer: Tokenizer, folder: Path, pad: str, unk: str, cls: str, sep: str, mask: str, types: bool
) -> None:
    names = ["input_ids", "token_type_ids", "attention_mask"] if types else ["input_ids", "attention_mask"]
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        unk_token=unk,
        cls_token=cls,
        sep_token=sep,
        mask_token=mask,
        model_input_names=names,
    )
    fast.save_pretrained(folder)


def _save_model(folder: Path, seed: int, config: PretrainedConfig) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModel.from_config(config)
    model.save_pretrained(folder)
    return folder
