"""The `run` verb: prepare, start both roles, watch, report; once, or once per stage."""

from __future__ import annotations

import time
from collections.abc import Sequence

from dance.config import Config
from dance.paths import newest

from . import stages, terminal
from .compose import compose
from .picture import measured
from .prepare import Ready, ready
from .report import report
from .supervise import DONE, Outcome, supervise
from .view import watching


def main(arguments: Sequence[str]) -> int:
    """0 done, 1 a role failed, 128 + N stopped by signal N. Raises ValueError for bad input."""
    staged = stages.asked(arguments)
    return one(compose(arguments)).code if staged is None else stages.follow(*staged, one)


def one(config: Config, later: Sequence[Config] = ()) -> stages.Ended:
    """A run from start to end; ``later`` are the stages that follow it."""
    began = time.monotonic()
    with ready(config, True, later) as made:
        for role in made.plans:
            terminal.say(role.where)
        _tell_sharing(made)
        outcome = _supervised(made)
        if outcome.code == DONE:
            report(made.config, made.paths, made.text.bm25, time.monotonic() - began, brief=bool(later))
            if made.config.schedule == "static":
                _score_last(made)
        elif outcome.code > 128:
            terminal.say(outcome.message)
        else:
            terminal.fail(outcome.message)
        return stages.Ended(outcome.code, made.text.bm25)


def _score_last(made: Ready) -> None:
    """Under schedule=static the Inferencer is gone by then."""
    from . import evaluate

    terminal.show("\nthe trained encoder on held-out queries:")
    evaluate.main([f"run={made.paths.root}", f"step={newest(made.paths.encoders)}"])


def _supervised(made: Ready) -> Outcome:
    bm25 = measured(made.text.bm25, "ndcg@10") if made.text.bm25 else None
    whole, root = made.paths.whole, made.paths.root
    name = root.name if whole == root else f"{whole.name}/{root.name}"
    with watching(made.paths, f"dance {name}", bm25) as tick:
        grace = made.config.launch.grace_seconds
        return supervise(made.plans, made.paths, made.lock, grace, tick, terminal.say)


def _tell_sharing(made: Ready) -> None:
    trainer, inferencer = (set(role.gpus) for role in made.plans)
    if both := trainer & inferencer:
        terminal.say(f"GPU {', '.join(sorted(both))}: shared by both roles, which take turns on it")
    terminal.say(f"logs: {made.paths.logs}")
