"""One Inferencer rank: put the parts together, refresh, leave with an exit code that says how it went."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from dance import artefact
from dance.config import Config
from dance.corpus.prepare import Prepared
from dance.entry import enter, started
from dance.exchange import open_publisher, open_subscriber
from dance.paths import RunPaths
from dance.progress import Reporter
from dance.stopping import STOPPED, Stop
from dance.tracking import Tracker
from dance.world import World

from .context import Context
from .loop import Loop
from .passes import Passes
from .refresh import Refresher


def main() -> None:
    """Exit codes: 0 refreshed to the end, 143 asked to stop, 2 bad input, 1 anything else."""
    enter("inferencer", infer)


def infer(run: RunPaths) -> int:
    """From the first encoder to the last, or to a requested stop. Returns the exit code."""
    with started("inferencer", run) as (settings, world, stop), ExitStack() as stack:
        if world.leads:
            artefact.sweep(run.negatives)
        loop = _assemble(settings, run, world, stop, stack)
        complete = loop.run()
        loop.leave(complete)
        return 0 if complete else STOPPED


def _assemble(settings: Config, run: RunPaths, world: World, stop: Stop, stack: ExitStack) -> Loop:
    prepared = Prepared.open(Path(settings.prepared or ""))
    prepared.check(settings)
    documents = len(prepared.collection.document_ids)
    if world.size > documents:
        raise ValueError(
            f"{world.size} Inferencer processes for {documents} documents: lower launch.inferencer_processes"
        )
    reporter = Reporter("inferencer", run.status("inferencer"), world.leads)
    context = Context(settings, world, run, prepared, reporter, stop)
    context.check()
    subscriber = stack.enter_context(open_subscriber(settings, run, "encoders")) if world.leads_node else None
    publisher = stack.enter_context(open_publisher(settings, run, "negatives")) if world.leads else None
    tracker = Tracker(run.metrics("inferencer"), run.tensorboard, world.leads)
    stack.callback(tracker.close)
    refresher, passes = Refresher(context), Passes(context)
    return Loop(settings, world, run, refresher, passes, publisher, subscriber, tracker, reporter, stop)
