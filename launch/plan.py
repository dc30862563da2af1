"""What to start, and where: a pure function of the settings and the machine.

GPUs are split 1:1 between the roles (the Trainer gets the odd one); a single GPU is shared. On CPU
each role has one process and the cores are divided among all processes.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from dance.config import Config
from dance.paths import Role, RunPaths

from .machine import Machine

ROLES: tuple[Role, ...] = ("trainer", "inferencer")
# Seconds that the other ranks of a role have in which one failed. A stop, a user's or one for the other role's
# failure, does not pass through torchrun, so that this may be short.
FAILED_ROLE_SECONDS = 3


@dataclass(frozen=True)
class RolePlan:
    """One torchrun call."""

    role: Role
    argv: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)  # added to the launcher's own
    output: Path = Path("/dev/null")  # torchrun's and all ranks' stdout and stderr
    processes: int = 1
    gpus: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """For a person: "trainer: 2 processes on GPU 0, 1, 4 threads each"."""
        count = "1 process" if self.processes == 1 else f"{self.processes} processes"
        threads = self.environment["OMP_NUM_THREADS"]
        place = f"GPU {', '.join(self.gpus)}" if self.gpus else "CPU"
        return f"{self.role}: {count} on {place}, {threads} thread{'s' * (threads != '1')} each"


def plan(config: Config, paths: RunPaths, machine: Machine) -> tuple[RolePlan, ...]:
    """Both roles. Raises ValueError where the machine cannot hold what the settings ask for."""
    counts = _processes(config, machine)
    threads = config.launch.threads or max(1, machine.cores // sum(counts))
    devices = _devices(counts, machine)
    return tuple(_role_plan(role, count, gpus, threads, paths) for role, count, gpus in zip(ROLES, counts, devices))


def by_hand(config: Config, plans: tuple[RolePlan, ...]) -> list[str]:
    """Shell commands that start the roles without the launcher."""
    return [
        f"{_shown(plan.environment)} torchrun --standalone --nproc-per-node {plan.processes} "
        f"-m {plan.role} {shlex.quote(config.run_dir or '')}"
        for plan in plans
    ]


def _shown(environment: dict[str, str]) -> str:
    """What decides where a role runs, as a shell takes it."""
    return " ".join(
        f"{key}={environment[key]}" for key in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS") if key in environment
    )


def _processes(config: Config, machine: Machine) -> tuple[int, int]:
    trainer, inferencer = config.launch.trainer_processes, config.launch.inferencer_processes
    gpus = len(machine.gpus)
    if gpus == 0:
        return trainer or 1, inferencer or 1
    half = gpus - gpus // 2
    trainer = trainer or (max(1, gpus - inferencer) if inferencer else half)
    inferencer = inferencer or max(1, gpus - trainer)
    for key, count in (("trainer_processes", trainer), ("inferencer_processes", inferencer)):
        if count > gpus:
            raise ValueError(f"launch.{key}={count}, but {gpus} GPUs are visible: a GPU holds one process per role")
    return trainer, inferencer


def _devices(counts: tuple[int, int], machine: Machine) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The Trainer from the front, the Inferencer from the back: shared only where they must meet."""
    if not machine.gpus:
        return (), ()
    return machine.gpus[: counts[0]], machine.gpus[-counts[1] :]


def _role_plan(role: Role, count: int, gpus: tuple[str, ...], threads: int, paths: RunPaths) -> RolePlan:
    environment = {"OMP_NUM_THREADS": str(threads), "PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
    if gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "0")
    # Ranks write to files that torchrun repeats, each line with its rank: nothing is lost with torchrun.
    logging = ("--role", role, "--tee", "3", "--log-dir", str(paths.logs / "torchrun"))
    size = ("--nproc-per-node", str(count), "--shutdown-timeout", str(FAILED_ROLE_SECONDS))
    argv = (*torchrun, *size, *logging, "-m", role, str(paths.root))
    return RolePlan(role, argv, environment, paths.logs / f"{role}.log", count, gpus)
