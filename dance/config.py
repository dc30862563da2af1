"""The one typed schema of a run. Composed once by ``launch.compose``, read-only ever after.

What is computed stands in ``sections``, how a run goes about it here. Every field has its unit in the
comment above it. Values that only make sense together are checked by ``rules``; what a single value may
be is part of its type.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from . import artefact, rules
from .sections import (
    Batches,
    Count,
    Data,
    Draw,
    Filters,
    Loss,
    Model,
    Natural,
    Negatives,
    Seconds,
    Section,
    Sources,
    Train,
)

__all__ = [
    "Batches", "Config", "Data", "Draw", "Filters", "Loss", "Model", "Negatives", "Section", "Sources", "Train",
    "from_plain", "read", "write",
]  # fmt: skip


class Handover(Section, frozen=True):
    # Steps between two encoders handed to the Inferencer (ANCE: 10,000).
    every: Count = 10_000
    # Newest encoders kept on disk, besides the best and those that a resume needs; null or -1 keeps all.
    keep: int | None = 2


class Checkpoint(Section, frozen=True):
    # Steps between two resumable checkpoints.
    every: Count = 10_000
    # Checkpoints kept on disk; null or -1 keeps all.
    keep: int | None = 2


class Encode(Section, frozen=True):
    # Tokens per encoding batch, padding counted.
    tokens_per_batch: Count = 16_384
    # "auto" takes bf16 where the processor has it.
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    # Queries searched together.
    queries_per_search: Count = 1024


class Refresh(Section, frozen=True):
    # Share of the corpus that one refresh encodes and searches, another one each time, until all were; 1 is
    # ANCE as published, or one over a whole number. Of negatives.topk and filters.skip the same share counts.
    fraction: Annotated[float, Meta(gt=0, le=1)] = 1.0


class Evaluate(Section, frozen=True):
    # Documents ranked per held-out query, in metrics and run files; at least 100, Recall@1000 needs 1,000.
    depth: Annotated[int, Meta(ge=100)] = 100
    # Query retrieval too: the held-out queries that a document answers, among all queries (DANCE).
    d2q: bool = True
    # Steps between two evaluations over the full corpus, a multiple of handover.every; null: at every refresh.
    every: Count | None = None
    # Share of the corpus, always the same, that refreshes between those are scored on; null: they are not.
    fraction: Annotated[float, Meta(gt=0, lt=1)] | None = None


class Exchange(Section, frozen=True):
    # Where the Trainer publishes encoders. "auto" is a local socket named after the run;
    # tcp://HOST:PORT (PORT+1 serves files) crosses machines.
    encoders: str = "auto"
    # Where the Inferencer publishes negatives, likewise.
    negatives: str = "auto"
    # Folder made by `dance keys`; needed to bind anything but loopback.
    keys: str | None = None
    # Seconds between two announcements.
    heartbeat_seconds: Seconds = 1.0
    # Seconds without a sign of the other role before this one gives up.
    peer_timeout_seconds: Seconds = 600.0
    # Seconds that a wait for a product of a living peer may last before it is an error.
    product_timeout_seconds: Seconds = 86_400.0
    # Bytes per chunk of a fetched file.
    chunk_bytes: Count = 1 << 20


class Launch(Section, frozen=True):
    # Trainer processes on this machine; null takes half of the GPUs, or one on CPU.
    trainer_processes: Count | None = None
    # Inferencer processes on this machine, likewise.
    inferencer_processes: Count | None = None
    # Threads per process; null divides the cores so that nothing oversubscribes.
    threads: Count | None = None
    # Seconds that a role has to save and leave, when the run is stopped or the other role has failed.
    grace_seconds: Seconds = 60.0
    # Seconds that a rank waits in a collective before it is an error.
    collective_timeout_seconds: Seconds = 1800.0


class Config(Section, frozen=True):
    """A whole run. ``run_dir`` holds everything that it writes, but for the prepared text."""

    # Folder of the run; null makes one under runs/ named after the experiment and the time.
    run_dir: str | None = None
    # Identity of the run: messages of another one are dropped. null draws one.
    run_id: str | None = None
    # Continue the run in run_dir.
    resume: bool = False
    # Of everything random: order, draws, dropout, new weights.
    seed: Natural = 42
    # async: the Trainer never waits (but for max_staleness). sync: every handover waits for its
    # negatives, bit-reproducible on CPU. static: negatives once, no Inferencer after.
    schedule: Literal["async", "sync", "static"] = "async"
    # Folder of one corpus and one tokenizer inside data.prepared; filled in by prepare.
    prepared: str | None = None
    data: Data = Data()
    model: Model = Model()
    loss: Loss = Loss()
    negatives: Negatives = Negatives()
    sources: Sources = Sources()
    filters: Filters = Filters()
    draw: Draw = Draw()
    train: Train = Train()
    handover: Handover = Handover()
    checkpoint: Checkpoint = Checkpoint()
    batches: Batches = Batches()
    refresh: Refresh = Refresh()
    encode: Encode = Encode()
    evaluate: Evaluate = Evaluate()
    exchange: Exchange = Exchange()
    launch: Launch = Launch()

    @property
    def staleness_bound(self) -> int | None:
        """Steps that the negatives in use may lag behind; None has no bound."""
        if self.schedule == "sync":
            return self.handover.every - 1
        return self.negatives.max_staleness if self.schedule == "async" else None

    @property
    def parts(self) -> int:
        """Slices that the corpus is cut into, one for each refresh; 1 has it whole."""
        return max(1, round(1 / self.refresh.fraction))

    @property
    def depth(self) -> int:
        """Candidates that a search by the encoder gives: of a slice as large a share of ``negatives.topk``."""
        return self.negatives.topk if self.parts == 1 else max(4, round(self.negatives.topk / self.parts))

    @property
    def skip(self) -> int:
        """Best candidates that such a search leaves out: of a slice as large a share of ``filters.skip``."""
        return round(self.filters.skip / self.parts)

    def check(self) -> None:
        """Refuse what single fields cannot. Raises ValueError that names the keys and the remedy."""
        for refuse in rules.ALL:
            refuse(self)


def from_plain(plain: dict[str, Any]) -> Config:
    """Typed and checked from plain values. Raises ValueError that names the key and the remedy."""
    try:
        config = msgspec.convert(plain, Config)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        raise ValueError(f"{where.rstrip('`') or 'configuration'}: {message}{_allowed(where.rstrip('`'))}") from None
    config.check()
    return config


def _allowed(key: str) -> str:
    """The values of a field that has a list of them, for an error about it."""
    kind: Any = Config
    for name in filter(None, key.split(".")):
        kind = get_type_hints(kind).get(name) if isinstance(kind, type) else None
    return f"; one of {', '.join(map(str, get_args(kind)))}" if get_origin(kind) is Literal else ""


def read(path: Path) -> Config:
    """The resolved configuration of a run. Raises ValueError where it is not one."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; a run folder is made by `dance run` or `dance prepare`")
    try:
        return from_plain(msgspec.yaml.decode(path.read_bytes()))
    except (ValueError, msgspec.DecodeError) as error:
        raise ValueError(f"{path}: {error}") from None


def write(config: Config, path: Path) -> None:
    """Complete at once under its final name."""
    artefact.replace_file(path, msgspec.yaml.encode(config))
