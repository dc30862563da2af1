"""Refreshes of a slice of the corpus: what is searched, what is drawn, and that it does not depend on the ranks."""

from __future__ import annotations

from math import comb, sqrt
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from dance.encoder.store import EmbeddingShard
from dance.paths import RunPaths
from dance.world import joined
from inferencer.corpus import Corpus
from inferencer.documents import DocumentMiner
from inferencer.evaluate import sample
from inferencer.timing import Seconds
from inferencer.vectors import Queries
from inferencer.window import window
from tests.refreshing import (
    DUAL,
    ENCODE,
    MAXP,
    best_chunks,
    context,
    encoded,
    make_home,
    make_ready,
    refresh,
    same,
    table,
    untimed,
)
from tests.running import small_corpus
from tests.threads import together
from tests.tiers import others_slow
from tests.tiny import tiny_bert

SLICED = {"refresh": {"fraction": 0.25}, "evaluate": {"every": 20}}
LONG = {"document_max_tokens": 48}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"loss": {}, "model": LONG},
    "maxp_dual_margin": {"filters": {"margin": 0.0}},
    "interim": {"evaluate": {"every": 20, "fraction": 0.3}, "loss": {}},
    "mixture": {"sources": {"ann": 1.0, "bm25": 0.5, "random": 0.5, "given": 0.25}, "filters": {"hubs": 4}},
    "bm25_alone": {"sources": {"ann": 0.0, "bm25": 1.0}},
    "simans": {"draw": {"how": "simans"}, "loss": {}},
    "tele": {"draw": {"lookahead": 0.3, "momentum": 0.3}, "negatives": {"queries_per_refresh": 1.0}},
    "groups": {"batches": {"how": "hard_groups", "group_size": 3}, "loss": {"in_batch": True}},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("slices"))


def ready(home: Path, name: str, steps: tuple[int, ...] = (0,), **groups: Any) -> RunPaths:
    given = SLICED | {"loss": DUAL, "encode": ENCODE} | groups
    model = {"query_max_tokens": 16, "pooling": "mean", "path": str(home / "model")}
    return make_ready(home, name, steps, **given | {"model": model | given.get("model", MAXP)})


@pytest.mark.parametrize("shape", others_slow(SHAPES, "plain"))
def test_e05_two_ranks_refresh_a_slice_as_one_does(home: Path, shape: str) -> None:
    steps = (0, 10) if shape == "tele" else (10,)
    runs = [ready(home, f"{shape}-{size}", steps, **SHAPES[shape]) for size in (1, 2)]
    records = [[untimed(each) for each in refresh(run, size, steps, False)] for size, run in zip((1, 2), runs)]
    assert records[0] == records[1]
    for step in steps:
        one, two = (table(run, step) for run in runs)
        assert len(one.documents.rows) and same(one.documents, two.documents) and one.facts == two.facts
        assert (one.queries is None) == (two.queries is None)
        assert one.queries is None or (len(one.queries.rows) and same(one.queries, two.queries))  # type: ignore[arg-type]
        assert (one.groups is None) == (two.groups is None) == (shape != "groups")
        assert one.groups is None or np.array_equal(one.groups.queries, two.groups.queries)  # type: ignore[union-attr]
    assert not any(run.evaluation.exists() for run in runs)


def test_every_document_and_training_query_is_searched_once_in_four_refreshes(home: Path) -> None:
    made = together(1, lambda world: context(ready(home, "covered"), world))[0]
    for cycle in range(3):
        windows = [window(made, 4 * cycle + turn, "none") for turn in range(4)]
        for rows, everything in (("searched", np.arange(48)), ("pool", made.qrels.queries)):
            slices = [getattr(each, rows) for each in windows]
            assert sorted(np.concatenate(slices).tolist()) == everything.tolist()
            assert max(map(len, slices)) - min(map(len, slices)) <= 1
    assert windows[0].searched.tolist() != window(made, 4, "none").searched.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("turn", [0, 1])
def test_what_is_drawn_is_the_best_of_the_slice_by_brute_force(home: Path, turn: int) -> None:
    """The five best of it but for the relevant, both ways."""
    run = ready(home, f"brute-{turn}", (0, 10)[: turn + 1])
    refresh(run, 2, (0, 10)[: turn + 1], False)
    scores = best_chunks(*encoded(run, 10 * turn))  # [queries, documents]
    made = together(1, lambda world: context(run, world))[0]
    about, mined, qrels = window(made, turn, "none"), table(run, 10 * turn), made.qrels
    assert about.searched is not None and mined.queries is not None
    assert mined.documents.keys.tolist() == about.queries.tolist()
    assert mined.queries.keys.tolist() == about.keys.tolist()
    for query in about.queries.tolist():
        best = about.searched[np.argsort(-scores[query, about.searched])][:5]
        assert sorted(mined.documents.of(query).tolist()) == np.setdiff1d(best, qrels.relevant(query)).tolist()
    for document in about.keys.tolist():
        best = about.pool[np.argsort(-scores[about.pool, document])][:5]
        expected = [row for row in sorted(best.tolist()) if document not in qrels.relevant(row)]
        assert sorted(mined.queries.of(document).tolist()) == expected


def test_a_margin_holds_against_positives_outside_the_slice(home: Path) -> None:
    run = ready(home, "margin", filters={"margin": 0.0}, loss={})
    record = refresh(run, due=False)[0]
    prepared, chunks, queries = encoded(run)
    scores, drawn, qrels = best_chunks(prepared, chunks, queries), table(run).documents, prepared.collection
    for query, row in zip(drawn.owners().tolist(), drawn.rows.tolist()):
        assert scores[query, row] <= scores[query, qrels.splits["train"].relevant(query)].max() + 1e-5
    assert record["dropped_margin"] > 0 and record["share_above_positive"] == 0.0


def test_only_what_is_compared_is_encoded_beside_the_slice(home: Path) -> None:
    encoded = {
        name: refresh(ready(home, f"cost-{name}", **SHAPES[name]), due=False)[0]["documents_encoded"]
        for name in ("plain", "maxp_dual_margin", "groups")
    }
    made = together(1, lambda world: context(ready(home, "cost"), world))[0]
    about = window(made, 0, "none")
    assert about.searched is not None and not set(about.beside.tolist()) & set(about.searched.tolist())
    assert encoded["plain"] == 12 and encoded["maxp_dual_margin"] == encoded["groups"] == 12 + len(about.beside)


def test_groups_alone_encode_their_own_pairs(home: Path) -> None:
    alone = {"negatives": {"per_example": 0, "queries_per_refresh": 0.25}, "loss": {"in_batch": True}}
    run = ready(home, "alone", **alone, batches={"how": "hard_groups", "group_size": 2})
    record = refresh(run, due=False)[0]
    groups = table(run).groups
    assert groups is not None and record["documents_encoded"] == (groups.queries >= 0).sum() < 12
    assert len(table(run).documents) == 0


def test_where_nothing_is_mined_nothing_is_encoded(home: Path) -> None:
    nothing = {"negatives": {"per_example": 0, "queries_per_refresh": 0.25}, "loss": {"in_batch": True}}
    run = ready(home, "nothing", **nothing)
    about = together(1, lambda world: window(context(run, world), 0, "none"))[0]
    assert not len(about.asked) and refresh(run, due=False)[0]["documents_encoded"] == 0
    assert len(table(run).documents) == 0


def test_candidates_without_a_vector_have_no_score(home: Path) -> None:
    run = ready(home, "unknown", sources={"random": 1.0, "ann": 1.0}, loss={})
    refresh(run, due=False)
    made = together(1, lambda world: context(run, world))[0]
    drawn, about = table(run).documents, window(made, 0, "none")
    assert about.searched is not None
    inside = np.isin(drawn.rows, about.searched)
    assert 0 < inside.sum() < len(inside) and np.array_equal(np.isnan(drawn.scores), ~inside)


def test_short_keys_are_counted_against_what_a_slice_can_give(home: Path) -> None:
    """Lists of five, six negatives asked for: short are those whose own document was in the list."""
    record = refresh(ready(home, "short", loss={}, negatives={"queries_per_refresh": 1.0}), due=False)[0]
    assert record["short_keys"] == record["dropped_positives"] + record["dropped_copies"] < record["keys_mined"]
    assert record["candidates_missing"] == 0 and "overlap_oracle" in record and record["overlap_oracle"] is None


def test_interim_metrics_are_over_a_fixed_sample_and_never_go_by_the_plain_names(home: Path) -> None:
    run = ready(home, "sample", (10, 20), **SHAPES["interim"] | {"data": {"dev_folds": 2}})
    records = refresh(run, 1, (10, 20), False)
    names = {key for key in records[0] if "ndcg" in key or "mrr" in key or "recall" in key}
    assert {"sample_ndcg@10", "sample_select_ndcg@10", "sample_report_mrr@10"} <= names
    assert all(name.startswith("sample_") for name in names)
    made = together(1, lambda world: context(run, world))[0]
    assert set(made.held_out.qrels.documents.tolist()) < set(sample(made).tolist())
    assert 0.3 * 48 <= len(sample(made)) < 48
    due = refresh(ready(home, "due", **SHAPES["interim"]))[0]  # a full pass follows
    assert not [key for key in due if "ndcg" in key]


# -- the distribution of what is drawn, METHODS section 9 ------------------------------------------------------------

DOCUMENTS, PARTS, TOPK, SAMPLE, SEEDS = 400, 10, 100, 4, 80


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, int]:
    """(full rank of every document drawn by sampled refreshes of many seeds, from 0; queries mined in all)."""
    folder = tmp_path_factory.mktemp("draws")
    small_corpus(folder / "corpus", DOCUMENTS)
    tiny_bert(folder / "model")
    negatives = {"topk": TOPK, "sample": SAMPLE, "queries_per_refresh": 1.0}
    run = make_ready(folder, "run", refresh={"fraction": 1 / PARTS}, evaluate={"every": 10}, negatives=negatives)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((DOCUMENTS, 32), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with joined(30.0) as world:
        drawn = [mined(context(run, world), vectors, seed) for seed in range(SEEDS)]
    queries = np.concatenate([each[0] for each in drawn])
    order = np.argsort(np.argsort(vectors @ vectors.T, axis=1), axis=1)  # of query i, document i is its opposite
    return order[queries, np.concatenate([each[1] for each in drawn])], sum(each[2] for each in drawn)


def mined(made: Any, vectors: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(query, document) of every negative of one refresh; query i has the vector opposite to document i's."""
    made.config = msgspec.structs.replace(made.config, seed=seed)
    about = window(made, 0, "none")
    shard = EmbeddingShard(vectors[about.searched], about.searched, Path(), 0)
    corpus = Corpus(shard, len(shard.rows), 1, made.world)
    asked = Queries(np.arange(DOCUMENTS), -vectors)
    (found,) = DocumentMiner(made).mine(corpus, asked, about.queries, None, 0, Seconds())
    return np.repeat(found.keys, found.counts), found.rows, len(found.keys)


def in_the_list(rank: int) -> float:
    """Chance that a document of this full rank, from 0, is among the best TOPK / PARTS of a random slice.

    Of the other documents of the slice so many are better as a hypergeometric draw has it.
    """
    size, depth = DOCUMENTS // PARTS, TOPK // PARTS
    worse, ways = DOCUMENTS - 1 - rank, comb(DOCUMENTS - 1, size - 1)
    return sum(comb(rank, better) * comb(worse, size - 1 - better) for better in range(depth)) / ways / PARTS


def test_ranks_of_the_drawn_are_those_of_the_best_of_random_slices(ranks: tuple[np.ndarray, int]) -> None:
    found, queries = ranks
    expected = queries * SAMPLE / (TOPK / PARTS) * np.array([in_the_list(rank) for rank in range(DOCUMENTS)])
    assert expected.sum() == pytest.approx(len(found)) and len(found) == queries * SAMPLE
    bins = np.arange(0, DOCUMENTS + 1, 10)
    seen, wanted = np.histogram(found, bins)[0], np.add.reduceat(expected, bins[:-1])
    assert (np.abs(seen - wanted) <= 4 * np.sqrt(wanted) + 1).all()


def test_sampled_refreshes_draw_nearly_uniformly_from_the_top_k_of_all(ranks: tuple[np.ndarray, int]) -> None:
    """Against exact uniform draws: the same density at the top, an edge as wide as the binomial spread."""
    found, queries = ranks
    uniform = np.stack([np.random.default_rng(seed).integers(0, TOPK, len(found)) for seed in range(3)])
    spread = sqrt((1 - 1 / PARTS) / (TOPK / PARTS))  # of the rank of the last of the list, as a share of it
    top = TOPK * (1 - 2 * spread)
    here, there = (found < top).mean(), (uniform < top).mean()
    assert here == pytest.approx(there, rel=0.03)
    assert (found < TOPK).mean() >= 1 - spread / sqrt(2 * np.pi) - 0.02  # the mean excess of a normal edge
    assert (found < TOPK * (1 + 4 * spread)).mean() >= 0.9995
    for rank in range(10, DOCUMENTS, 10):
        assert abs((found < rank).mean() - min(1.0, rank / TOPK)) <= spread / sqrt(2 * np.pi) + 0.02
