"""A block of keys from candidates to negatives, in both directions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dance.config import from_plain
from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance, twins
from dance.mining import lists
from dance.mining.diagnostics import Tally
from dance.mining.finish import finish
from dance.mining.miner import Block, Judged, joined, mine
from dance.mining.table import Drawn, NegativesTable
from dance.search.neighbours import Neighbours


def relevance_of(pairs, documents, texts=None, copies=True):
    queries, relevant = (np.array(column, dtype=np.int64) for column in zip(*pairs))
    same = np.arange(documents) if texts is None else twins(texts)
    return Relevance.of(Qrels.of(queries, relevant, np.ones_like(queries)), same, copies)


def ranked(rows, best=9.0):
    """Neighbours with scores that fall by one; -1 has none."""
    rows = np.array(rows)
    scores = best - np.arange(rows.shape[1]) + np.zeros(rows.shape)
    return Neighbours(np.where(rows < 0, -np.inf, scores).astype(np.float32), rows)


def config_of(topk=5, sample=5, **settings):
    return from_plain({"negatives": {"topk": topk, "sample": sample, "per_example": 1}, **settings})


def by_key(mined):
    return [part.tolist() for part in np.split(mined.rows, np.cumsum(mined.counts)[:-1])]


def test_e07_e09_no_positive_and_no_copy_of_one_is_mined():
    texts = ["a", "b", " B. ", "c", "d", "e"]  # row 2 is row 1 again, but for case, space and a full stop
    relevance = relevance_of([(0, 1), (0, 4), (1, 0)], 6, texts)
    block = Block(np.array([0, 1]), {"ann": ranked([[1, 2, 3, 4, 5], [0, 1, 2, 3, -1]])})
    mined = mine(block, Judged.of_queries(relevance, 1), config_of(), 0)
    assert [sorted(rows) for rows in by_key(mined)] == [[3, 5], [1, 2, 3]]
    assert dict(zip(mined.rows[:2].tolist(), mined.scores[:2].tolist())) == {3: 7, 5: 5}
    assert mined.tally.positives == 3 and mined.tally.copies == 1 and mined.tally.missing == 1
    assert mined.positives.tolist() == [9, 9], "the best of two positives"


def test_e09_copies_may_be_asked_for():
    relevance = relevance_of([(0, 1)], 3, ["a", "b", "B"], copies=False)
    mined = mine(Block(np.array([0]), {"ann": ranked([[1, 2, 0]])}), Judged.of_queries(relevance, 1), config_of(), 0)
    assert sorted(mined.rows.tolist()) == [0, 2] and mined.tally.copies == 0


def test_e07_documents_are_never_opposed_by_their_queries_nor_by_those_of_their_copies():
    relevance = relevance_of([(0, 1), (3, 2), (1, 0)], 3, ["a", "b", "B"])
    block = Block(np.array([1, 2]), {"ann": ranked([[0, 1, 2, 3], [3, 2, 1, 0]])})
    mined = mine(block, Judged.of_documents(relevance, 1), config_of(), 0)
    assert [sorted(rows) for rows in by_key(mined)] == [[1, 2], [1, 2]]
    assert mined.tally.positives == 2 and mined.tally.copies == 2


def test_e07_documents_are_never_opposed_by_copies_of_their_queries_nor_queries_by_what_answers_a_copy():
    qrels = Qrels.of(np.array([0, 2]), np.array([1, 2]), np.ones(2, dtype=np.int64))
    relevance = Relevance.of(qrels, np.arange(4), query_twins=twins(["how", "why", "How?", "who"]))
    for judged, key in ((Judged.of_documents(relevance, 1), 1), (Judged.of_queries(relevance, 1), 0)):
        mined = mine(Block(np.array([key]), {"ann": ranked([[0, 1, 2, 3]])}), judged, config_of(), 0)
        assert [sorted(rows) for rows in by_key(mined)] == [[1, 3] if key else [0, 3]]
        assert mined.tally.positives == 1 and mined.tally.copies == 1
    bad = Drawn(np.array([1]), np.array([0, 1]), np.array([2]), np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="1 are judged relevant"):
        NegativesTable(5, bad, bad, {}).refuse_positives(relevance)


def test_e07_is_checked_again_in_the_finished_table():
    relevance = relevance_of([(0, 1)], 4)
    good = Drawn(np.array([0]), np.array([0, 1]), np.array([2]), np.zeros(1, np.float32))
    bad = Drawn(np.array([0]), np.array([0, 2]), np.array([2, 1]), np.zeros(2, np.float32))
    turned = Drawn(np.array([1]), np.array([0, 1]), np.array([0]), np.zeros(1, np.float32))
    NegativesTable(5, good, None, {}).refuse_positives(relevance)
    for table in (NegativesTable(5, bad, None, {}), NegativesTable(5, good, turned, {})):
        with pytest.raises(ValueError, match="1 are judged relevant"):
            table.refuse_positives(relevance)


def test_e01_filler_rows_are_never_mined_and_what_is_missing_is_counted():
    judged = Judged.of_queries(relevance_of([(0, 0)], 3), 1)
    mined = mine(Block(np.array([0]), {"ann": ranked([[0, -1, -1]])}), judged, config_of(3, 3), 0)
    assert mined.counts.tolist() == [0] and len(mined.rows) == 0 and mined.tally.missing == 2
    mined = mine(Block(np.array([0]), {"ann": ranked([[0, 1, 2]])}), judged, config_of(200, 20), 0)
    assert mined.tally.missing == 197 and mined.counts.tolist() == [2]


def everything(seed, keys=6, corpus=60):
    """All sources at once, over a corpus with positives and copies."""
    rng = np.random.default_rng(seed)
    pairs = sorted({(int(q), int(d)) for q, d in zip(rng.integers(0, keys, 14), rng.integers(0, corpus, 14))})
    relevance = relevance_of(pairs, corpus, [str(row % 50) for row in range(corpus)])
    rows = np.arange(keys)
    some = lambda k: np.stack([rng.permutation(corpus)[:k] for _ in range(keys)])  # noqa: E731
    former = Drawn.gathered(rows, np.full(keys, 6), some(6).ravel(), np.zeros(6 * keys, np.float32))
    sources = {
        "ann": ranked(some(20)),
        "bm25": ranked(some(10), best=30.0),
        "lookahead": ranked(some(10)),
        "former": lists.without_scores(former.padded(rows)),
        "given": lists.without_scores(np.where(rng.random((keys, 3)) < 0.5, some(3), -1)),
        "random": lists.random_rows(rows, 16, corpus, relevance.covers, 1, 3),
    }
    return relevance, sources, former


SETTINGS = {
    "negatives": {"topk": 20, "sample": 8, "queries_per_refresh": 1.0},
    "sources": {"ann": 2, "bm25": 1, "random": 1, "given": 1},
}


@settings(max_examples=25)
@given(
    st.integers(0, 200),
    st.sampled_from(["uniform", "top", "softmax", "simans"]),
    st.one_of(st.none(), st.floats(-3, 8)),
    st.one_of(st.none(), st.integers(1, 3)),
)
def test_blocks_of_any_cut_give_each_key_the_same(seed, how, margin, hubs):
    relevance, sources, former = everything(seed)
    config = from_plain(
        {
            **SETTINGS,
            "filters": {"skip": 1, "margin": margin, "hubs": hubs},
            "draw": {"how": how, "momentum": 0.25, "lookahead": 0.25},
        }
    )
    judged, keys = Judged.of_queries(relevance, 1), np.arange(6)
    whole = mine(Block(keys, sources, former=former), judged, config, 3)
    blocks = [
        mine(
            Block(keys[cut], {k: Neighbours(v.scores[cut], v.rows[cut]) for k, v in sources.items()}, None, former),
            judged, config, 3,
        )
        for cut in ([4, 5], [0], [3, 1, 2])
    ]  # fmt: skip
    again = joined(blocks)
    assert again.tally == whole.tally
    one, facts = finish(whole, config, 3, former, 10)
    other, same = finish(again, config, 3, former, 10)
    assert facts == same
    for name in ("keys", "offsets", "rows", "scores"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name == "scores"), name
    assert not relevance.covers(one.owners(), one.rows).any() and (one.rows >= 0).all()
    for key in range(6):
        assert len(set(one.of(key).tolist())) == len(one.of(key)) <= 8
    if hubs is not None and len(one.rows):
        assert np.bincount(one.rows).max() <= hubs


def test_sources_have_their_quotas_and_scores_where_the_encoder_ranked_them():
    judged = Judged.of_queries(relevance_of([(0, 99)], 100), 1)
    sources = {"ann": ranked([list(range(20))]), "bm25": ranked([[50, 51, 3, 52, 53, 54]], best=30.0)}
    config = config_of(20, 8, sources={"ann": 1, "bm25": 1}, draw={"how": "top"})
    mined = mine(Block(np.array([0]), sources), judged, config, 0)
    assert mined.rows.tolist() == [0, 1, 2, 3, 50, 51, 52, 53], "row 3 is given by the first, once"
    assert mined.scores[:4].tolist() == [9, 8, 7, 6] and np.isnan(mined.scores[4:]).all()


def test_margin_reaches_the_candidates_of_other_sources_by_their_score():
    judged = Judged.of_queries(relevance_of([(0, 2)], 100), 1)
    sources = {"ann": ranked([[0, 1, 2, 3, 4]]), "bm25": ranked([[1, 4, 60, 2]], best=30.0)}
    config = config_of(5, 4, sources={"ann": 0, "bm25": 1}, filters={"margin": 0.5})
    mined = mine(Block(np.array([0]), sources), judged, config, 0)
    assert sorted(mined.rows.tolist()) == [4, 60] and mined.tally == Tally(positives=1, margin=1)
    config = config_of(5, 4, filters={"skip": 1, "relative_margin": 0.4})
    mined = mine(
        Block(np.array([0]), {"ann": sources["ann"]}, positives=np.array([7.0], np.float32)), judged, config, 0
    )
    assert sorted(mined.rows.tolist()) == [] and mined.tally.rank == 1 and mined.tally.relative_margin == 3


def test_of_a_slice_as_large_a_share_of_the_best_is_left_out_and_of_bm25_all():
    judged = Judged.of_queries(relevance_of([(0, 50)], 100), 1)
    sliced = {"refresh": {"fraction": 0.25}, "evaluate": {"every": 10_000}, "filters": {"skip": 8}}
    config = config_of(40, 6, **sliced, sources={"ann": 1, "bm25": 1}, draw={"how": "top"})
    found = {"ann": ranked([list(range(10))]), "bm25": ranked([list(range(60, 100))])}
    mined = mine(Block(np.array([0]), found), judged, config, 0)
    assert sorted(mined.rows.tolist()) == [2, 3, 4, 68, 69, 70] and mined.tally.rank == 2 + 8


def test_scores_that_are_known_beside_the_neighbours_count_too():
    judged = Judged.of_queries(relevance_of([(0, 2)], 100), 1)
    bm25 = ranked([[60, 61, 62]], best=30.0)
    known = Neighbours(np.array([[6.8, 2.0, -np.inf]], np.float32), np.array([[60, 61, -1]]))
    block = Block(np.array([0]), {"ann": ranked([[0, 1, 2]]), "bm25": bm25}, known=known)
    config = config_of(5, 4, sources={"ann": 0, "bm25": 1}, filters={"margin": 0.5})
    mined = mine(block, judged, config, 0)
    found = dict(zip(mined.rows.tolist(), mined.scores.tolist()))
    assert sorted(found) == [61, 62] and found[61] == 2.0 and np.isnan(found[62])


def test_momentum_keeps_its_share_of_the_former_but_no_positive():
    judged = Judged.of_queries(relevance_of([(0, 30)], 100), 1)
    former = Drawn(np.array([0]), np.array([0, 5]), np.array([30, 31, 32, 33, 34]), np.zeros(5, np.float32))
    keys = np.array([0])
    block = Block(
        keys, {"ann": ranked([list(range(20))]), "former": lists.without_scores(former.padded(keys))}, former=former
    )
    config = config_of(20, 6, negatives={"queries_per_refresh": 1.0, "topk": 20, "sample": 6}, draw={"momentum": 0.5})
    drawn, facts = finish(mine(block, judged, config, 7), config, 7, former, 4)
    kept = [row for row in drawn.of(0).tolist() if row >= 30]
    assert len(kept) == 3 and 30 not in kept and len(drawn.of(0)) == 6
    assert facts["overlap_former"] == 0.5 and facts["overlap_oracle"] == 0.0 and facts["age"] == 4


def test_first_refresh_has_no_former_table_and_the_others_take_its_share():
    judged = Judged.of_queries(relevance_of([(0, 30)], 100), 1)
    config = config_of(20, 6, negatives={"queries_per_refresh": 1.0, "topk": 20, "sample": 6}, draw={"momentum": 0.5})
    assert mine(Block(np.array([0]), {"ann": ranked([list(range(20))])}), judged, config, 7).counts.tolist() == [6]


def test_without_any_list_that_has_a_share_is_an_error():
    judged = Judged.of_queries(relevance_of([(0, 30)], 100), 1)
    with pytest.raises(ValueError, match="no candidates of bm25"):
        config = config_of(sources={"ann": 0, "bm25": 1})
        mine(Block(np.array([0]), {"ann": ranked([[1, 2, 3]])}), judged, config, 0)


def test_slots_of_an_example_mix_the_sources():
    """Over 300 keys, half from each source: the first place of the table is of either in about half of them."""
    keys = np.arange(300)
    judged = Judged.of_queries(relevance_of([(0, 999)], 1000), 1)
    sources = {"ann": ranked(np.tile(np.arange(20), (300, 1))), "bm25": ranked(np.tile(np.arange(100, 120), (300, 1)))}
    config = config_of(20, 4, sources={"ann": 1, "bm25": 1})
    drawn, _ = finish(mine(Block(keys, sources), judged, config, 0), config, 0)
    first = drawn.take(keys, np.zeros(300, np.int64), 1)[:, 0]
    assert 105 < (first >= 100).sum() < 195
