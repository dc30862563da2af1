"""Scores and losses as pure functions of vectors, scores and masks: no model, no configuration, no collective."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  (the name that every reader of PyTorch expects)
from torch import Tensor

Temperature = Tensor | float
# Score of what is not there: finite, for a gradient of 0 times infinity is nan.
NOTHING = -1e30


def best_chunk(queries: Tensor, documents: Tensor, there: Tensor) -> Tensor:
    """Score of every pair: the inner product with the document's best chunk (ANCE MaxP, section 4).

    queries: [queries, width]; documents: [documents, chunks, width]; there: [documents, chunks] bool,
    false for padding, which never wins. Returns [queries, documents]; NOTHING for a document without any.
    """
    scores = queries @ documents.flatten(0, 1).T  # [queries, documents * chunks]
    scores = scores.masked_fill(~there.flatten(), NOTHING)
    return scores.unflatten(1, there.shape).amax(dim=2)


def contrastive(scores: Tensor, target: Tensor, allowed: Tensor, temperature: Temperature = 1.0) -> Tensor:
    """-log softmax of each row's positive among its allowed candidates.

    scores: [rows, candidates]; target: [rows] column of the positive; allowed: [rows, candidates]
    bool, true for the positive and what opposes it. With one opponent this is ANCE's pairwise loss
    -log sigmoid(s+ - s-) (ANCE section 3). Rows are queries and candidates documents, or, in the
    dual task, the other way round (DANCE section 3). Returns the loss per row: [rows].
    """
    logits = (scores / temperature).masked_fill(~allowed, -torch.inf)  # [rows, candidates]
    return F.cross_entropy(logits, target, reduction="none")


def alignment(queries: Tensor, documents: Tensor, there: Tensor) -> Tensor:
    """|q - d+|^2 of every pair, d+ being the chunk of the positive that q scores best.

    queries: [pairs, width]; documents: [pairs, chunks, width]; there: [pairs, chunks]. Returns [pairs].
    """
    scores = torch.einsum("pw,pcw->pc", queries, documents).masked_fill(~there, NOTHING)
    best = scores.argmax(dim=1)  # [pairs]
    chosen = documents[torch.arange(len(best), device=best.device), best]  # [pairs, width]
    return (queries - chosen).square().sum(dim=1)


def uniformity(vectors: Tensor, pairs: Tensor, sharpness: float = 5.0) -> Tensor:
    """log E exp(-sharpness |x - y|^2) over the pairs of different texts; lower is more evenly spread.

    vectors: [n, width]; pairs: [n, n] bool, true for what counts. Returns [], 0 where nothing counts.
    """
    squares = vectors.square().sum(dim=1)  # [n]
    distances = squares[:, None] + squares[None, :] - 2 * vectors @ vectors.T  # [n, n]
    exponents = (-sharpness * distances).masked_fill(~pairs, NOTHING)
    count = pairs.sum().to(vectors.dtype)
    return (exponents.flatten().logsumexp(dim=0) - count.clamp(min=1).log()) * (count > 0)


def margin_mse(scores: Tensor, teacher: Tensor, target: Tensor, taught: Tensor) -> Tensor:
    """Mean over a row's taught opponents of ((s+ - s-) - (t+ - t-))^2, 0 for a row without any.

    scores, teacher: [rows, candidates], both on one scale; target: [rows] column of the positive;
    taught: [rows, candidates] bool, true for candidates that the teacher scored. Returns [rows].
    """
    column = target[:, None]  # [rows, 1]
    pairs = taught & taught.gather(1, column)  # the positive must be taught as well
    pairs = pairs.scatter(1, column, False)
    gap = (scores.gather(1, column) - scores) - (teacher.gather(1, column) - teacher)  # [rows, candidates]
    squares = torch.where(pairs, gap, 0.0).square()
    return squares.sum(dim=1) / pairs.sum(dim=1).clamp(min=1)


def divergence(scores: Tensor, teacher: Tensor, taught: Tensor) -> Tensor:
    """KL(teacher || student) of the softmax over a row's taught candidates, 0 where fewer than two are.

    scores, teacher: [rows, candidates]; taught: [rows, candidates] bool. Returns [rows].
    """
    kept = taught & (taught.sum(dim=1, keepdim=True) > 1)
    lowest = torch.finfo(scores.dtype).min  # finite: a row without any would have gradients of nan
    student = scores.masked_fill(~kept, lowest).log_softmax(dim=1)  # [rows, candidates]
    wanted = teacher.masked_fill(~kept, lowest).log_softmax(dim=1)
    return torch.where(kept, wanted.exp() * (wanted - student), 0.0).sum(dim=1)
