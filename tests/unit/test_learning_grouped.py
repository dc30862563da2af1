"""Micro-batches of groups: whole, shared as set, each group once per epoch, the same however they are cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance
from dance.learning.candidates import candidates, layout
from dance.learning.grouped import Grouping
from dance.learning.order import Stream, deal
from dance.mining.table import Drawn, Groups, NegativesTable

FIELDS = ("queries", "positives", "negatives", "query_negatives")
NEGATIVES = 3  # of every query that has any


def partition(pairs, size, seed):
    """Every pair, named by its number, in one group; the last can be short."""
    places = np.full((-(-pairs // size), size), -1)
    places.ravel()[:pairs] = np.random.default_rng(seed).permutation(pairs)
    return places


def stream_of(pairs, size, grouping, seed=0, mined=None, step=0, copies=1):
    """Document 100 + q answers query q; queries ``mined`` have negatives 1000 + 3 q and on."""
    rows = np.arange(pairs)
    qrels = Qrels.of(rows, rows + 100, np.ones_like(rows))
    places = partition(pairs, size, seed)
    groups = Groups(places, np.where(places < 0, -1, places + 100))
    keys = rows if mined is None else np.array(sorted(mined), dtype=np.int64)
    negatives = 1000 + (NEGATIVES * keys[:, None] + np.arange(NEGATIVES)).ravel()
    drawn = Drawn(keys, np.arange(len(keys) + 1) * NEGATIVES, negatives, np.zeros(len(negatives), np.float32))
    table = NegativesTable(step, drawn, None, {}, groups)
    return Stream.over(qrels, table, copies, 0, seed, grouping), places


@st.composite
def setups(draw, whole=False):
    """(stream, its groups of usable pairs, grouping): some queries have no negatives, unless ``whole``."""
    size = draw(st.integers(2, 5))
    pairs = size * draw(st.integers(1, 6)) if whole else draw(st.integers(1, 25))
    grouping = Grouping(draw(st.integers(size, 14)), draw(st.floats(0, 1)))
    usable = set(range(pairs)) if whole else draw(st.sets(st.integers(0, pairs - 1), min_size=1))
    stream, places = stream_of(pairs, size, grouping, draw(st.integers(0, 5)), usable)
    groups = [frozenset(usable & set(group)) for group in places.tolist()]
    return stream, [group for group in groups if group], grouping


def test_the_share_is_met_by_whole_groups_at_least_one():
    def groups(batch, share, size):
        return Grouping(batch, share).groups(size)

    assert [groups(64, share, 8) for share in (0.0, 0.1, 0.5, 0.6, 1.0)] == [1, 1, 4, 5, 8]
    assert [groups(7, share, 3) for share in (0.1, 1.0)] == [1, 2]
    assert groups(8, 1.0, 8) == groups(8, 0.01, 8) == 1


@settings(deadline=None)
@given(setups(whole=True), st.integers(1, 3), st.integers(1, 2))
def test_every_micro_batch_of_every_rank_holds_whole_groups(setup, ranks, accumulation):
    stream, groups, grouping = setup
    size = len(next(iter(groups)))
    count = grouping.batch * accumulation * ranks
    for start in (0, count, 7 * count):
        examples = stream.take(start, count)
        for rank in range(ranks):
            micro_batches = deal(examples, grouping.batch, accumulation, rank, ranks)
            assert [len(micro.queries) for micro in micro_batches] == [grouping.batch] * accumulation
            for micro in micro_batches:
                for number in range(grouping.groups(size)):
                    assert frozenset(micro.queries[number * size : (number + 1) * size].tolist()) in groups


@settings(deadline=None)
@given(setups())
def test_every_group_comes_once_per_epoch_and_what_cannot_serve_never_comes(setup):
    stream, groups, grouping = setup
    size = stream.table.groups.size
    per_batch = grouping.groups(size)
    epochs = 3
    micro_batches = -(-epochs * len(groups) // per_batch)
    examples = stream.take(0, micro_batches * grouping.batch)
    assert np.array_equal(examples.positives, examples.queries + 100)
    usable = frozenset().union(*groups)
    assert set(examples.queries.tolist()) <= usable
    assert (examples.negatives >= 1000).all()

    chain, rest = [], []  # the groups in their order, and all else
    for micro in examples.queries.reshape(micro_batches, grouping.batch).tolist():
        for number in range(per_batch):
            places = micro[number * size : (number + 1) * size]
            group = next(group for group in groups if places[0] in group)
            assert frozenset(places[: len(group)]) == group
            chain.append(group)
            rest += places[len(group) :]
        rest += micro[per_batch * size :]
    for number in range(epochs):
        one = chain[number * len(groups) : (number + 1) * len(groups)]
        assert sorted(map(sorted, one)) == sorted(map(sorted, groups))
    # Ordinary pairs go through their own epochs, wherever they are called.
    for start in range(0, len(rest), len(usable)):
        one = rest[start : start + len(usable)]
        assert len(set(one)) == len(one)


@settings(deadline=None)
@given(setups(), st.integers(0, 50), st.integers(1, 60))
def test_any_cut_gives_the_same_examples(setup, start, cut):
    """A resume knows nothing but the cursor, and may find another number of ranks."""
    stream, _, grouping = setup
    whole = stream.take(start, 60)
    again = Stream(stream.queries, stream.positives, stream.table, 1, 0, stream.seed, stream.grouped)
    parts = again.take(start + cut, 60 - cut), again.take(start, cut)
    for name in FIELDS:
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(part, name) for part in parts[::-1]]))


def test_grouped_pairs_take_their_negatives_from_the_table_and_move_on_with_every_epoch():
    stream, _ = stream_of(12, 4, Grouping(4, 1.0))
    used = {query: [] for query in range(12)}
    for start in (0, 12, 24):
        examples = stream.take(start, 12)
        assert sorted(examples.queries.tolist()) == list(range(12))
        for query, (negative,) in zip(examples.queries.tolist(), examples.negatives.tolist()):
            used[query].append(negative)
    assert all(sorted(rows) == list(range(1000 + 3 * q, 1003 + 3 * q)) for q, rows in used.items())


def test_the_order_of_groups_differs_between_epochs_and_tables_but_not_between_runs():
    first, other, again = (stream_of(64, 4, Grouping(8, 1.0), step=step)[0] for step in (0, 50, 0))
    assert not np.array_equal(first.take(0, 64).queries, first.take(64, 64).queries)
    assert not np.array_equal(first.take(0, 64).queries, other.take(0, 64).queries)
    assert np.array_equal(first.take(0, 64).queries, again.take(0, 64).queries)


def test_without_mined_negatives_all_grouped_pairs_serve():
    stream, _ = stream_of(6, 3, Grouping(3, 1.0), mined=set(), copies=0)
    examples = stream.take(0, 6)
    assert sorted(examples.queries.tolist()) == list(range(6)) and examples.negatives.shape == (6, 0)


def test_groups_without_a_pair_that_serves_leave_the_batches_ordinary():
    stream, places = stream_of(6, 3, Grouping(3, 1.0), mined={0, 1})
    empty = NegativesTable(0, stream.table.documents, None, {}, Groups(places[:0], places[:0]))
    rows = np.arange(6)
    plain = Stream.over(Qrels.of(rows, rows + 100, np.ones_like(rows)), empty, 1, 0, 0, Grouping(3, 1.0))
    assert plain.grouped is None and sorted(plain.take(0, 2).queries.tolist()) == [0, 1]


def test_a_table_without_groups_is_refused_where_they_are_wanted_and_too_large_ones_too():
    stream, _ = stream_of(6, 3, Grouping(3, 1.0))
    table = NegativesTable(7, stream.table.documents, None, {})
    rows = np.arange(6)
    qrels = Qrels.of(rows, rows + 100, np.ones_like(rows))
    with pytest.raises(ValueError, match="step 7 hold no groups, which batches.how=hard_groups needs"):
        Stream.over(qrels, table, 1, 0, 0, Grouping(3, 1.0))
    with pytest.raises(ValueError, match="have 3 pairs, which do not fit into train.batch=2"):
        Stream.over(qrels, stream.table, 1, 0, 0, Grouping(2, 1.0))


def test_groups_go_to_disk_and_back(tmp_path):
    stream, places = stream_of(7, 3, Grouping(3, 1.0))
    stream.table.publish(tmp_path / "with")
    NegativesTable(0, stream.table.documents, None, {}).publish(tmp_path / "without")
    opened = NegativesTable.open(tmp_path / "with").groups
    assert np.array_equal(opened.queries, places) and np.array_equal(
        opened.positives[places >= 0], places[places >= 0] + 100
    )
    assert NegativesTable.open(tmp_path / "without").groups is None


def test_a_group_of_a_pair_that_is_not_relevant_is_refused():
    stream, _ = stream_of(6, 3, Grouping(3, 1.0))
    rows = np.arange(5)  # query 5 has no positive
    relevance = Relevance.of(Qrels.of(rows, rows + 100, np.ones_like(rows)), np.arange(2000))
    with pytest.raises(ValueError, match="step 0: 1 of the grouped pairs are not judged relevant"):
        stream.table.refuse_positives(relevance)


@settings(deadline=None)
@given(st.data(), st.sampled_from(["q2d", "d2q"]), st.booleans())
def test_r11_pairs_of_a_group_that_answer_each_other_never_oppose(data, direction, copies):
    """Groups draw near what is alike: shared positives and copied texts, which only the masks keep apart."""
    pair = st.tuples(st.integers(0, 5), st.integers(0, 7))
    pairs = np.array(data.draw(st.lists(pair, min_size=2, max_size=12, unique=True)))
    twins = np.array([data.draw(st.sampled_from(sorted({row, row // 2 * 2}))) for row in range(8)])
    qrels = Qrels.of(pairs[:, 0], pairs[:, 1], np.ones(len(pairs), dtype=np.int64))
    relevance = Relevance.of(qrels, twins, copies)
    size = data.draw(st.integers(2, 4))
    places = partition(len(pairs), size, 0)
    groups = Groups(*(np.where(places < 0, -1, pairs[places, side]) for side in (0, 1)))
    table = NegativesTable(0, Drawn.empty(), None, {}, groups)
    batch = data.draw(st.integers(size, 9))
    examples = Stream.over(qrels, table, 0, 0, 0, Grouping(batch, 1.0)).take(0, 3 * batch)
    for micro in deal(examples, batch, 3, 0, 1):
        keys, rows = (micro.queries, micro.positives) if direction == "q2d" else (micro.positives, micro.queries)
        covers = relevance.covers if direction == "q2d" else lambda k, r: relevance.covers(r, k)
        found = candidates(keys, 0, layout(rows, micro.negatives), 0, covers, in_batch=True)
        for i in range(batch):
            for j in range(batch):
                query, document = (keys[i], rows[j]) if direction == "q2d" else (rows[j], keys[i])
                same = [d for q, d in pairs.tolist() if q == query]
                answers = any(d == document or (copies and twins[d] == twins[document]) for d in same)
                assert found.allowed[i, j] == (i == j or not answers)
