"""Text to integers, once: the collection and its token store, cached by what they are made of.

    PREPARED/NAME-xxxxxxxxxxxx/ text/                   rows of text and judgements (Collection)
                                tokens-xxxxxxxxxxxx/    token ids of one tokenizer and its limits

The first number names text and limits, the second tokenizer and lengths: another of either is another
folder, so that a store is never reused for what it was not made of.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from .. import artefact
from ..config import Config
from .build import OnProgress, build, settings
from .collection import Collection
from .reading import open_source
from .tokenizer import Tokenizer
from .tokens import TokenSettings, TokenStore, write_tokens

log = logging.getLogger(__name__)
KIND = "tokens"
_FORMAT = 1  # rises when the files of either folder change their meaning
_BATCH = 1024  # texts tokenised together
_NAME_LENGTH = 12  # characters of a fingerprint in a folder's name


@dataclass(frozen=True)
class Prepared:
    """What a run reads: rows of text, and the same rows as token ids."""

    path: Path
    collection: Collection
    documents: TokenStore
    queries: TokenStore
    settings: TokenSettings
    fingerprint: str  # of text, tokenizer and limits together

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
        assert len(documents) == len(collection.document_ids) and len(queries) == len(collection.query_ids)
        return cls(path, collection, documents, queries, made, facts["fingerprint"])

    @cached_property
    def identity(self) -> str:
        """The same on two machines if and only if row numbers mean the same text and tokens on both."""
        files = artefact.read_manifest(self.path).files | artefact.read_manifest(self.collection.path).files
        told = sorted((name, file.sha256) for name, file in files.items() if name.endswith(".npy"))
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def check(self, config: Config) -> None:
        """Raises ValueError, with both fingerprints, where this was made for another configuration."""
        wanted = _token_settings(Tokenizer.load(config.model.path), config)
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
) -> Path:
    """Folder for ``Prepared.open``, made now or found complete.

    ``splits`` must have queries: by default those that a run needs. Raises ValueError with file, line
    and remedy; nothing is left behind then.
    """
    needed = [config.data.train_split, config.data.dev_split] if splits is None else list(splits)
    tokenizer = Tokenizer.load(config.model.path)
    source = open_source(config.data)
    text_name = _fingerprint(source=source.fingerprint(), settings=settings(config))[:_NAME_LENGTH]
    safe_name = re.sub(r"[^A-Za-z0-9_.-]", "_", source.name).lstrip(".") or "text"
    home = Path(config.data.prepared) / f"{safe_name}-{text_name}"
    with _locked(home):
        text = home / "text"
        if _reusable(text):
            collection = Collection.open(text)
            for split in needed:
                collection.split(split)
        else:
            build(source, config, text, needed, on_progress)
        made = _token_settings(tokenizer, config)
        fingerprint = _fingerprint(text=artefact.digest(text), tokens=made)
        tokens = home / f"tokens-{fingerprint[:_NAME_LENGTH]}"
        if not _reusable(tokens):
            _tokenise(Collection.open(text), tokenizer, made, fingerprint, tokens, on_progress)
    return tokens


def _token_settings(tokenizer: Tokenizer, config: Config) -> TokenSettings:
    return tokenizer.settings(config.model.query_max_tokens, config.model.document_max_tokens)


def _tokenise(
    collection: Collection,
    tokenizer: Tokenizer,
    made: TokenSettings,
    fingerprint: str,
    path: Path,
    on_progress: OnProgress,
) -> None:
    facts: dict[str, Any] = {"fingerprint": fingerprint, "text": artefact.digest(collection.path)}
    facts["settings"] = msgspec.to_builtins(made)
    parts = {
        "documents": (_document_batches(collection, tokenizer, made, on_progress), made.document_max_tokens),
        "queries": (_query_batches(collection, tokenizer, made), made.query_max_tokens),
    }
    with artefact.publishing(path, KIND, facts=facts) as folder:
        for name, (batches, limit) in parts.items():
            lengths = write_tokens(folder / name, batches, made.vocabulary_size)
            full = int((lengths == limit).sum())
            facts[name] = {"rows": len(lengths), "tokens": int(lengths.sum()), "at_limit": full}
            mean = float(lengths.mean()) if len(lengths) else 0.0
            log.info("%s: %d, %.0f tokens on average, %d fill %d tokens", name, len(lengths), mean, full, limit)


def _document_batches(
    collection: Collection, tokenizer: Tokenizer, made: TokenSettings, on_progress: OnProgress
) -> Iterator[list[list[int]]]:
    total = len(collection.texts)
    for rows in _batches(total):
        titles = [collection.titles[row] for row in rows]
        texts = [collection.texts[row] for row in rows]
        yield tokenizer.encode_documents(titles, texts, made.document_max_tokens)
        on_progress("tokenise documents", rows.stop, total)


def _query_batches(collection: Collection, tokenizer: Tokenizer, made: TokenSettings) -> Iterator[list[list[int]]]:
    for rows in _batches(len(collection.queries)):
        yield tokenizer.encode_queries([collection.queries[row] for row in rows], made.query_max_tokens)


def _batches(total: int) -> Iterator[range]:
    return (range(start, min(start + _BATCH, total)) for start in range(0, total, _BATCH))


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
        f"{key} is {_short(found[key])}, wanted {_short(wanted[key])}"
        for key in wanted
        if found.get(key) != wanted[key]
    ]


def _short(value: Any) -> str:
    return value[:_NAME_LENGTH] if isinstance(value, str) else repr(value)


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """One process at a time; it is released by the system when its holder dies."""
    home.mkdir(parents=True, exist_ok=True)
    handle = os.open(home, os.O_RDONLY)  # the folder itself, so that no lock file stays
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("%s: waiting for another process that prepares it", home)
            fcntl.flock(handle, fcntl.LOCK_EX)
        artefact.sweep(home)
        yield
    finally:
        if home.is_dir() and not any(home.iterdir()):
            home.rmdir()
        os.close(handle)
