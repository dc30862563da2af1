"""V08 in whole refreshes: every query is a document of the corpus, and another one answers it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dance import config, paths
from dance.corpus.prepare import Prepared
from dance.evaluation import runfile
from dance.evaluation.scoring import open_encoder, score
from inferencer.context import Context
from inferencer.passes import FullPass
from tests.corpora import write_beir
from tests.refreshing import DUAL, ENCODE, context, make_ready, refresh, table
from tests.threads import together
from tests.tiny import some_texts, tiny_bert

DOCUMENTS = 40
SOURCES = {"ann": 1.0, "bm25": 1.0, "random": 1.0}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    tiny_bert(folder / "model")
    texts = {f"d{i}": f"{text} {i}" for i, text in enumerate(some_texts(DOCUMENTS))}
    pairs = [(f"d{i}", f"d{(i + 1) % DOCUMENTS}", 1) for i in range(DOCUMENTS)]
    write_beir(folder / "corpus", texts, texts, {"train": pairs[:30], "dev": pairs[30:]})
    return folder


@pytest.mark.parametrize("parts", [1, 4])
def test_v08_it_is_neither_ranked_nor_mined(home: Path, parts: int, tmp_path: Path) -> None:
    groups = {"loss": DUAL, "encode": ENCODE, "sources": SOURCES, "negatives": {"topk": 20, "sample": 6}}
    slices = {"refresh": {"fraction": 1 / parts}, "evaluate": {"every": 10}} if parts > 1 else {}
    run = make_ready(home, f"run-{parts}", **groups, **slices)
    refresh(run, 2)
    if parts > 1:
        together(2, lambda world: whole(context(run, world)))
    mined = table(run)
    assert len(mined.documents.rows) and (mined.documents.owners() != mined.documents.rows).all()
    assert mined.queries is not None and (mined.queries.owners() != mined.queries.rows).all()
    settings = config.read(run.config)
    prepared = Prepared.open(settings.prepared or "")
    assert prepared.collection.own_documents.tolist() == np.arange(DOCUMENTS).tolist()
    found = score(open_encoder(settings, run.published("encoders", 0)), prepared, "dev", settings, tmp_path)
    assert found.queries is not None
    for ranking in (found.documents, found.queries):
        assert all(asker not in scores for asker, scores in ranking.items())
    assert {len(scores) for scores in found.documents.values()} == {DOCUMENTS - 1}
    kept = runfile.read(run.evaluation / paths.step_name(0) / "run.trec")
    assert {query: scores.keys() for query, scores in kept.items()} == {
        query: scores.keys() for query, scores in found.documents.items()
    }


def whole(made: Context) -> None:
    through = FullPass(made, 0)
    while through.advance():
        pass
    through.record()
