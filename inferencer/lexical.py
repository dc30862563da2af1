"""The BM25 indexes, one file for all ranks of a machine."""

from __future__ import annotations

from functools import partial
from typing import Literal

from dance.search import lexical
from dance.search.bm25 import Index

from .context import Context


def open_index(context: Context, of: Literal["documents", "queries"]) -> Index:
    """A collective: one process of each machine makes it where it is not there, the others wait."""
    collection, split = context.prepared.collection, context.config.data.train_split
    total = len(collection.texts) if of == "documents" else len(context.qrels)
    make = partial(lexical.documents, collection) if of == "documents" else partial(lexical.queries, collection, split)
    context.reporter.begin("index", total, of, message="for BM25")
    if context.world.leads_node:
        make(context.reporter.update)
    context.world.barrier()
    return make()
