"""Settings that make no sense together: each is refused by its key, with a remedy."""

import pytest

from dance import config

DUAL = {"dual_weight": 0.1}
NO_SOURCE = {"ann": 0.0}


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
            {"draw": {"momentum": 0.6, "lookahead": 0.6}, "negatives": {"queries_per_refresh": 1.0}},
            "together at most 1",
        ),
        ({"filters": {"skip": 200}}, "filters.skip=200 leaves nothing"),
        ({"loss": DUAL, "negatives": {"queries_per_example": 21}}, "queries_per_example=21 exceeds negatives.sample"),
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
        {"train": {"steps": 10, "warmup_steps": 11, "warmup": "per_refresh"}},
        {"sources": NO_SOURCE, "negatives": {"per_example": 0, "queries_per_example": 0}, "loss": {"in_batch": True}},
        {"sources": NO_SOURCE, "draw": {"lookahead": 1.0}},
        {"draw": {"momentum": 0.3}, "negatives": {"queries_per_refresh": 1.0}},
        {"negatives": {"queries_per_example": 50}},  # not used without the dual task
    ],
)
def test_what_makes_sense_is_taken(plain):
    config.from_plain(plain)
