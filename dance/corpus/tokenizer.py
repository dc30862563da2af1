"""A model's own tokenizer: text to ids, nothing but the text decides them.

Title and text are a pair of the model's template, e.g. ``[CLS] title [SEP] text [SEP]``, or one sequence: see
``fields``. What spells a special token in the text stays text. Padding and truncation that a tokenizer ships with
are off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

import tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from ..errors import first_line
from ..location import resolve_model
from . import chunking, fields
from .fields import Template
from .tokens import TokenSettings

# Characters read per token kept. Longer than any real word, so that a text of megabytes costs no more
# than a long one: words beyond this would all be cut off anyway.
_CHARACTERS_PER_TOKEN = 64
Chunking = Literal["titled", "raw"]
Input = str | tuple[str, str]
_TEMPLATE = 2  # rises when the way of joining fields changes


class Tokenizer:
    """``pad_id``, ``separator_id``, ``uses_token_types``: what batches are made with."""

    def __init__(self, whole: PreTrainedTokenizerFast, name: str) -> None:
        if whole.pad_token_id is None:
            raise ValueError(
                f"model.path={name}: its tokenizer has no padding token; name one as pad_token in its "
                "tokenizer_config.json"
            )
        self._whole = whole
        self._fast = tokenizers.Tokenizer.from_str(whole.backend_tokenizer.to_str())
        self._fast.no_padding()
        self._fast.no_truncation()
        self._fast.encode_special_tokens = True
        self.pad_id = int(whole.pad_token_id)
        self.vocabulary_size = max(len(whole), max(self._fast.get_vocab().values()) + 1)
        if self.vocabulary_size <= len(whole.all_special_ids):
            # What transformers makes of a folder without tokenizer files.
            raise ValueError(
                f"model.path={name}: its tokenizer has no vocabulary; copy tokenizer.json or vocab.txt there"
            )
        self.separator_id, pair_types = _probe(self._fast, name)
        self._frame = _frame(self._fast, self.separator_id)
        # A second segment is for models that were trained with one (RoBERTa's has a single type).
        self.uses_token_types = "token_type_ids" in whole.model_input_names and pair_types
        self._unknown_id = whole.unk_token_id
        self._smuggling = self._pieces_that_spell_special_tokens(whole)
        self.fingerprint = self._fingerprint()

    @classmethod
    def load(cls, model_path: str, family: type[PreTrainedTokenizerFast] | None = None) -> Tokenizer:
        """From a folder, hub name or pkg:// path. Raises ValueError where there is no usable one.

        ``family``: what it is where its files do not say so.
        """
        name = resolve_model(model_path)
        try:
            whole = (family or AutoTokenizer).from_pretrained(name)
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"model.path={model_path}: no tokenizer there: {first_line(error)}") from None
        if not isinstance(whole, PreTrainedTokenizerFast):
            raise ValueError(f"model.path={model_path}: its tokenizer has no fast version (tokenizer.json)")
        return cls(whole, model_path)

    def encode_documents(
        self,
        titles: Sequence[str],
        texts: Sequence[str],
        max_tokens: int,
        prompt: str = "",
        template: Template = "pair",
    ) -> list[list[int]]:
        """Special tokens counted; a document without title or, as a pair, without text is a single text.

        ``prompt`` goes before the title or, where there is none, the text.
        """
        chunks = self.chunk_documents(titles, texts, max_tokens, 1, prompt=prompt, template=template)
        return [ids for (ids,) in chunks]

    def chunk_documents(
        self,
        titles: Sequence[str],
        texts: Sequence[str],
        max_tokens: int,
        chunks: int,
        how: Chunking = "titled",
        prompt: str = "",
        template: Template = "pair",
    ) -> list[list[list[int]]]:
        """The chunks of every document, 1 to ``chunks`` of at most ``max_tokens``; see ``chunking`` and ``fields``."""
        sizes = chunking.Sizes(max_tokens, chunks)
        self._refuse_narrow(max_tokens)
        titled = how == "titled" and chunks > 1  # one chunk is the same either way
        if template != "pair":
            spelt = template == "spelt"
            return [
                (fields.titled if titled else fields.raw)(parts, self._frame, sizes)
                for parts in self._fields(titles, texts, max_tokens * chunks, prompt, spelt)
            ]
        inputs = _inputs(titles, texts, max_tokens * chunks * _CHARACTERS_PER_TOKEN, prompt)
        if titled:
            return self._titled(inputs, sizes)
        encodings = self._encode(inputs, max_tokens * chunks, max_tokens)
        return [chunking.cut(self._plain(e), e.special_tokens_mask, sizes) for e in encodings]

    def encode_queries(self, texts: Sequence[str], max_tokens: int, prompt: str = "") -> list[list[int]]:
        limit = max_tokens * _CHARACTERS_PER_TOKEN
        inputs: list[Input] = [prompt + text[:limit] for text in texts]
        return [self._plain(encoding) for encoding in self._encode(inputs, max_tokens, max_tokens)]

    def settings(
        self,
        query_max_tokens: int,
        document_max_tokens: int,
        chunks: int = 1,
        how: Chunking = "titled",
        query_prompt: str = "",
        document_prompt: str = "",
        template: Template = "pair",
    ) -> TokenSettings:
        """How a store of its tokens is made. One sequence has one segment, whatever the model's pairs have."""
        return TokenSettings(
            tokenizer=self.fingerprint,
            pad_id=self.pad_id,
            separator_id=self.separator_id,
            uses_token_types=self.uses_token_types and template == "pair",
            vocabulary_size=self.vocabulary_size,
            query_max_tokens=query_max_tokens,
            document_max_tokens=document_max_tokens,
            chunks=chunks,
            chunking=how,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            document_template=template,
        )

    def save(self, folder: Path) -> None:
        """The tokenizer's own files; ``load(folder)`` has the same fingerprint."""
        self._whole.save_pretrained(folder)

    def _encode(self, inputs: list[Input], limit: int, max_tokens: int) -> list[tokenizers.Encoding]:
        """Cut at ``limit`` tokens; ``max_tokens`` is what one model input may hold."""
        self._refuse_narrow(max_tokens)
        self._fast.enable_truncation(limit)  # the longer of the two fields first
        return self._fast.encode_batch_fast(inputs)

    def _fields(
        self, titles: Sequence[str], texts: Sequence[str], tokens: int, prompt: str, spelt: bool
    ) -> Iterator[list[list[int]]]:
        """Ids of the fields of each document, apart from each other; "spelt" makes them a single one."""
        limit = tokens * _CHARACTERS_PER_TOKEN
        parts = [fields.fields(title[:limit], text[:limit]) for title, text in zip(titles, texts)]
        flat = [[prompt + fields.SPELT.join(own)] if spelt else [prompt + own[0], *own[1:]] for own in parts]
        self._fast.enable_truncation(tokens)
        encodings = iter(
            self._fast.encode_batch_fast([field for own in flat for field in own], add_special_tokens=False)
        )
        return ([self._plain(encoding) for encoding in islice(encodings, len(own))] for own in flat)

    def _titled(self, inputs: list[Input], sizes: chunking.Sizes) -> list[list[list[int]]]:
        self._refuse_narrow(sizes.max_tokens)
        self._fast.no_truncation()
        pairs = [("", each) if isinstance(each, str) else each for each in inputs]
        titles = self._fast.encode_batch_fast([title for title, _ in pairs], add_special_tokens=False)
        texts = self._fast.encode_batch_fast([text for _, text in pairs], add_special_tokens=False)
        single = [isinstance(each, str) for each in inputs]
        parts = (
            chunking.titled(self._fast, None if alone else title, text, sizes)
            for title, text, alone in zip(titles, texts, single)
        )
        return [[self._plain(chunk) for chunk in chunks] for chunks in parts]

    def _refuse_narrow(self, max_tokens: int) -> None:
        if max_tokens <= self._fast.num_special_tokens_to_add(True):
            raise ValueError(f"max_tokens={max_tokens} leaves no room for text between the special tokens of a pair")

    def _pieces_that_spell_special_tokens(self, whole: PreTrainedTokenizerFast) -> frozenset[int]:
        """Unigram vocabularies hold "</s>" as a piece, so that text can still come out as it."""
        spelt = (self._fast.encode(token, add_special_tokens=False).ids for token in whole.all_special_tokens)
        return frozenset(i for ids in spelt for i in ids if i in whole.all_special_ids and i != whole.unk_token_id)

    def _plain(self, encoding: tokenizers.Encoding) -> list[int]:
        if not self._smuggling:
            return encoding.ids
        pairs = zip(encoding.ids, encoding.special_tokens_mask)
        return [self._unknown_id if i in self._smuggling and not added else i for i, added in pairs]

    def _fingerprint(self) -> str:
        self._fast.no_truncation()
        parts = [self._fast.to_str(), self.pad_id, self.separator_id, self.uses_token_types, _TEMPLATE]
        return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def _inputs(titles: Sequence[str], texts: Sequence[str], limit: int, prompt: str) -> list[Input]:
    """``limit`` characters of either field at most, the prompt aside."""
    return [_joined(title[:limit], text[:limit], prompt) for title, text in zip(titles, texts)]


def _joined(title: str, text: str, prompt: str) -> Input:
    title = fields.one_line(title)
    if title.strip() and text.strip():
        return prompt + title, text
    return prompt + (title if title.strip() else text)


def _probe(fast: tokenizers.Tokenizer, name: str) -> tuple[int, bool]:
    """(separator of a pair, whether all after it is of type 1). Raises ValueError where there is none."""
    pair = fast.encode("a", "a")
    text = [at for at, special in enumerate(pair.special_tokens_mask) if not special]
    between = [at for at in range(text[0], text[-1]) if pair.special_tokens_mask[at]] if text else []
    if not between:
        raise ValueError(
            f"model.path={name}: its tokenizer puts no separator between the two texts of a pair; take "
            "an encoder that was trained on pairs, as BERT and RoBERTa were"
        )
    types = [int(at > between[0]) for at in range(len(pair.ids))]
    return int(pair.ids[between[0]]), pair.type_ids == types


def _frame(fast: tokenizers.Tokenizer, separator: int) -> fields.Frame:
    single = fast.encode("a")
    text = [at for at, special in enumerate(single.special_tokens_mask) if not special]
    return fields.Frame(single.ids[: text[0]], separator, single.ids[text[-1] + 1 :])
