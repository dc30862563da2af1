"""Settings that make no sense together: each is refused by its key, with a remedy."""

import pytest

from dance import config

DUAL = {"dual_weight": 0.1}
NO_SOURCE = {"ann": 0.0}
GIVEN = {"ann": 0.0, "given": 1.0}
SLICED = {"refresh": {"fraction": 0.05}, "evaluate": {"every": 10_000}}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"loss": DUAL, "negatives": {"queries_per_example": 0}}, "no query opposes a document's.*queries_per_example"),
        (
            {"loss": {**DUAL, "in_batch": True}, "negatives": {"queries_per_example": 0}, "train": {"batch": 1}},
            "no query opposes",
        ),
        ({"loss": {"learn_temperature": True, "temperature": 1e4}}, "loss.temperature=10000.* stays between"),
        ({"train": {"steps": 10, "warmup_steps": 11}}, "train.warmup_steps=11 exceeds train.steps=10"),
        ({"train": {"layer_decay": 0}}, "train.layer_decay"),
        ({"train": {"layer_decay": 1.5}}, "train.layer_decay"),
        ({"sources": NO_SOURCE}, "sources.ann.* are 0: raise one"),
        (
            {"sources": NO_SOURCE, "negatives": {"per_example": 0}, "loss": {**DUAL, "in_batch": True}},
            "negatives.queries_per_example=0",
        ),
        ({"draw": {"momentum": 0.3}}, "negatives.queries_per_refresh=1"),
        (
            {"draw": {"momentum": 1.0}, "negatives": {"queries_per_refresh": 1.0}},
            "draw.momentum=1 .*first refresh has none: set it below 1",
        ),
        ({"loss": DUAL, "sources": GIVEN}, "loss.dual_weight needs queries.*sources.given has none: set sources.ann"),
        ({"loss": {"q2d_weight": 0}}, "nothing is learnt: .*raise one of them"),
        ({"loss": {"q2d_weight": 0, "distill": "kl", "distill_weight": 0}}, "nothing is learnt"),
        ({"loss": {"q2d_weight": 0, **DUAL, "dual_ramp_steps": 5}}, "set loss.dual_ramp_steps=0"),
        ({"loss": {"q2d_weight": 0, "alignment": 1, "learn_temperature": True}}, "nothing .* has a temperature"),
        ({"loss": {"q2d_weight": -1}}, "loss.q2d_weight"),
        ({"train": {"lamb_bound": 0}}, "train.lamb_bound"),
        (
            {"draw": {"momentum": 0.6, "lookahead": 0.6}, "negatives": {"queries_per_refresh": 1.0}},
            "together at most 1",
        ),
        ({"batches": {"how": "hard_groups"}, "train": {"batch": 16}}, "set loss.in_batch=true as well"),
        (
            {"batches": {"how": "hard_groups", "group_size": 9}, "loss": {"in_batch": True}, "train": {"batch": 8}},
            "batches.group_size=9 .*train.batch=8",
        ),
        ({"filters": {"skip": 200}}, "filters.skip=200 leaves nothing"),
        ({"loss": DUAL, "negatives": {"queries_per_example": 21}}, "queries_per_example=21 exceeds negatives.sample"),
        ({"refresh": {"fraction": 0.05}}, "refresh.fraction=0.05 lets no refresh see.*set evaluate.every"),
        (
            {"negatives": {"queries_per_refresh": 0.4}},
            "queries_per_refresh=0.4 does not .*: set it to 0.5 or 0.3333",
        ),
        ({"refresh": {"fraction": 0.8}}, "refresh.fraction=0.8 does not cut .*: set it to 1 or 0.5"),
        (
            {**SLICED, "refresh": {"fraction": 0.01}},
            "leaves 2 of negatives.topk=200 .* raise negatives.topk to 400, or refresh.fraction to 0.02",
        ),
        ({**SLICED, "filters": {"skip": 195}}, "filters.skip=195 leaves nothing of the 10 candidates of a slice"),
        (
            {**SLICED, "filters": {"margin": 0.1}, "sources": {"bm25": 1.0}},
            "filters.margin goes by the encoder's scores",
        ),
        ({**SLICED, "draw": {"how": "simans"}, "sources": {"random": 1.0}}, "what sources.random gives has none"),
        ({**SLICED, "negatives": {"per_example": 11}}, "negatives.per_example=11 exceeds the 10 candidates of a slice"),
        ({"evaluate": {"every": 15_000}}, "evaluate.every=15000 must be a multiple of handover.every=10000.* to 20000"),
        ({"evaluate": {"every": 10_000, "fraction": 0.1}}, "evaluate.fraction=0.1 is for refreshes that do not see"),
    ],
)
def test_nonsense_is_refused_by_key(plain, message):
    with pytest.raises(ValueError, match=message):
        config.from_plain(plain)


@pytest.mark.parametrize(
    "plain",
    [
        {"loss": {**DUAL, "in_batch": True}, "negatives": {"queries_per_example": 0}},
        {"loss": {"uniformity": 1.0, "alignment": 1.0}},  # without unit vectors they mean something still
        {"loss": {"learn_temperature": True, "temperature": 0.01}},
        {"loss": {"q2d_weight": 0, "distill": "margin_mse", "learn_temperature": True}},
        {"loss": {"q2d_weight": 0, **DUAL}},
        {"loss": {**DUAL, "in_batch": True}, "sources": GIVEN},
        {"loss": DUAL, "sources": {"given": 1.0, "random": 1.0, "ann": 0.0}},
        {"loss": DUAL, "sources": GIVEN, "draw": {"lookahead": 0.5}},
        {"draw": {"momentum": 0.99}, "negatives": {"queries_per_refresh": 1.0}},
        {"train": {"steps": 10, "warmup_steps": 11, "warmup": "per_refresh"}},
        {"sources": NO_SOURCE, "negatives": {"per_example": 0, "queries_per_example": 0}, "loss": {"in_batch": True}},
        {"sources": NO_SOURCE, "draw": {"lookahead": 1.0}},
        {"draw": {"momentum": 0.3}, "negatives": {"queries_per_refresh": 1.0}},
        {"batches": {"how": "hard_groups", "group_size": 8}, "loss": {"in_batch": True}, "train": {"batch": 8}},
        {"negatives": {"queries_per_example": 50}},  # not used without the dual task
        {**SLICED, "evaluate": {"every": 20_000, "fraction": 0.1}},
        {**SLICED, "negatives": {"per_example": 11}, "sources": {"bm25": 1.0}},
        {"evaluate": {"every": 20_000}},
        {  # nothing is drawn from the slice
            **SLICED,
            "refresh": {"fraction": 0.01},
            "negatives": {"per_example": 0},
            "loss": {"in_batch": True},
        },
    ],
)
def test_what_makes_sense_is_taken(plain):
    config.from_plain(plain)
