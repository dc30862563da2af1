"""What the data gives to learn from beside judgements: negatives, and a teacher's scores."""

from __future__ import annotations

from ..config import Config
from ..corpus.collection import Collection


def require(collection: Collection, config: Config) -> None:
    """Raises ValueError where the settings ask for what the training split does not have."""
    require_given(collection, config)
    require_teacher(collection, config)


def require_given(collection: Collection, config: Config) -> None:
    """Raises ValueError where ``sources.given`` asks for negatives that the training split does not have."""
    split, negatives = config.data.train_split, config.negatives
    if negatives.per_example and config.sources.given and split not in collection.given:
        raise ValueError(
            f"sources.given={config.sources.given}: the data gives no negatives for split {split!r}; set it to 0, or "
            f"add negatives/{split}.tsv"
        )


def require_teacher(collection: Collection, config: Config) -> None:
    """Raises ValueError where ``loss.distill`` asks for scores that the training split does not have."""
    split = config.data.train_split
    if config.loss.distill == "none" or collection.teacher.get(split) is not None:
        return
    there = ", ".join(sorted(collection.teacher)) or "none"
    raise ValueError(
        f"loss.distill={config.loss.distill} needs a teacher's scores of data.train_split={split!r}; splits that have "
        f"some: {there}. A BEIR folder has them in teacher/{split}.tsv (query-id, corpus-id, score); or set "
        "loss.distill=none"
    )
