"""One Trainer rank: put the parts together, train, leave with an exit code that says how it went."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path

from dance import artefact, paths
from dance.config import Config
from dance.corpus.prepare import Prepared
from dance.encoder import backbone, files
from dance.entry import enter, started
from dance.exchange import open_publisher, open_subscriber
from dance.learning import checkpoint, optim
from dance.learning.checkpoint import LoopState
from dance.learning.teaching import require_teacher
from dance.paths import RunPaths, step_name
from dance.progress import Reporter
from dance.stopping import STOPPED, Stop
from dance.tracking import Tracker, forget_after
from dance.world import World

from .encode import Pair
from .handover import Handover
from .loop import Loop
from .negatives import Negatives
from .objective import Objective
from .step import Stepper

logger = logging.getLogger(__name__)


def main() -> None:
    """Exit codes: 0 trained to the end, 143 asked to stop and saved, 2 bad input, 1 anything else."""
    enter("trainer", train)


def train(run: RunPaths) -> int:
    """From start or checkpoint to the last step, or to a requested stop. Returns the exit code."""
    with started("trainer", run) as (settings, world, stop), ExitStack() as stack:
        if world.leads:
            for folder in (run.encoders, run.checkpoints):
                artefact.sweep(folder)
        loop = _assemble(settings, run, world, stop, stack)
        done = loop.run()
        loop.leave(done)
        return 0 if done else STOPPED


def _assemble(settings: Config, run: RunPaths, world: World, stop: Stop, stack: ExitStack) -> Loop:
    """Every part of the loop, at the step where it starts or resumes."""
    prepared = Prepared.open(Path(settings.prepared or ""))
    prepared.check(settings)
    require_teacher(prepared.collection, settings)
    encoder = files.build(settings.model, settings.seed, settings.train.dropout).to(world.device)
    for each in encoder.backbones():
        backbone.for_training(each, world.device)
    pair = Pair(encoder, settings.loss).to(world.device)
    optimizer = optim.build(pair, settings.train)
    state = _resume(settings, run, world, pair, optimizer)
    subscriber = (
        stack.enter_context(open_subscriber(settings, run, "negatives", state.step)) if world.leads_node else None
    )
    publisher = stack.enter_context(open_publisher(settings, run, "encoders")) if world.leads else None
    tracker = Tracker(run.metrics("trainer"), run.tensorboard, world.leads)
    stack.callback(tracker.close)
    reporter = Reporter("trainer", run.status("trainer"), world.leads)
    relevance = prepared.collection.relevance(settings.data.train_split, settings.filters.copies)
    stepper = Stepper(settings, world, pair, optimizer, Objective(settings, world, prepared, relevance))
    negatives = Negatives(settings, world, run, prepared, relevance, subscriber, stop, reporter)
    negatives.start(state.negatives_step)
    handover = Handover(settings, world, run, publisher, subscriber)
    stack.callback(handover.close)  # before the publisher goes
    handover.announce("start", state.negatives_step)
    return Loop(settings, world, run, state, stepper, negatives, handover, tracker, reporter)


def _resume(settings: Config, run: RunPaths, world: World, pair: Pair, optimizer: optim.Optimizer) -> LoopState:
    """The state of the newest checkpoint, or of a start; what a resume would repeat is forgotten."""
    newest = paths.newest(run.checkpoints)
    if newest is None:
        state = LoopState()
    elif settings.resume:
        state = checkpoint.load(run.checkpoints / step_name(newest), pair, optimizer)
        logger.info("resumed at step %d", state.step)
    else:
        raise ValueError(
            f"{run.root} holds checkpoints of an earlier run: continue it with `dance run resume=true run_dir=…` "
            "(roles started by hand: `dance prepare resume=true run_dir=…`, then both again), or choose another run_dir"
        )
    lowest, minus_highest = world.agree_min([state.step, -state.step])
    if lowest != -minus_highest:
        raise ValueError(
            f"ranks found different checkpoints under {run.checkpoints}: all machines of the "
            "Trainer need the same folder to resume"
        )
    if world.leads:
        for later in (step for step in paths.steps(run.encoders) if step > state.step):
            artefact.remove(run.published("encoders", later))
        forget_after(run.metrics("trainer"), state.step)
        forget_after(run.journal, -1 if state.negatives_step is None else state.negatives_step, "negatives_step")
        run.finished.unlink(missing_ok=True)
    return state
