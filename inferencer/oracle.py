"""How fresh the negatives in use still are: the share that the present encoder ranks among its first.

ANCE's paper calls what the present encoder would mine the oracle negatives, and shows that share to grow
towards one while training converges.
"""

from __future__ import annotations

import numpy as np

from dance.encoder.model import Encoder
from dance.mining.draw import permutation
from dance.mining.lists import member
from dance.search.neighbours import NONE

from .context import Context
from .corpus import Corpus
from .former import Former
from .vectors import encode_queries
from .window import Window

_SAMPLE = 256  # queries of the former table that are looked at


def oracle_overlap(
    context: Context, encoder: Encoder, corpus: Corpus, about: Window, before: Former | None, step: int
) -> float | None:
    """At rank 0, over a seeded sample of the former table's queries. A collective.

    None elsewhere, and where there is nothing to add: the queries of the refresh are in the former table,
    so that mining compares them all, or a slice of the corpus is searched, whose first are not the first.
    """
    if before is None or not len(before.documents) or context.config.parts > 1 or not corpus.documents:
        return None
    keys = before.documents.keys
    if np.isin(about.queries, keys).any():
        return None
    chosen = np.sort(keys[permutation(len(keys), context.config.seed, step)[:_SAMPLE]])
    asked = encode_queries(context, encoder, chosen)
    found = corpus.search(asked.of(chosen), context.config.depth, to=0)
    if found is None:
        return None
    negatives = before.documents.padded(chosen)  # [sample, most]
    there = negatives != NONE
    return float(member(negatives, found.rows)[there].sum() / max(1, there.sum()))
