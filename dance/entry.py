"""The outermost frames of a role's process: arguments in, what every role needs, exit code out."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from . import config, log
from .config import Config
from .paths import Role, RunPaths
from .stopping import Stop, hold_lock
from .world import World, joined, leave, node

logger = logging.getLogger(__name__)


def enter(role: Role, work: Callable[[RunPaths], int]) -> NoReturn:
    """``torchrun -m ROLE RUN``. Exit codes: ``work``'s own, 2 bad input, 1 any other failure.

    What a person can act on ends in one message, what nobody foresaw in its traceback.
    """
    if len(sys.argv) != 2:
        sys.exit(f"usage: torchrun --nproc-per-node N -m {role} RUN_DIR")
    try:
        code = work(RunPaths(Path(sys.argv[1]).resolve(), node()))
    except ValueError as error:
        logger.error("%s", error)
        code = 2
    except (ConnectionError, TimeoutError, FloatingPointError) as error:
        logger.error("%s", error)
        code = 1
    except Exception:
        logger.exception("the %s failed", role)
        code = 1
    leave(code)


@contextmanager
def started(role: Role, run: RunPaths) -> Iterator[tuple[Config, World, Stop]]:
    """The settings, this rank's place among the others, and the ear for a request to stop.

    Raises ValueError for a folder that is none of a run, or in use by the same role.
    """
    settings = config.read(run.config)
    stop = Stop(settings.launch.grace_seconds)
    with joined(settings.launch.collective_timeout_seconds) as world:
        log.start(role, world.rank, run.log(role, world.rank))
        logger.info("started: rank %d of %d on %s, pid %d", world.rank, world.size, world.device, os.getpid())
        if world.leads:
            hold_lock(run.lock(role))
        yield settings, world, stop
