"""Text to integers, once: the collection and its token store, cached by what they are made of.

    PREPARED/NAME-xxxxxxxxxxxx/ text/                   rows of text and judgements (Collection)
                                tokens-xxxxxxxxxxxx/    token ids of one tokenizer and its limits

The first number names text and limits, the second tokenizer and lengths: another of either is another
folder, so that a store is never reused for what it was not made of.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from .. import arrays, artefact
from ..config import Config
from . import own
from .build import OnProgress, build, settings
from .collection import Collection
from .locking import locked
from .qrels import Rows
from .reading import open_source
from .tokenising import CHUNK_OFFSETS, token_settings, tokenise
from .tokenizer import Tokenizer
from .tokens import TokenSettings, TokenStore

log = logging.getLogger(__name__)
_FORMAT = 3  # rises when the files of either folder change their meaning
_NAME_LENGTH = 12  # characters of a fingerprint in a folder's name


@dataclass(frozen=True)
class Prepared:
    """What a run reads: rows of text, and the same rows as token ids.

    ``documents`` holds one row per *chunk*: those of document d are chunk_offsets[d] to
    chunk_offsets[d + 1]. Where ``model.chunks`` is 1, chunk rows are document rows.
    """

    path: Path
    collection: Collection
    documents: TokenStore
    queries: TokenStore
    settings: TokenSettings
    fingerprint: str  # of text, tokenizer and limits together
    chunk_offsets: Rows  # [documents + 1]

    @classmethod
    def open(cls, path: Path | str) -> Prepared:
        """Raises artefact.Broken where either folder is incomplete, cut short, or not of the other."""
        path = Path(path)
        facts = artefact.verify(path).facts
        collection = Collection.open(path.parent / "text")
        if facts["text"] != artefact.digest(collection.path):
            raise artefact.Broken(
                f"{path} was made of text {facts['text'][:12]}, but {collection.path} is "
                f"{artefact.digest(collection.path)[:12]}; run `dance prepare` again"
            )
        made = msgspec.convert(facts["settings"], TokenSettings)
        documents = TokenStore.open(path / "documents", made, made.document_max_tokens)
        queries = TokenStore.open(path / "queries", made, made.query_max_tokens)
        offsets = np.asarray(arrays.load(path / CHUNK_OFFSETS))
        assert len(offsets) == len(collection.document_ids) + 1 and len(queries) == len(collection.query_ids)
        assert int(offsets[-1]) == len(documents)
        return cls(path, collection, documents, queries, made, facts["fingerprint"], offsets)

    @cached_property
    def owners(self) -> Rows:
        """Document row of each chunk row, [chunk rows]."""
        return np.repeat(np.arange(len(self.chunk_offsets) - 1), np.diff(self.chunk_offsets))

    def chunk_rows(self, documents: Rows) -> Rows:
        """[n] document rows to the rows of their chunks, [n, model.chunks]; -1 fills places without one.

        Row -1 has none.
        """
        known = np.maximum(documents, 0)
        rows = self.chunk_offsets[known][:, None] + np.arange(self.settings.chunks)  # [n, chunks]
        there = (rows < self.chunk_offsets[known + 1][:, None]) & (documents >= 0)[:, None]
        return np.where(there, rows, -1)

    @cached_property
    def identity(self) -> str:
        """The same on two machines if and only if row numbers mean the same text and tokens on both."""
        files = artefact.read_manifest(self.path).files | artefact.read_manifest(self.collection.path).files
        # Which documents are skipped for their queries is no row's meaning, and mined ones are refused on opening.
        told = sorted((n, file.sha256) for n, file in files.items() if n.endswith(".npy") and n != own.FILE)
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def check(self, config: Config) -> None:
        """Raises ValueError, with both fingerprints, where this was made for another configuration."""
        wanted = token_settings(Tokenizer.load(config.model.path), config)
        fingerprint = _fingerprint(text=artefact.digest(self.collection.path), tokens=wanted)
        differing = [
            *_differing(msgspec.to_builtins(self.settings), msgspec.to_builtins(wanted)),
            *_differing(self.collection.facts["settings"], settings(config)),
        ]
        if differing or fingerprint != self.fingerprint:
            raise ValueError(
                f"{self.path} is a store for other settings: it is {self.fingerprint[:12]}, this "
                f"configuration needs {fingerprint[:12]} ({'; '.join(differing)}); run "
                "`dance prepare` with this configuration"
            )


def prepare(
    config: Config,
    splits: Sequence[str] | None = None,
    on_progress: OnProgress = lambda phase, done, total: None,
    before_reading: Callable[[], None] = lambda: None,
) -> Path:
    """Folder for ``Prepared.open``, made now or found complete.

    ``splits`` must have queries: by default those that a run needs. ``before_reading`` is called where the
    text was not read before, and may refuse. Raises ValueError with file, line
    and remedy; nothing is left behind then.
    """
    needed = [config.data.train_split, config.data.dev_split] if splits is None else list(splits)
    tokenizer = Tokenizer.load(config.model.path)
    source = open_source(config.data)
    text_name = _fingerprint(source=source.fingerprint(), settings=settings(config))[:_NAME_LENGTH]
    safe_name = re.sub(r"[^A-Za-z0-9_.-]", "_", source.name).lstrip(".") or "text"
    home = Path(config.data.prepared) / f"{safe_name}-{text_name}"
    with locked(home):
        text = home / "text"
        if _reusable(text):
            Collection.open(text).require(needed)
        else:
            before_reading()
            build(source, config, text, needed, on_progress)
        for line in Collection.open(text).missing(needed):
            log.warning("%s", line)
        made = token_settings(tokenizer, config)
        fingerprint = _fingerprint(text=artefact.digest(text), tokens=made)
        tokens = home / f"tokens-{fingerprint[:_NAME_LENGTH]}"
        if not _reusable(tokens):
            tokenise(Collection.open(text), tokenizer, made, fingerprint, tokens, on_progress)
    return tokens


def _reusable(path: Path) -> bool:
    """Whether it is there and whole; one that is damaged is removed."""
    if not path.exists():
        return False
    try:
        artefact.verify(path)
    except artefact.Broken as error:
        log.warning("made again: %s", error)
        artefact.remove(path)
        return False
    log.info("reused: %s", path)
    return True


def _fingerprint(**parts: Any) -> str:
    return hashlib.sha256(msgspec.json.encode([_FORMAT, parts], order="sorted")).hexdigest()


def _differing(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [
        f"{key} is {_short(found.get(key))}, wanted {_short(wanted[key])}"
        for key in wanted
        if found.get(key) != wanted[key]
    ]


def _short(value: Any) -> str:
    return value[:_NAME_LENGTH] if isinstance(value, str) else repr(value)
