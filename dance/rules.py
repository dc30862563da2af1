"""What settings must fulfil together. Each rule raises ValueError that names the keys and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import refresh_rules

if TYPE_CHECKING:
    from .config import Config

# Bounds of a learnt temperature: wide enough for cosines and for inner products, and finite in the softmax.
COLDEST, HOTTEST = 1e-3, 1e3


def no_contrast(config: Config) -> None:
    in_batch = config.loss.in_batch and (config.train.batch > 1 or config.loss.across_ranks)
    if config.negatives.per_example == 0 and not in_batch:
        raise ValueError(
            "no negatives to contrast with: negatives.per_example=0 needs loss.in_batch=true and "
            "train.batch of at least 2, otherwise the loss is 0 from the first step"
        )
    if config.negatives.cold_start == "in_batch" and config.train.batch < 2:
        raise ValueError("negatives.cold_start=in_batch needs train.batch of at least 2; or set it to wait")
    if config.loss.dual_weight and config.negatives.queries_per_example == 0 and not in_batch:
        raise ValueError(
            "loss.dual_weight is over 0, but no query opposes a document's: raise negatives.queries_per_example to 1, "
            "or set loss.in_batch=true with train.batch of at least 2; or set loss.dual_weight=0"
        )
    if config.loss.across_ranks and not config.loss.in_batch:
        raise ValueError("loss.across_ranks=true widens in-batch documents: set loss.in_batch=true as well")


def weights(config: Config) -> None:
    """From the first step on there must be something to learn from."""
    loss = config.loss
    distill = loss.distill_weight if loss.distill != "none" else 0.0
    steady = loss.q2d_weight + distill + loss.alignment + loss.uniformity
    if not steady + loss.dual_weight:
        raise ValueError(
            "nothing is learnt: loss.q2d_weight, loss.dual_weight, loss.alignment and loss.uniformity are 0, and no "
            "loss.distill has a weight: raise one of them, loss.q2d_weight=1 for document retrieval"
        )
    if not steady and loss.dual_ramp_steps:
        raise ValueError(
            "loss.dual_weight is all that is learnt from, so that it cannot rise from 0: set loss.dual_ramp_steps=0, "
            "or raise loss.q2d_weight"
        )
    if loss.learn_temperature and not loss.q2d_weight + loss.dual_weight + distill:
        raise ValueError(
            "loss.learn_temperature=true, but nothing that is learnt has a temperature: set it to false, or raise "
            "loss.q2d_weight"
        )


def temperature(config: Config) -> None:
    if config.loss.learn_temperature and not COLDEST <= config.loss.temperature <= HOTTEST:
        raise ValueError(
            f"loss.temperature={config.loss.temperature} cannot be learnt from: a learnt one stays between {COLDEST} "
            f"and {HOTTEST}; set loss.learn_temperature=false to keep it fixed"
        )


def schedule(config: Config) -> None:
    train = config.train
    if train.warmup == "single" and train.warmup_steps > train.steps:
        raise ValueError(
            f"train.warmup_steps={train.warmup_steps} exceeds train.steps={train.steps}: the learning rate would "
            "never reach its peak; lower the first or raise the second"
        )


def sources(config: Config) -> None:
    """Nothing can be drawn from no source; how many are drawn is ``negatives.per_example``'s to say."""
    wanted = config.negatives.per_example or (config.loss.dual_weight and config.negatives.queries_per_example)
    source = config.sources
    if wanted and not source.ann + source.bm25 + source.random + source.given + config.draw.lookahead:
        raise ValueError(
            "negatives are asked for, but all of sources.ann, sources.bm25, sources.random and sources.given are 0: "
            "raise one, or set negatives.per_example=0 negatives.queries_per_example=0 loss.in_batch=true"
        )


def query_sources(config: Config) -> None:
    """The data gives negative documents, never negative queries."""
    loss, source = config.loss, config.sources
    asked = loss.dual_weight and config.negatives.queries_per_example and not loss.in_batch
    if asked and not source.ann + source.bm25 + source.random + config.draw.lookahead:
        raise ValueError(
            "loss.dual_weight needs queries that oppose a document's, and sources.given has none: set sources.ann, "
            "bm25 or random as well (stages.NAME.sources.ann=1 for a stage alone), or loss.in_batch=true"
        )


def staleness(config: Config) -> None:
    bound = config.negatives.max_staleness
    if bound is None:
        return
    if config.schedule != "async":
        raise ValueError(
            f"negatives.max_staleness is for schedule=async; schedule={config.schedule} has its own rule: set "
            "it to null"
        )
    if bound < config.handover.every - 1:
        raise ValueError(
            f"negatives.max_staleness={bound} would deadlock: negatives are made of encoders handed over every "
            f"{config.handover.every} steps, so that they lag up to {config.handover.every - 1}; raise it, or "
            "lower handover.every"
        )


def kept(config: Config) -> None:
    for name in ("handover", "checkpoint"):
        keep = getattr(config, name).keep
        if keep is not None and keep != -1 and keep < 1:
            raise ValueError(f"{name}.keep={keep}: keep at least 1, or null (or -1) to keep all")


def draw(config: Config) -> None:
    if config.negatives.sample > config.negatives.topk:
        raise ValueError(
            f"negatives.sample={config.negatives.sample} cannot be drawn from negatives.topk="
            f"{config.negatives.topk} candidates: lower the first or raise the second"
        )
    dual = bool(config.loss.dual_weight)
    for key, owner, used in (("per_example", "a query", True), ("queries_per_example", "a document", dual)):
        if used and getattr(config.negatives, key) > config.negatives.sample:
            raise ValueError(
                f"negatives.{key}={getattr(config.negatives, key)} exceeds negatives.sample="
                f"{config.negatives.sample}, the negatives that {owner} has"
            )
    if config.filters.skip >= config.negatives.topk:
        raise ValueError(
            f"filters.skip={config.filters.skip} leaves nothing of negatives.topk={config.negatives.topk} candidates: "
            "lower the first or raise the second"
        )
    if config.draw.momentum and config.negatives.queries_per_refresh < 1:
        raise ValueError(
            f"draw.momentum={config.draw.momentum} keeps a part of the former table, which holds other queries: set "
            "negatives.queries_per_refresh=1, or draw.momentum=0"
        )
    if config.draw.momentum == 1:
        raise ValueError(
            "draw.momentum=1 takes all from the former table, and the first refresh has none: set it below 1, or to 0 "
            "to draw all anew"
        )
    if config.draw.momentum + config.draw.lookahead > 1:
        raise ValueError("draw.momentum and draw.lookahead are shares of one draw: together at most 1")
    if config.negatives.queries_per_refresh <= 0:
        raise ValueError("negatives.queries_per_refresh must be over 0: no query would ever have negatives")


def batches(config: Config) -> None:
    """Groups are hard because their documents oppose each other, and come whole."""
    if config.batches.how == "ordinary":
        return
    if not config.loss.in_batch:
        raise ValueError(
            "batches.how=hard_groups makes the documents of a batch oppose each other: set loss.in_batch=true as "
            "well, or batches.how=ordinary"
        )
    if config.batches.group_size > config.train.batch:
        raise ValueError(
            f"batches.group_size={config.batches.group_size} pairs do not fit into train.batch={config.train.batch} "
            "examples: lower the first or raise the second"
        )


def text(config: Config) -> None:
    if config.data.format == "beir" and config.data.path is None:
        raise ValueError("data.format=beir needs data.path=FOLDER with corpus.jsonl, queries.jsonl and qrels/")
    if config.data.train_split == config.data.dev_split:
        raise ValueError(
            f"data.train_split and data.dev_split are both {config.data.dev_split!r}: what is learnt from cannot "
            "be held out"
        )
    for key in ("query_max_tokens", "document_max_tokens"):
        if getattr(config.model, key) < 4:
            raise ValueError(f"model.{key} leaves no room for text between the special tokens: at least 4")


ALL = (
    no_contrast, weights, temperature, schedule, sources, query_sources, staleness, kept, draw,
    refresh_rules.shares, refresh_rules.refresh, refresh_rules.evaluate, batches, text,
)  # fmt: skip
