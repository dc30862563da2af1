"""Exact search by inner product, streamed over the vectors of one shard.

The same documents in the same order come out however the corpus is cut into shards and blocks.
A matrix product does not give that by itself: its last bits depend on the shapes multiplied, and
at close scores on the k-th place the last bits decide. So Faiss only nominates: a few more than k,
which are scored again pair by pair, in one fixed order of summation, and ranked by that score, then
by row. Where a document that was not nominated could still belong among the k, more are asked for.

A document may own several vectors (MaxP: its chunks): it is ranked by the best of them and comes out
once. The best k vectors may then be of fewer than k documents, so that more vectors are nominated.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from numpy.typing import NDArray

from .neighbours import Neighbours, best, empty

if TYPE_CHECKING:
    import torch

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

GPU_LIMIT = 2048  # results per query that Faiss can select on a GPU
SPARE = (16, 1024)  # nominees beyond k: at first, and where that leaves doubt
OFTEN = 2  # vectors nominated per document at first, where one owns more; all of them where that leaves doubt
log = logging.getLogger(__name__)


def search(
    vectors: Vectors,
    rows: Rows,
    queries: Vectors,
    k: int,
    device: torch.device | None = None,
    block: int = 65_536,
    per_row: int = 1,
) -> Neighbours:
    """The k nearest documents of each query; vectors [N, D] of corpus rows [N], queries [Q, D].

    A row may own up to ``per_row`` of the vectors and comes out once, with the best score of them.
    Reads ``block`` vectors at a time, so that a memory-mapped shard need not fit in memory. Fewer
    than k documents leave fillers (score -inf, row -1). More than SPARE[-1] vectors within
    rounding of the k-th place are cut there arbitrarily. Raises ValueError for k of 0, for no
    documents, and for widths that differ.
    """
    _check(vectors, rows, queries, k)
    found = empty(len(queries), k)
    doubtful = np.arange(len(queries))
    tries = k * min(per_row, OFTEN) + SPARE[0], k * per_row + SPARE[-1]
    gpu = _gpu(device, tries[0])
    if gpu is not None:
        _release_cache()
    for nominees in tries:
        again, unsure = _scan(vectors, rows, queries[doubtful], k, nominees, gpu, block, per_row > 1)
        found.scores[doubtful], found.rows[doubtful] = again
        doubtful = doubtful[unsure]
        if not len(doubtful):
            break
    if len(doubtful):
        log.info("%d queries have over %d vectors that tie for place %d", len(doubtful), SPARE[-1], k)
    return found


def inner_products(queries: Vectors, vectors: Vectors, places: Rows) -> Vectors:
    """Scores [Q, n] of each query [Q, D] with its own places [Q, n] in vectors [N, D], bit for bit as
    ``search`` gives them; -inf at place -1.
    """
    return _scores(np.ascontiguousarray(queries, np.float32), np.ascontiguousarray(vectors, np.float32), places)


def check_k(k: int) -> None:
    """Before the corpus is encoded. Raises ValueError."""
    if k < 1:
        raise ValueError(f"search for k={k} neighbours: at least 1")


def _check(vectors: Vectors, rows: Rows, queries: Vectors, k: int) -> None:
    check_k(k)
    if len(vectors) == 0:
        raise ValueError("search in an empty corpus: there are no documents")
    if len(vectors) != len(rows):
        raise ValueError(f"{len(vectors)} vectors for {len(rows)} rows; encode the corpus again")
    if vectors.shape[1] != queries.shape[1]:
        raise ValueError(f"documents have width {vectors.shape[1]}, queries {queries.shape[1]}: two encoders?")


def _scan(
    vectors: Vectors, rows: Rows, queries: Vectors, k: int, nominees: int, gpu: int | None, block: int, repeats: bool
) -> tuple[Neighbours, NDArray[np.bool_]]:
    """Neighbours, and for which queries a document that was never nominated could be among them."""
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    found = empty(len(queries), k)
    outside = np.full(len(queries), -np.inf, np.float32)  # the best score that one could have
    for start in range(0, len(vectors), block):
        part = np.ascontiguousarray(vectors[start : start + block], dtype=np.float32)  # [block, D]
        rough, places = _nominate(queries, part, min(nominees, len(part)), gpu)
        exact = _scores(queries, part, places)
        if len(part) > nominees:
            error = np.abs(exact - rough).max(axis=1, initial=0) * 4 + np.abs(rough[:, 0]) * 1e-6
            outside = np.maximum(outside, rough[:, -1] + error)
        scores = np.concatenate([found.scores, exact], axis=1)
        found = best(scores, np.concatenate([found.rows, rows[start:][places]], axis=1), k, repeats)
    return found, np.isfinite(outside) & (outside >= found.scores[:, -1])


def _nominate(queries: Vectors, part: Vectors, k: int, gpu: int | None) -> tuple[Vectors, Rows]:
    """Rough scores [Q, k], best first, and places [Q, k] in ``part``."""
    if gpu is not None and k <= GPU_LIMIT:
        try:
            return faiss.knn_gpu(_resources(gpu), queries, part, k, metric=faiss.METRIC_INNER_PRODUCT, device=gpu)
        except RuntimeError as error:
            log.warning("Faiss failed on GPU %d, so this search runs on the CPU: %s", gpu, error)
    return faiss.knn(queries, part, k, metric=faiss.METRIC_INNER_PRODUCT)


def _scores(queries: Vectors, part: Vectors, places: Rows) -> Vectors:
    """Inner products [Q, k] of each query with its own places, each summed in the same order."""
    scores = np.empty(places.shape, dtype=np.float32)
    places = np.ascontiguousarray(places, dtype=np.int64)
    pointers = [faiss.swig_ptr(array) for array in (scores, queries, part, places)]
    faiss.fvec_inner_products_by_idx(*pointers, queries.shape[1], *places.shape)  # type: ignore[attr-defined]
    return scores


def _gpu(device: torch.device | None, nominees: int) -> int | None:
    """Number of the GPU to search on; None is the CPU."""
    if device is None or device.type != "cuda":
        return None
    if faiss.get_num_gpus() == 0:
        log.info("this Faiss has no GPU support, so searches run on the CPU")
        return None
    if nominees > GPU_LIMIT:
        log.info("top %d is over what Faiss selects on a GPU (%d), so searches run on the CPU", nominees, GPU_LIMIT)
        return None
    return device.index or 0


def _release_cache() -> None:
    """What PyTorch keeps for later is memory that Faiss would not get."""
    import torch  # loaded by whoever has a device

    torch.cuda.empty_cache()


@cache
def _resources(gpu: int) -> Any:
    """One per GPU and process: each reserves scratch memory beside PyTorch's."""
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(256 << 20)
    return resources
