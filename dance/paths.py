"""Every path of a run folder, and nothing else knows any.

RUN/ config.yaml            resolved settings
     encoders/step_*        Trainer's: what the Inferencer and a user load
     checkpoints/step_*     Trainer's: what a resume needs
     negatives/step_*       Inferencer's
     received/KIND-NODE/step_*  fetched from a peer without a shared disk; owned by the machine that fetched it
     embeddings/            Inferencer's, newest only
     evaluation/step_*      metrics.json and run.trec of each encoder that is scored
     metrics/ROLE.jsonl  metrics/tensorboard/  journal.jsonl  status/ROLE.json  logs/
     finished.json

A run in stages is a folder of such folders, and RUN/stages.json.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from . import artefact

Kind = Literal["encoders", "negatives"]
Role = Literal["trainer", "inferencer"]
_STEP = re.compile(r"step_(\d{8,})")


def step_name(step: int) -> str:
    return f"step_{step:08d}"


@dataclass(frozen=True)
class RunPaths:
    """Paths below one run folder."""

    root: Path
    node: int = 0  # of this machine, among those that a role has and that may share the folder

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def encoders(self) -> Path:
        return self.root / "encoders"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def negatives(self) -> Path:
        return self.root / "negatives"

    @property
    def embeddings(self) -> Path:
        return self.root / "embeddings"

    @property
    def evaluation(self) -> Path:
        return self.root / "evaluation"

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def tensorboard(self) -> Path:
        return self.root / "metrics" / "tensorboard"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def finished(self) -> Path:
        return self.root / "finished.json"

    @property
    def stages(self) -> Path:
        """Of a run in stages: what they are; see ``launch.stages``."""
        return self.root / "stages.json"

    @property
    def whole(self) -> Path:
        """What a person resumes: the run in stages that this is one of, or this one."""
        outer = RunPaths(self.root.parent)
        return outer.root if outer.stages.is_file() else self.root

    @property
    def best(self) -> Path:
        """{"step", ...}: the encoder with the best dev metric so far."""
        return self.root / "best.json"

    def metrics(self, role: Role) -> Path:
        return self.root / "metrics" / f"{role}.jsonl"

    def status(self, role: Role) -> Path:
        return self.root / "status" / f"{role}.json"

    def log(self, role: Role, rank: int) -> Path:
        return self.logs / f"{role}-rank{rank}.log"

    def lock(self, holder: str) -> Path:
        return self.root / f".{holder}.lock"

    def published(self, kind: Kind, step: int) -> Path:
        """Where the kind's owner puts it."""
        return self.root / kind / step_name(step)

    def received(self, kind: Kind, step: int) -> Path:
        """Where a subscriber without the owner's disk puts its copy, on this machine."""
        return self.root / "received" / f"{kind}-{self.node}" / step_name(step)

    def held(self, kind: Kind, step: int) -> Path | None:
        """A complete artefact on this disk, whichever way it came; None if there is none.

        What was received comes first: it was compared with the announcement. What another machine received may be
        of a future that a resume went back from.
        """
        for path in (self.received(kind, step), self.published(kind, step)):
            if (path / artefact.MANIFEST).is_file():
                return path
        return None


def steps(folder: Path) -> list[int]:
    """Steps of the complete artefacts in a folder, ascending."""
    if not folder.is_dir():
        return []
    found = (_STEP.fullmatch(path.name) for path in folder.iterdir() if (path / artefact.MANIFEST).is_file())
    return sorted(int(match.group(1)) for match in found if match)


def newest(folder: Path) -> int | None:
    """Step of the newest complete artefact in a folder."""
    return max(steps(folder), default=None)


def prune(folder: Path, keep: int | None, needed: set[int]) -> list[int]:
    """Remove all but the ``keep`` newest and the needed; returns the removed steps. None or -1 keeps all."""
    if keep is None or keep < 0:
        return []
    doomed = [step for step in steps(folder)[:-keep] if step not in needed]
    for step in doomed:
        artefact.remove(folder / step_name(step))
    return doomed
