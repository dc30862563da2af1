"""What the data gives to learn from beside judgements: a teacher's scores."""

from __future__ import annotations

from ..config import Config
from ..corpus.collection import Collection


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
