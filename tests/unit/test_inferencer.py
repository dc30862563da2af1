"""The Inferencer's shared vectors against brute force, over one and several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dance.config import Config, Negatives
from dance.corpus.qrels import Qrels
from dance.encoder.store import EmbeddingShard
from dance.mining.diagnostics import Tally
from dance.mining.finish import finish
from dance.mining.miner import Mined
from dance.search.flat import search
from dance.world import joined
from inferencer.collect import collect
from inferencer.corpus import Corpus
from inferencer.sources import best_of, pairs_of
from tests.threads import ThreadWorld, together

WIDTH, CHUNKS = 8, 3


@pytest.fixture(scope="module")
def world():
    with joined(30.0) as alone:
        yield alone


def chunked(documents: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(vectors [chunks, width], owners [chunks]) of documents of one to three chunks."""
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(documents), rng.integers(1, CHUNKS + 1, documents))
    return rng.standard_normal((len(owners), WIDTH), dtype=np.float32), owners


def shared(world: Any, vectors: np.ndarray, owners: np.ndarray) -> Corpus:
    """Every size-th chunk at each rank, so that a document is spread over several."""
    here = slice(world.rank, None, world.size)
    shard = EmbeddingShard(vectors[here], owners[here], Path(), 0)
    return Corpus(shard, int(owners.max()) + 1, CHUNKS, world)


def by_hand(vectors: np.ndarray, owners: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Scores [queries, documents] by the best chunk, in float64."""
    every = queries.astype(np.float64) @ vectors.T.astype(np.float64)  # [queries, chunks]
    return np.stack([every[:, owners == row].max(axis=1) for row in range(owners.max() + 1)], axis=1)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_e05_e10_ranks_together_search_as_brute_force_over_all_chunks(size):
    vectors, owners = chunked(25, seed=0)
    queries = np.random.default_rng(1).standard_normal((11, WIDTH), dtype=np.float32)
    found = together(size, lambda world: shared(world, vectors, owners).search(queries, 5, to=size - 1))
    assert found[:-1] == [None] * (size - 1)
    assert np.array_equal(found[-1].rows, np.argsort(-by_hand(vectors, owners, queries), axis=1)[:, :5])
    alone = search(vectors, owners, queries, 5, per_row=CHUNKS)
    assert np.array_equal(found[-1].scores, alone.scores) and np.array_equal(found[-1].rows, alone.rows)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_e05_more_ranks_than_documents_search_what_there_is(size):
    vectors, owners = np.ones((1, WIDTH), np.float32), np.zeros(1, dtype=np.int64)
    found = together(size, lambda world: shared(world, vectors, owners).search(vectors, 5, to=0))[0]
    assert found.rows.tolist() == [[0]]


@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_scores_and_vectors_of_documents_come_from_whichever_rank_holds_them(data):
    size, documents = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
    vectors, owners = chunked(documents, data.draw(st.integers(0, 1000)))
    asked = np.array(data.draw(st.lists(st.integers(-1, documents - 1), min_size=2, max_size=6)))
    asked = asked[: len(asked) // 2 * 2]
    queries = np.random.default_rng(2).standard_normal((2, WIDTH), dtype=np.float32)
    expected = np.where(asked >= 0, by_hand(vectors, owners, queries)[:, np.maximum(asked, 0)], -np.inf)

    def work(world: ThreadWorld):
        corpus = shared(world, vectors, owners)
        pairs = corpus.pair_scores(queries, np.tile([0, 1], len(asked) // 2), asked)
        return corpus.scores(queries, np.tile(asked, (2, 1))), pairs, corpus.fetch(asked), corpus.fetch(asked, 0)

    for rank, (matrix, pairs, everywhere, at_first) in enumerate(together(size, work)):
        np.testing.assert_allclose(matrix, expected, rtol=1e-4, atol=1e-5)
        assert np.array_equal(pairs, matrix[np.tile([0, 1], len(asked) // 2), np.arange(len(asked))])
        which, found = everywhere
        assert which.tolist() == [i for i, row in enumerate(asked) for _ in range((owners == row).sum())]
        for number, row in enumerate(asked.tolist()):
            assert sorted(found[which == number].tolist()) == sorted(vectors[owners == row].tolist())
        assert len(at_first[0]) == (len(which) if rank == 0 else 0)


def test_the_best_positive_of_each_key():
    relevant = Qrels.of(np.array([2, 2, 5, 9]), np.array([7, 8, 7, 1]), np.ones(4, dtype=np.int64))
    place, documents = pairs_of(relevant, np.array([2, 9]))
    assert place.tolist() == [0, 0, 1] and documents.tolist() == [7, 8, 1]
    best = best_of(np.array([1, 3, -np.inf], np.float32), place, 2)
    assert best[0] == 3 and np.isnan(best[1])


def test_collected_negatives_are_in_key_order_and_keep_each_keys_own(world):
    def mined(keys, counts, start):
        rows = np.arange(start, start + sum(counts))
        positives = np.array(keys, dtype=np.float32)
        return Mined(np.array(keys), np.array(counts), rows, rows.astype(np.float32), positives, Tally(1, 2))

    whole = collect([mined([7, 2], [2, 0], 100), mined([5], [3], 200)], world)
    assert whole.tally == Tally(2, 4)
    drawn, facts = finish(whole, Config(negatives=Negatives(sample=3)), 40)
    assert drawn.keys.tolist() == [2, 5, 7] and drawn.offsets.tolist() == [0, 0, 3, 5]
    assert sorted(drawn.of(5).tolist()) == [200, 201, 202] and sorted(drawn.of(7).tolist()) == [100, 101]
    assert drawn.scores.tolist() == drawn.rows.tolist()
    assert facts["keys_without_negatives"] == 1 and facts["short_keys"] == 2
    assert facts["dropped_positives"] == 4 and facts["candidates_missing"] == 2


def test_nothing_mined_is_an_empty_table(world):
    drawn, facts = finish(collect([], world), Config(), 3)
    assert len(drawn) == 0 and drawn.offsets.tolist() == [0] and len(drawn.rows) == 0 and facts["negatives"] == 0


def test_collectives_of_one_process_give_back_what_they_got(world):
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert world.agree_min([3, -1]) == [3, -1] and world.mean([0.5]) == [0.5]
    assert np.array_equal(world.maximum(array), array) and np.array_equal(world.from_rank(array, 0), array)
    for parts in (world.gather(array, 0), world.gather_ragged(array, 0), world.share_ragged(array)):
        assert len(parts) == 1 and np.array_equal(parts[0], array)
    empty = np.empty((0, 2), dtype=np.int64)
    assert world.gather_ragged(empty, 0)[0].shape == (0, 2)


def test_the_maximum_is_over_all_ranks():
    found = together(3, lambda world: world.maximum(np.array([world.rank, -world.rank, 5])))
    assert [each.tolist() for each in found] == [[2, 0, 5]] * 3
