"""What a refresh of a slice and evaluations of their own must fulfil; see ``rules``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import Config


def shares(config: Config) -> None:
    """What is cut into slices is cut into a whole number of them."""
    for key, share in (
        ("refresh.fraction", config.refresh.fraction),
        ("negatives.queries_per_refresh", config.negatives.queries_per_refresh),
    ):
        if share > 0 and abs(1 / share - round(1 / share)) > 0.02 / share:
            fewer = math.floor(1 / share)
            raise ValueError(
                f"{key}={share} does not cut into equal slices: set it to {1 / fewer:.4g} or {1 / (fewer + 1):.4g}"
            )


def refresh(config: Config) -> None:
    """A slice of the corpus must be one, and leave something to draw from."""
    share, negatives = config.refresh.fraction, config.negatives
    if share == 1:
        return
    if config.evaluate.every is None:
        raise ValueError(
            f"refresh.fraction={share} lets no refresh see the whole corpus, so that full evaluations need an interval "
            "of their own: set evaluate.every to a multiple of handover.every"
        )
    dual = config.loss.dual_weight > 0 and negatives.queries_per_example > 0
    if (negatives.per_example or dual) and share * negatives.topk < 4:
        raise ValueError(
            f"refresh.fraction={share} leaves {share * negatives.topk:g} of negatives.topk={negatives.topk} candidates "
            f"to a slice, at least 4 are needed: raise negatives.topk to {math.ceil(4 / share)}, or refresh.fraction "
            f"to {4 / negatives.topk:g}"
        )
    if negatives.per_example and config.skip >= config.depth:
        raise ValueError(
            f"filters.skip={config.filters.skip} leaves nothing of the {config.depth} candidates of a slice: lower it, "
            "or raise refresh.fraction or negatives.topk"
        )
    _few(config, dual)
    _unscored(config)


def _few(config: Config, dual: bool) -> None:
    """Where the encoder alone gives candidates, a slice must have as many as an example wants."""
    others = config.sources.bm25 + config.sources.random + config.sources.given + config.draw.momentum
    for key, used in (("per_example", True), ("queries_per_example", dual)):
        wanted = getattr(config.negatives, key)
        if used and not others and wanted > config.depth:
            raise ValueError(
                f"negatives.{key}={wanted} exceeds the {config.depth} candidates of a slice: lower it, or raise "
                "refresh.fraction or negatives.topk"
            )


def _unscored(config: Config) -> None:
    """A slice is all that the encoder has scored; what is weighed by its scores must come from there."""
    source, draw = config.sources, config.draw
    keys = {"filters.margin": config.filters.margin, "filters.relative_margin": config.filters.relative_margin}
    weighing = [key for key, value in keys.items() if value is not None]
    if draw.how in ("softmax", "simans"):
        weighing.append(f"draw.how={draw.how}")
    outside = {"sources.bm25": source.bm25, "sources.random": source.random, "sources.given": source.given}
    others = [key for key, share in (outside | {"draw.momentum": draw.momentum}).items() if share]
    if weighing and others:
        raise ValueError(
            f"{weighing[0]} goes by the encoder's scores, and with refresh.fraction={config.refresh.fraction} what "
            f"{others[0]} gives has none: leave out one of the two, or set refresh.fraction=1"
        )


def evaluate(config: Config) -> None:
    every, handover = config.evaluate.every, config.handover.every
    if every is not None and every % handover:
        raise ValueError(
            f"evaluate.every={every} must be a multiple of handover.every={handover}, since encoders of no other step "
            f"are there to be scored: set it to {max(1, round(every / handover)) * handover}"
        )
    if config.evaluate.fraction is not None and config.refresh.fraction == 1:
        raise ValueError(
            f"evaluate.fraction={config.evaluate.fraction} is for refreshes that do not see the whole corpus: lower "
            "refresh.fraction, or set evaluate.fraction=null"
        )
