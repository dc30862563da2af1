"""Real runs on small text: a corpus, a run folder, roles under torchrun."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from dance import config, tracking
from dance.corpus.prepare import prepare
from dance.paths import RunPaths
from tests.tiny import COMMON, tiny_bert

ROOT = Path(__file__).parents[1]
LIMIT = 120.0  # seconds that a test run may take


def small_corpus(folder: Path, documents: int = 48, seed: int = 0) -> Path:
    """A BEIR folder; a query is some words of its document, every fifth query is held out."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    (folder / "qrels").mkdir()
    texts = [" ".join(rng.choices(COMMON, k=rng.randint(4, 24))) for _ in range(documents)]
    corpus = [{"_id": f"d{i}", "title": rng.choice(COMMON), "text": text} for i, text in enumerate(texts)]
    queries = [{"_id": f"q{i}", "text": " ".join(rng.sample(t.split(), 3))} for i, t in enumerate(texts)]
    for name, records in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    for split, rest in (("train", (0, 1, 2, 3)), ("dev", (4,))):
        rows = "".join(f"q{i}\td{i}\t1\n" for i in range(documents) if i % 5 in rest)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def plain(folder: Path, **groups: dict[str, Any] | str | bool) -> dict[str, Any]:
    """Settings of a quick run under ``folder``; groups are laid over them."""
    settings: dict[str, Any] = {
        "run_dir": str(folder / "run"),
        "run_id": f"test-{folder.name}-{os.getpid()}",
        "data": {"path": str(folder / "corpus"), "prepared": str(folder / "prepared")},
        "model": {"path": str(folder / "model"), "query_max_tokens": 16, "document_max_tokens": 48},
        "negatives": {"topk": 20, "sample": 6, "queries_per_refresh": 0.5},
        "train": {"steps": 40, "batch": 4, "learning_rate": 1e-3, "warmup_steps": 0, "poll_every": 1, "log_every": 1},
        "handover": {"every": 10},
        "checkpoint": {"every": 10},
        "exchange": {"heartbeat_seconds": 0.1},
    }
    for name, group in groups.items():
        settings[name] = {**settings.get(name, {}), **group} if isinstance(group, dict) else group
    return settings


def make_run(folder: Path, **groups: dict[str, Any] | str | bool) -> RunPaths:
    """A run folder that roles can start on; the text and the model are made once."""
    if not (folder / "model").exists():
        tiny_bert(folder / "model")
        small_corpus(folder / "corpus")
    settings = config.from_plain(plain(folder, **groups))
    paths = RunPaths(Path(settings.run_dir or ""))
    paths.root.mkdir(parents=True, exist_ok=True)
    config.write(msgspec.structs.replace(settings, prepared=str(prepare(settings))), paths.config)
    return paths


def start(role: str, paths: RunPaths, processes: int = 1) -> subprocess.Popen[bytes]:
    """A role as its users start it by hand."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "0"]
    paths.logs.mkdir(exist_ok=True)
    with (paths.logs / f"{role}-torchrun.log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--nproc-per-node", str(processes), "-m", role, str(paths.root)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
        )


def finish(*roles: subprocess.Popen[bytes]) -> list[int]:
    """Exit codes; everything is killed once the limit is over or one has failed."""
    deadline = time.monotonic() + LIMIT
    while any(role.poll() is None for role in roles):
        if time.monotonic() > deadline or any(role.poll() for role in roles):
            time.sleep(1.0)
            for role in roles:
                role.terminate()
            break
        time.sleep(0.05)
    return [role.wait(timeout=60) for role in roles]


def run(paths: RunPaths, trainers: int = 1, inferencers: int = 1) -> None:
    """Both roles to their end; shows their logs where they fail."""
    codes = finish(start("trainer", paths, trainers), start("inferencer", paths, inferencers))
    assert codes == [0, 0], "\n".join(log.read_text()[-3000:] for log in sorted(paths.logs.glob("*.log")))


def records(paths: RunPaths, role: str = "trainer") -> list[dict[str, Any]]:
    return tracking.read_lines(paths.metrics(role))  # type: ignore[arg-type]


def wait_until(condition: Any, what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.005)


def dance(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command in a folder, all that it says on stdout; two threads at most."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "launch.main", *arguments]
    return subprocess.Popen(
        command, cwd=folder, text=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
