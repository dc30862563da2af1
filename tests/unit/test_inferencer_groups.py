"""Groups of a refresh: all pairs of its queries, close ones together, none that answers another's query."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance
from dance.encoder.embed import Interrupted
from dance.mining.groups import form_groups
from dance.paths import RunPaths
from dance.search import flat
from dance.search.neighbours import Neighbours
from inferencer.groups import _nearest, best_chunks
from inferencer.pairs import Pairs
from inferencer.window import window
from tests.refreshing import ENCODE, MAXP, context, encoded, make_home, make_ready, refresh, table
from tests.threads import ThreadWorld, together


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus in which every third training query has the next document too."""
    folder = make_home(tmp_path_factory.mktemp("groups"))
    more = "".join(f"q{i}\td{i + 1}\t1\n" for i in range(0, 45, 3) if i % 5 != 4)
    with (folder / "corpus" / "qrels" / "train.tsv").open("a") as file:
        file.write(more)
    return folder


def ready(home: Path, name: str, **groups: Any) -> RunPaths:
    model = {"query_max_tokens": 16, "pooling": "mean", "path": str(home / "model")} | MAXP
    batches = {"batches": {"how": "hard_groups", "group_size": 3}, "loss": {"in_batch": True}}
    return make_ready(home, name, **batches | {"encode": ENCODE, "model": model} | groups)


@pytest.mark.parametrize("fraction", [1.0, 0.25])
def test_every_pair_of_the_window_is_in_one_group(home: Path, fraction: float) -> None:
    run = ready(home, f"pairs-{fraction}", refresh={"fraction": fraction}, evaluate={"every": 20})
    record = refresh(run, 2, due=False)[0]
    made, groups = together(1, lambda world: context(run, world))[0], table(run).groups
    assert groups is not None and record["groups"] == len(groups) and record["group_seconds"] > 0
    queries, positives = made.qrels.subset(window(made, 0, "none").queries).pairs()
    there = groups.queries >= 0
    found = sorted(zip(groups.queries[there].tolist(), groups.positives[there].tolist()))
    assert found == sorted(zip(queries.tolist(), positives.tolist()))
    assert there[:-1].all() and np.array_equal(there, groups.positives >= 0)


def test_no_document_of_a_group_answers_the_query_of_another_pair(home: Path) -> None:
    run = ready(home, "apart", negatives={"queries_per_refresh": 1.0})
    refresh(run)
    groups, relevance = table(run).groups, together(1, lambda world: context(run, world).relevance)[0]
    assert groups is not None
    for queries, positives in zip(groups.queries[:-3], groups.positives[:-3]):  # the last take what is left
        assert len(set(queries.tolist())) == len(queries)
        assert np.array_equal(relevance.covers(queries[:, None], positives[None, :]), np.eye(len(queries), dtype=bool))


def test_groups_are_closer_than_chance(home: Path) -> None:
    run = ready(home, "close", negatives={"queries_per_refresh": 1.0})
    refresh(run)
    prepared, chunks, queries = encoded(run)
    groups = table(run).groups
    assert groups is not None
    scores = np.maximum.reduceat(queries @ chunks.T, prepared.chunk_offsets[:-1], axis=1)  # [queries, documents]

    def mean_score(order: np.ndarray) -> float:
        rows = groups.positives.ravel()[order].reshape(groups.positives.shape)[:4]
        return float(np.mean([scores[q, d] for qs, ds in zip(groups.queries[:4], rows) for q in qs for d in ds]))

    size = groups.positives.size
    others = [mean_score(np.random.default_rng(seed).permutation(size)) for seed in range(20)]
    assert mean_score(np.arange(size)) > max(others)


def test_groups_by_queries_are_close_by_their_queries_and_encode_no_document(home: Path) -> None:
    batches = {"how": "hard_groups", "group_size": 3, "near": "queries"}
    none = {"per_example": 0, "queries_per_example": 0, "queries_per_refresh": 1.0}
    sliced = {"refresh": {"fraction": 0.25}, "evaluate": {"every": 20}, "sources": {"ann": 0.0}}
    run = ready(home, "queries", batches=batches, negatives=none, **sliced)
    record = refresh(run, 2, due=False)[0]
    groups, queries = table(run).groups, encoded(run)[2]
    assert record["documents_encoded"] == 0 and groups is not None
    assert all(len(set(group.tolist())) == 3 for group in groups.queries[:-3]), "no query opposes itself"

    def mean_score(rows: np.ndarray) -> float:
        return float(np.mean([queries[a] @ queries[b] for group in rows[:4] for a in group for b in group if a != b]))

    shuffled = [np.random.default_rng(seed).permutation(groups.queries.ravel()) for seed in range(20)]
    assert mean_score(groups.queries) > max(mean_score(rows.reshape(groups.queries.shape)) for rows in shuffled)


@pytest.mark.parametrize(("processes", "near"), [(2, "positives"), (3, "positives"), (2, "queries")])
def test_the_ranks_search_their_blocks_and_find_what_one_does(
    home: Path, processes: int, near: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_rank: Counter[int] = Counter()

    def search(*given: Any) -> Neighbours:
        at_rank[threading.get_ident()] += 1  # each rank is a thread
        return flat.search(*given)

    everything = {"negatives": {"queries_per_refresh": 1.0}}
    everything["batches"] = {"how": "hard_groups", "group_size": 3, "near": near}
    alone, shared = (ready(home, f"{name}-{near}-{processes}", **everything) for name in ("alone", "shared"))
    refresh(alone)
    monkeypatch.setattr("inferencer.groups.search", search)
    refresh(shared, processes)
    one, many = table(alone).groups, table(shared).groups
    assert one is not None and many is not None
    assert np.array_equal(one.queries, many.queries) and np.array_equal(one.positives, many.positives)
    assert len(at_rank) == processes and max(at_rank.values()) - min(at_rank.values()) <= 1


ROWS, KINDS = np.arange(1600), np.arange(1600) % 40
CROWDED = {
    "a document of many queries": lambda: (KINDS, Relevance.of(Qrels.of(ROWS, KINDS, np.ones(1600)), np.arange(40))),
    "copies of a document": lambda: (ROWS, Relevance.of(Qrels.of(ROWS, ROWS, np.ones(1600)), KINDS)),
    "copies of a query": lambda: (ROWS, Relevance.of(Qrels.of(ROWS, ROWS, np.ones(1600)), ROWS, query_twins=KINDS)),
}


@pytest.mark.parametrize("by_queries", [False, True])
@pytest.mark.parametrize("kind", CROWDED)
def test_where_the_nearest_pairs_do_not_oppose_its_neighbours_are_the_next(
    home: Path, kind: str, by_queries: bool
) -> None:
    """40 kinds of pairs in 5 places; the 40 of a kind, all of them nearest to each other, do not oppose each other.

    Where a kind is one text, neighbours are of many kinds; elsewhere the next kind alone has more than are looked at.
    """
    random = np.random.default_rng(0)
    places = np.repeat(random.normal(size=(5, 16)), 8, axis=0)
    vectors = (places + 0.1 * random.normal(size=(40, 16)))[KINDS]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = (vectors + 0.001 * random.normal(size=vectors.shape)).astype(np.float32)
    positives, relevance = CROWDED[kind]()
    pairs = Pairs(relevance, ROWS, positives, by_queries)
    run = ready(home, f"{kind}-{by_queries}")
    texts = queries if by_queries else vectors.astype(np.float32)
    near = together(1, lambda world: _nearest(context(run, world), pairs, queries, texts))[0]
    assert (near.rows >= 0).all(), "each looked beyond its own kind"
    groups = form_groups(near, 8, pairs.opposes, seed=0, step=0)
    alike = [np.mean(KINDS[group] // 8 == KINDS[group[0]] // 8) for group in groups]
    one_text = by_queries == (kind == "copies of a query")
    assert all(len(set(KINDS[group].tolist())) == 8 for group in groups[:150])
    assert np.mean(alike) > (0.8 if one_text else 0.45)  # by chance: 0.21


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_pairs_for_a_group_have_no_neighbours(home: Path, count: int) -> None:
    vectors, rows = np.ones((count, 4), np.float32), np.arange(count)
    pairs = Pairs(Relevance.of(Qrels.of(rows, rows, np.ones(count)), rows), rows, rows, by_queries=False)
    near = together(1, lambda world: _nearest(context(ready(home, f"few-{count}"), world), pairs, vectors, vectors))[0]
    assert near.rows.shape == (count, 32) and (near.rows < 0).all()
    assert form_groups(near, 2, pairs.opposes, seed=0, step=0).tolist() == [[0, -1]] * count


def test_all_ranks_stop_together_once_one_is_asked_to(home: Path) -> None:
    run = ready(home, "stopped")

    def work(world: ThreadWorld) -> None:
        made = context(run, world)
        pairs = Pairs(made.relevance, *made.qrels.pairs(), by_queries=True)
        vectors = np.random.default_rng(0).normal(size=(len(pairs.queries), 8)).astype(np.float32)  # of seven blocks
        if world.rank == 1:
            made.stop = type("Asked", (), {"requested": True})()
        with pytest.raises(Interrupted):
            _nearest(made, pairs, vectors, vectors)

    together(2, work)


def test_the_chunk_nearest_to_the_query_stands_for_its_document() -> None:
    queries = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    vectors = np.array([[0, 5], [2, 0], [3, 3], [-1, 0], [0, -1]], np.float32)
    found = best_chunks(queries, np.array([0, 0, 1, 2, 2]), vectors)
    assert found.tolist() == [[2, 0], [3, 3], [-1, 0]]
