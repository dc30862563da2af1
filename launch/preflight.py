"""What is refused before anything expensive. Every refusal is a ValueError with the remedy."""

from __future__ import annotations

import errno
import shutil
import socket
from pathlib import Path
from urllib.parse import urlsplit

from dance import paths as run_paths
from dance.config import Config
from dance.location import resolve_model
from dance.paths import RunPaths

_STATES = 3  # weights and two moments, float32
_FLOAT = 4  # bytes
_LINE = 48  # bytes of a line of a run file, about

_INSTALLED = 120_000_000  # bytes of the Python files that are installed beside us, about
# Files of text, of whatever layout; judgements and lists of negatives are small beside them, or not kept whole.
_TEXTS = ("corpus.jsonl", "collection.tsv", "msmarco-docs.tsv", "psgs_w100.tsv", "*queries")
_PACKED = 3  # text is about so much longer than its .gz
_SMALLER_RUN = "set run_dir on a larger disk, or lower handover.keep, checkpoint.keep or evaluate.depth"


def check(config: Config, paths: RunPaths, both_here: bool = True) -> None:
    """Without torch, in a fraction of a second. ``both_here``: this machine binds both roles' sockets."""
    from dance.corpus.reading import open_source
    from dance.exchange import endpoints
    from dance.search.flavour import check_faiss

    check_faiss()
    refuse_used(config, paths)
    endpoints.check(config)
    if both_here:
        for kind in ("encoders", "negatives"):
            endpoint = endpoints.resolve(config, kind)
            for address in (endpoint.news, endpoint.files):
                refuse_taken(endpoint.setting, address)
    resolve_model(config.model.path)
    open_source(config.data)


def refuse_used(config: Config, paths: RunPaths) -> None:
    """A folder with anything in it belongs to another run, unless that run is to go on."""
    if config.resume:
        newest = run_paths.newest(paths.checkpoints)
        over = newest is not None and (newest > config.train.steps or paths.finished.exists())
        if over and newest is not None and newest >= config.train.steps:
            raise ValueError(
                f"{paths.root} is at step {newest}, train.steps={config.train.steps}: raise train.steps to go on, or "
                f"see `dance status {paths.root}`"
            )
        return
    if paths.config.exists():
        raise ValueError(f"{paths.root} holds a run already: add resume=true to continue it, or choose another run_dir")
    if paths.root.exists() and (not paths.root.is_dir() or any(p.suffix != ".lock" for p in paths.root.iterdir())):
        raise ValueError(f"{paths.root} is not an empty folder: choose another run_dir, or remove it")


def refuse_taken(setting: str, address: str) -> None:
    """Raises ValueError where a tcp address cannot be bound here."""
    parts = urlsplit(address)
    if parts.scheme != "tcp" or parts.hostname is None:
        return
    try:
        family, kind, _, _, where = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        remedy = "another program has that port: choose one" if taken else "is HOST an address of this machine?"
        raise ValueError(f"{setting}: cannot bind {address} ({error.strerror or error}): {remedy}") from None


def weight_bytes(hidden: int, layers: int, vocabulary: int, head: int | None) -> int:
    """Float32 bytes of an encoder: twelve squares per layer, the embeddings, the head."""
    return _FLOAT * (12 * hidden * hidden * layers + vocabulary * hidden + hidden * (head or 0))


def needed_bytes(config: Config, weights: int, width: int, vectors: int, queries: int, ranked: int = 0) -> int:
    """What a run writes at most at one time; ``vectors`` are the corpus's, ``queries`` the training queries.

    ``ranked``: lines of the run files of one evaluation; those of all evaluations are kept.
    """
    train, negatives = config.train, config.negatives
    checkpoints = _kept(config.checkpoint.keep, train.steps // config.checkpoint.every)
    states = _STATES * weights * (checkpoints + 1)  # one is being written
    embeddings = vectors * width * _FLOAT
    directions = 2 if config.loss.dual_weight else 1
    tables = 3 * directions * queries * negatives.sample * (8 + _FLOAT)
    every = config.evaluate.every or config.handover.every
    evaluations = 2 if config.schedule == "static" else 1 + train.steps // every
    return weights * _encoders(config, checkpoints) + states + embeddings + tables + _LINE * ranked * evaluations


def text_bytes(config: Config) -> int:
    """What preparing writes at most: the raw and the kept text, and its tokens, about as large as the text again."""
    path = config.data.path
    found = {file for name in _TEXTS for file in Path(path).glob(f"{name}*")} if path else set()
    source = sum(file.stat().st_size * (_PACKED if file.suffix == ".gz" else 1) for file in found)
    return 3 * (source if path else _INSTALLED)


def refuse_full(folder: Path, needed: int, remedy: str = _SMALLER_RUN) -> None:
    """Raises ValueError where the disk under ``folder`` has less than ``needed`` bytes."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise ValueError(f"{folder}: about {size(needed)} will be written, {size(free)} are free; {remedy}")


def size(count: float) -> str:
    """Bytes for a person: "1.5 GB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _encoders(config: Config, checkpoints: int) -> int:
    """Encoders at one time at most: the newest, one of each checkpoint, and those that the roles hold."""
    made = config.train.steps // config.handover.every
    newest = max(_kept(config.handover.keep, made), 3)  # the Trainer lets go of none that may just be taken up
    held = 4 if config.parts == 1 else 6  # done with, at work, the best, being written; two wait for a full pass
    return min(newest + checkpoints + held, made + 1)


def _kept(keep: int | None, made: int) -> int:
    return made + 1 if keep is None or keep < 0 else min(keep, made + 1)
