"""The expensive half of preparing, in a process of its own: `python -m launch.preparing`.

Request on stdin, answer on stdout, both JSON; what a person should see on stderr. Exit code 2 for
bad input, said in one message.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import msgspec

from dance import log
from dance.config import Config
from dance.stopping import Stop

from . import preflight, terminal

if TYPE_CHECKING:
    from dance.corpus.collection import Collection

_SAY_EVERY_SECONDS = 5.0
_CLEARING_SECONDS = 4.0  # after a signal; the launcher kills a moment later
_BM25_DOCUMENTS = 1_000_000  # above, the baseline takes longer than a person waits


class Request(msgspec.Struct, frozen=True):
    """From the launcher."""

    config: Config
    inferencer_processes: int
    run: bool  # a run follows: room on disk, processes and the baseline matter
    later: tuple[Config, ...] = ()  # stages that follow it: only their encoders are checked


class Answer(msgspec.Struct, frozen=True):
    """To the launcher."""

    prepared: str  # folder
    documents: int
    train_queries: int
    dev_queries: int
    bm25: dict[str, float] | None = None


def main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    _end_when_asked()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    log.hush()
    try:
        answer = make_ready(request)
    except ValueError as error:
        terminal.fail(str(error))
        sys.exit(2)
    except OSError as error:
        terminal.fail(f"{error.filename or 'files'}: {error.strerror or error}; see data.prepared and data.path")
        sys.exit(2)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


def _end_when_asked() -> None:
    """With the launcher; by a signal so that half-written folders go too, if that takes a few seconds at most."""
    Stop(_CLEARING_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def make_ready(request: Request) -> Answer:
    """Encoder checked, text read and tokenised, room on disk, BM25. Raises ValueError."""
    from dance.corpus.prepare import Prepared, prepare
    from dance.encoder import files
    from dance.learning import teaching

    config = request.config
    outline = files.check(config.model)
    for stage in request.later:
        files.check(stage.model)
    prepared = Prepared.open(prepare(config, None, Teller(), lambda: _refuse_full_store(config)))
    for stage in (config, *(later for later in request.later if later.data == config.data)):
        teaching.require(prepared.collection, stage)
        _index(prepared.collection, stage)
    documents = len(prepared.collection.document_ids)
    train, dev = prepared.collection.split(config.data.train_split), prepared.collection.asked(config.data.dev_split)
    bm25 = None
    if request.run:
        _refuse_processes(request.inferencer_processes, documents)
        settings, towers = outline.settings, 2 if config.model.towers == "two" else 1
        weights = preflight.weight_bytes(
            outline.hidden, settings.layers, outline.tokenizer.vocabulary_size, settings.head
        )
        vectors = len(prepared.documents)  # one per chunk
        ranked = len(dev) * min(config.evaluate.depth, documents) * (2 if config.evaluate.d2q else 1)
        needed = preflight.needed_bytes(config, towers * weights, outline.width, vectors, len(train), ranked)
        preflight.refuse_full(Path(config.run_dir or "."), needed)
        bm25 = _bm25(prepared, config, documents)
    return Answer(str(prepared.path), documents, len(train), len(dev), bm25)


class Teller:
    """Says how far a phase is, every few seconds."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, phase: str, done: int, total: int | None) -> None:
        if time.monotonic() - self._said >= _SAY_EVERY_SECONDS:
            self._said = time.monotonic()
            terminal.say(f"{phase}: {done:,}" + (f" of {total:,}" if total else ""))


def _index(collection: Collection, config: Config) -> None:
    """What BM25 searches, made before the roles start: no rank is to wait an hour for another one."""
    if not config.sources.bm25:
        return
    from dance.search import lexical

    tell, total = Teller(), len(collection.texts)
    if config.negatives.per_example:
        lexical.documents(collection, lambda done: tell("index documents for BM25", done, total))
    if config.loss.dual_weight and config.negatives.queries_per_example:
        lexical.queries(collection, config.data.train_split)


def _refuse_full_store(config: Config) -> None:
    needed = preflight.text_bytes(config)
    preflight.refuse_full(Path(config.data.prepared), needed, "set data.prepared on a larger disk")


def _refuse_processes(processes: int, documents: int) -> None:
    if processes > documents:
        raise ValueError(
            f"{processes} Inferencer processes for {documents} documents: lower launch.inferencer_processes"
        )


def _bm25(prepared: object, config: Config, documents: int) -> dict[str, float] | None:
    from dance.corpus.prepare import Prepared
    from dance.evaluation.baseline import bm25_metrics

    assert isinstance(prepared, Prepared)
    if documents > _BM25_DOCUMENTS:
        terminal.say(f"BM25 is left out: over {_BM25_DOCUMENTS:,} documents")
        return None
    return bm25_metrics(prepared, config.data.dev_split, config)


if __name__ == "__main__":
    main()
