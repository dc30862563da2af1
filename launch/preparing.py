"""The expensive half of preparing, in a process of its own: `python -m launch.preparing`.

Request on stdin, answer on stdout, both JSON; what a person should see on stderr. Exit code 2 for
bad input, said in one message.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

import msgspec

from dance.config import Config
from dance.stopping import Stop

from . import preflight, terminal

_SAY_EVERY_SECONDS = 5.0
_BM25_DOCUMENTS = 1_000_000  # above, the baseline takes longer than a person waits


class Request(msgspec.Struct, frozen=True):
    """From the launcher."""

    config: Config
    inferencer_processes: int
    run: bool  # a run follows: room on disk, processes and the baseline matter


class Answer(msgspec.Struct, frozen=True):
    """To the launcher."""

    prepared: str  # folder
    documents: int
    train_queries: int
    dev_queries: int
    bm25: dict[str, float] | None = None


def main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    Stop(grace_seconds=0.5)  # ends with the launcher
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for chatty in ("httpx", "httpcore", "faiss.loader", "bm25s"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        answer = make_ready(request)
    except ValueError as error:
        terminal.fail(str(error))
        sys.exit(2)
    except OSError as error:
        terminal.fail(f"{error.filename or 'files'}: {error.strerror or error}; see data.prepared and data.path")
        sys.exit(2)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


def make_ready(request: Request) -> Answer:
    """Encoder checked, text read and tokenised, room on disk, BM25. Raises ValueError."""
    from dance.corpus.prepare import Prepared, prepare
    from dance.encoder import files

    config = request.config
    outline = files.check(config.model)
    store = Path(config.data.prepared)
    preflight.refuse_full(store, preflight.text_bytes(config), "set data.prepared on a larger disk")
    prepared = Prepared.open(prepare(config, on_progress=Teller()))
    documents = len(prepared.collection.document_ids)
    train, dev = (prepared.collection.split(name) for name in (config.data.train_split, config.data.dev_split))
    bm25 = None
    if request.run:
        _refuse_processes(request.inferencer_processes, documents)
        settings = outline.settings
        weights = preflight.weight_bytes(
            outline.hidden, settings.layers, outline.tokenizer.vocabulary_size, settings.head
        )
        needed = preflight.needed_bytes(config, weights, outline.width, documents, len(train))
        preflight.refuse_full(Path(config.run_dir or "."), needed)
        bm25 = _bm25(prepared, config.data.dev_split, documents)
    return Answer(str(prepared.path), documents, len(train), len(dev), bm25)


class Teller:
    """Says how far a phase is, every few seconds."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        if time.monotonic() - self._said >= _SAY_EVERY_SECONDS:
            self._said = time.monotonic()
            terminal.say(f"{phase}: {done:,}" + (f" of {total:,}" if total else ""))


def _refuse_processes(processes: int, documents: int) -> None:
    if processes > documents:
        raise ValueError(
            f"{processes} Inferencer processes for {documents} documents: lower launch.inferencer_processes"
        )


def _bm25(prepared: object, split: str, documents: int) -> dict[str, float] | None:
    from dance.corpus.prepare import Prepared
    from dance.evaluation.baseline import bm25_metrics

    assert isinstance(prepared, Prepared)
    if documents > _BM25_DOCUMENTS:
        terminal.say(f"BM25 is left out: over {_BM25_DOCUMENTS:,} documents")
        return None
    return bm25_metrics(prepared, split)


if __name__ == "__main__":
    main()
