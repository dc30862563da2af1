"""The Inferencer's parts against brute force, in a group of one process."""

import numpy as np
import pytest

from dance.encoder.store import EmbeddingShard
from dance.mining.miner import Mined
from dance.world import joined
from inferencer.collect import collect
from inferencer.neighbours import search_everywhere


@pytest.fixture(scope="module")
def world():
    with joined(30.0) as alone:
        yield alone


def test_search_by_blocks_is_brute_force(world, tmp_path):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((50, 8), dtype=np.float32)
    order = rng.permutation(50)
    shard = EmbeddingShard(vectors[order], order, tmp_path, 0, 50)
    queries = rng.standard_normal((11, 8), dtype=np.float32)
    blocks = list(search_everywhere(shard, queries, 5, 4, world, world.size))
    assert [part for part, _ in blocks] == [slice(0, 4), slice(4, 8), slice(8, 11)]
    expected = np.argsort(-(queries @ vectors.T), axis=1)[:, :5]
    assert np.array_equal(np.concatenate([found.rows for _, found in blocks]), expected)


def test_collected_table_is_in_query_order_and_keeps_each_querys_negatives(world):
    def mined(queries, counts, start):
        total = sum(counts)
        rows = np.arange(start, start + total)
        return Mined(np.array(queries), np.array(counts), rows, rows.astype(np.float32), 1, 2, 1)

    table = collect([mined([7, 2], [2, 0], 100), mined([5], [3], 200)], 40, world)
    assert table.step == 40 and table.queries.tolist() == [2, 5, 7]
    assert table.offsets.tolist() == [0, 0, 3, 5]
    assert table.documents.tolist() == [200, 201, 202, 100, 101]
    assert table.scores.tolist() == table.documents.tolist()
    assert table.facts["queries_without_negatives"] == 1 and table.facts["short_queries"] == 2
    assert table.facts["relevant_dropped"] == 2 and table.facts["candidates_missing"] == 4


def test_nothing_mined_is_an_empty_table(world):
    table = collect([], 3, world)
    assert len(table.queries) == 0 and table.offsets.tolist() == [0] and len(table.documents) == 0


def test_collectives_of_one_process_give_back_what_they_got(world):
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert world.agree_min([3, -1]) == [3, -1] and world.mean([0.5]) == [0.5]
    for parts in (world.gather(array, 0), world.gather_ragged(array, 0), world.share_ragged(array)):
        assert len(parts) == 1 and np.array_equal(parts[0], array)
    empty = np.empty((0, 2), dtype=np.int64)
    assert world.gather_ragged(empty, 0)[0].shape == (0, 2)
