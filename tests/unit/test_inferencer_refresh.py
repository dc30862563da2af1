"""Whole refreshes: the same for one and two ranks, and what brute force over all chunks finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from dance import config, paths
from dance.corpus.prepare import Prepared
from dance.evaluation import runfile
from dance.evaluation.scoring import open_encoder, score
from dance.mining.table import Drawn, NegativesTable
from dance.paths import RunPaths
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
from tests.threads import together
from tests.tiers import others_slow

SHAPES: dict[str, dict[str, Any]] = {
    "ann": {},
    "bm25": {"sources": {"ann": 0.0, "bm25": 1.0}},
    "random": {"sources": {"ann": 0.0, "random": 1.0}},
    "given": {"sources": {"ann": 0.0, "given": 1.0}, "loss": {}},
    "mixture": {"sources": {"ann": 1.0, "bm25": 0.5, "random": 0.5, "given": 0.25}},
    "bm25_random": {"sources": {"ann": 0.0, "bm25": 1.0, "random": 1.0}},
    "filtered": {"filters": {"skip": 1, "margin": 0.0, "hubs": 4}, "sources": {"bm25": 1.0}},
    "simans": {"draw": {"how": "simans"}, "sources": {"random": 1.0}},
    "tele": {"draw": {"lookahead": 0.3, "momentum": 0.3}, "negatives": {"queries_per_refresh": 1.0}},
    "two_towers": {"model": {"towers": "two"} | MAXP},
    "folds": {"data": {"dev_folds": 2}, "model": {"chunks": 1}},
    "no_d2q": {"evaluate": {"d2q": False}, "loss": {}},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("refresh"))


def groups(shape: str) -> dict[str, Any]:
    given = {"loss": DUAL, "model": MAXP, "encode": ENCODE} | SHAPES[shape]
    model = {"query_max_tokens": 16, "document_max_tokens": 48, "pooling": "mean"} | given["model"]
    return given | {"model": model}


def ready(home: Path, name: str, shape: str, steps: tuple[int, ...] = (0,), **more: Any) -> RunPaths:
    given = groups(shape) | more
    given["model"] = given["model"] | {"path": str(home / "model")}
    return make_ready(home, name, steps, **given)


@pytest.mark.parametrize("shape", others_slow(SHAPES, "ann"))
def test_e05_two_ranks_mine_and_score_what_one_does(home: Path, shape: str) -> None:
    steps = (0, 10) if shape in ("mixture", "tele") else (0,)
    runs = [ready(home, f"{shape}-{size}", shape, steps) for size in (1, 2)]
    records = [[untimed(record) for record in refresh(run, size, steps)] for size, run in zip((1, 2), runs)]
    assert records[0] == records[1]
    for step in steps:
        one, two = (table(run, step) for run in runs)
        assert len(one.documents.rows) and same(one.documents, two.documents) and one.facts == two.facts
        assert (one.queries is None) == (two.queries is None) == (not groups(shape)["loss"])
        assert one.queries is None or (len(one.queries.rows) and same(one.queries, two.queries))  # type: ignore[arg-type]
        folders = [run.evaluation / paths.step_name(step) for run in runs]
        for name in sorted(path.name for path in folders[0].iterdir()):
            assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


@pytest.mark.parametrize("towers", ["one", "two"])
def test_mining_is_brute_force_over_all_chunks(home: Path, towers: str) -> None:
    """The best six by hand, relevant ones apart, in both directions; scores too."""
    more = {"model": groups("ann")["model"] | {"towers": towers}, "draw": {"how": "top"}}
    run = ready(home, f"brute-{towers}", "ann", negatives={"queries_per_refresh": 1.0}, **more)
    refresh(run, 2)
    prepared, chunks, queries = encoded(run)
    assert len(chunks) > 1.3 * len(prepared.collection.texts)
    scores = best_chunks(prepared, chunks, queries)  # [queries, documents]
    qrels = prepared.collection.splits["train"]
    mined = table(run)
    assert mined.documents.keys.tolist() == qrels.queries.tolist()
    for query in qrels.queries.tolist():
        allowed = np.setdiff1d(np.arange(scores.shape[1]), qrels.relevant(query))
        check(mined.documents, query, allowed, scores[query])
    assert mined.queries is not None and mined.queries.keys.tolist() == sorted(set(qrels.documents.tolist()))
    for document in mined.queries.keys.tolist():
        own = qrels.queries[[document in qrels.relevant(query) for query in qrels.queries.tolist()]]
        check(mined.queries, document, np.setdiff1d(qrels.queries, own), scores[:, document])


def check(drawn: Drawn, key: int, allowed: np.ndarray, scores: np.ndarray) -> None:
    """The six best of the allowed rows, with their scores."""
    at = int(np.searchsorted(drawn.keys, key))
    rows, found = drawn.of(key), drawn.scores[drawn.offsets[at] : drawn.offsets[at + 1]]
    expected = allowed[np.argsort(-scores[allowed], kind="stable")[:6]]
    np.testing.assert_allclose(np.sort(scores[rows]), np.sort(scores[expected]), atol=1e-5)
    np.testing.assert_allclose(found, scores[rows], atol=1e-5)


def test_scores_are_the_encoders_whatever_the_source(home: Path) -> None:
    run = ready(home, "scored", "mixture")
    refresh(run)
    prepared, chunks, queries = encoded(run)
    scores, mined = best_chunks(prepared, chunks, queries), table(run)
    np.testing.assert_allclose(
        mined.documents.scores, scores[mined.documents.owners(), mined.documents.rows], atol=1e-5
    )
    assert mined.queries is not None
    np.testing.assert_allclose(mined.queries.scores, scores[mined.queries.rows, mined.queries.owners()], atol=1e-5)


def test_a_margin_holds_for_every_source(home: Path) -> None:
    run = ready(home, "margin", "bm25", filters={"margin": 0.0}, sources={"ann": 0.0, "bm25": 1.0, "random": 1.0})
    refresh(run)
    prepared, chunks, queries = encoded(run)
    scores, drawn, qrels = (
        best_chunks(prepared, chunks, queries),
        table(run).documents,
        prepared.collection.splits["train"],
    )
    positive = {query: scores[query, qrels.relevant(query)].max() for query in drawn.keys.tolist()}
    assert all(scores[q, d] <= positive[q] + 1e-5 for q, d in zip(drawn.owners().tolist(), drawn.rows.tolist()))


def test_run_files_are_brute_force_in_both_directions(home: Path) -> None:
    run = ready(home, "ranked", "ann")
    refresh(run, 2)
    prepared, chunks, queries = encoded(run)
    collection, folder = prepared.collection, run.evaluation / paths.step_name(0)
    scores, dev, train = best_chunks(prepared, chunks, queries), *(collection.splits[name] for name in ("dev", "train"))
    ranked = runfile.read(folder / "run.trec")
    assert sorted(ranked) == sorted(collection.query_ids[row] for row in dev.queries.tolist())
    for query in dev.queries.tolist():
        expected = {collection.document_ids[row]: scores[query, row] for row in range(scores.shape[1])}
        assert ranked[collection.query_ids[query]] == pytest.approx(expected, abs=1e-5)
    back = runfile.read(folder / "run-d2q.trec")
    assert sorted(back) == sorted(collection.document_ids[row] for row in set(dev.documents.tolist()))
    for document in set(dev.documents.tolist()):
        known = {query for query in train.queries.tolist() if document in train.relevant(query)}
        expected = {collection.query_ids[row]: scores[row, document] for row in set(range(48)) - known}
        assert back[collection.document_ids[document]] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("shape", ["two_towers", "folds", "no_d2q"])
def test_one_process_scores_an_encoder_as_the_refresh_did(home: Path, tmp_path: Path, shape: str) -> None:
    run = ready(home, f"scoring-{shape}", shape)
    record = refresh(run)[0]
    settings = config.read(run.config)
    encoder = open_encoder(settings, run.published("encoders", 0))
    found = score(encoder, Prepared.open(settings.prepared or ""), "dev", settings, tmp_path)
    assert found.metrics == pytest.approx({key: record[key] for key in found.metrics})
    folder = run.evaluation / paths.step_name(0)
    for name, ranking in (("run", found.documents), ("run-d2q", found.queries)):
        kept = runfile.read(folder / f"{name}.trec") if ranking is not None else {}
        assert kept.keys() == (ranking or {}).keys()
        assert all(kept[asker] == pytest.approx(scores, abs=1e-5) for asker, scores in (ranking or {}).items())
    assert not list(tmp_path.iterdir())


def test_momentum_goes_on_from_the_table_on_disk(home: Path) -> None:
    """A new process finds what the one before kept in memory."""
    straight, cut = (ready(home, name, "tele", (0, 10)) for name in ("straight", "cut"))
    refresh(straight, 1, (0, 10))
    refresh(cut, 1, (0,))
    resumed = together(1, lambda world: _second(cut, world))[0]
    assert same(table(straight, 10).documents, table(cut, 10).documents)
    assert resumed["overlap_former"] > 0.2 and resumed["age"] == 10


def _second(run: RunPaths, world: Any) -> dict[str, Any]:
    from inferencer.refresh import Refresher

    return Refresher(context(run, world)).refresh(10, 1)


def test_nothing_is_mined_where_nothing_is_wanted(home: Path) -> None:
    none = dict.fromkeys(("ann", "bm25", "random", "given"), 0.0)
    wanted = {"per_example": 0, "queries_per_example": 0}
    loss = {"dual_weight": 0.1, "in_batch": True}
    run = ready(home, "in_batch", "ann", sources=none, negatives=wanted, loss=loss)
    record = refresh(run)[0]
    mined = table(run)
    assert len(mined.documents) == 0 and mined.queries is None
    assert record["keys_mined"] == 0 and record["d2q_ndcg@10"] >= 0


def test_the_dual_task_with_given_negatives_has_the_queries_of_the_batch(home: Path) -> None:
    given = {"sources": {"ann": 0.0, "given": 1.0}}
    run = ready(home, "given_dual", "ann", loss={"dual_weight": 0.1, "in_batch": True}, **given)
    refresh(run)
    mined = table(run)
    assert len(mined.documents.rows) and mined.queries is not None and len(mined.queries.rows) == 0
    with pytest.raises(ValueError, match="loss.dual_weight needs queries that oppose a document's"):
        ready(home, "given_alone", "ann", loss={"dual_weight": 0.1}, **given)


def test_what_a_source_lacks_is_refused_before_anything_is_encoded(tmp_path: Path) -> None:
    run = make_ready(tmp_path, "run", sources={"ann": 0.0, "given": 1.0})
    with pytest.raises(ValueError, match="sources.given=1.0: the data gives no negatives for split 'train'"):
        refresh(run)


def test_metrics_say_what_the_record_says(home: Path) -> None:
    run = ready(home, "told", "folds")
    record = refresh(run)[0]
    kept = msgspec.json.decode((run.evaluation / paths.step_name(0) / "metrics.json").read_bytes())
    assert kept == {key: record[key] for key in kept}
    assert {"ndcg@10", "mrr@10", "recall@100", "d2q_ndcg@10", "select_ndcg@10", "report_ndcg@10"} <= kept.keys()
    assert {"encode_seconds", "search_seconds", "mine_seconds", "refresh_seconds"} <= record.keys()
    assert NegativesTable.open(run.published("negatives", 0)).facts["turn"] == 0
