import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dance.config import Data
from dance.corpus.drops import Drops
from dance.corpus.limits import Kept, keep
from dance.corpus.qrels import Qrels

DOCUMENTS = 30
limits = st.none() | st.integers(1, 40)
pairs = st.sets(st.tuples(st.integers(0, 14), st.integers(0, DOCUMENTS - 1)), max_size=40)


def qrels_of(judged: set[tuple[int, int]], offset: int) -> Qrels:
    array = np.array(sorted(judged), dtype=np.int64).reshape(-1, 2)
    return Qrels.of(array[:, 0] + offset, array[:, 1], np.ones(len(array), dtype=np.int64))


def kept(splits: dict[str, Qrels], data: Data, seed: int = 1) -> Kept:
    return keep(splits, np.arange(DOCUMENTS), data, seed, Drops())


@given(pairs, pairs, pairs, limits, limits, limits)
def test_a_kept_query_keeps_all_its_relevant_documents(
    train: set[tuple[int, int]],
    dev: set[tuple[int, int]],
    test: set[tuple[int, int]],
    max_documents: int | None,
    max_train: int | None,
    max_dev: int | None,
) -> None:
    splits = {"dev": qrels_of(dev, 100), "test": qrels_of(test, 200), "train": qrels_of(train, 0)}
    data = Data(max_documents=max_documents, max_train_queries=max_train, max_dev_queries=max_dev)
    result = kept(splits, data)
    assert len(result.documents) == min(max_documents or DOCUMENTS, DOCUMENTS)
    assert np.all(np.diff(result.documents) > 0)
    for split, qrels in splits.items():
        limit = max_train if split == "train" else max_dev
        rows = result.queries[split]
        assert len(rows) <= min(limit or len(qrels), len(qrels))
        assert np.all(np.diff(rows) > 0)
        assert np.isin(qrels.subset(rows).documents, result.documents).all()
        if max_documents is None:
            assert len(rows) == min(limit or len(qrels), len(qrels))


def test_the_draw_is_the_seed_s_alone() -> None:
    splits = {"train": qrels_of({(i, i) for i in range(15)}, 0), "dev": qrels_of({(i, 29 - i) for i in range(15)}, 100)}
    data = Data(max_documents=20, max_train_queries=5, max_dev_queries=5)
    first, again, other = kept(splits, data), kept(dict(reversed(splits.items())), data), kept(splits, data, seed=2)
    assert first.documents.tolist() == again.documents.tolist()
    assert first.queries["train"].tolist() == again.queries["train"].tolist()
    assert first.documents.tolist() != other.documents.tolist()


def test_dev_queries_are_the_last_to_give_way() -> None:
    splits = {
        "test": qrels_of({(i, i + 20) for i in range(10)}, 200),
        "train": qrels_of({(i, i) for i in range(10)}, 0),
        "dev": qrels_of({(i, i + 10) for i in range(10)}, 100),
    }
    result = kept(splits, Data(max_documents=15))
    assert {split: len(rows) for split, rows in result.queries.items()} == {"dev": 10, "train": 5, "test": 0}


def test_what_was_left_out_is_counted() -> None:
    drops = Drops()
    splits = {"train": qrels_of({(i, i) for i in range(10)}, 0)}
    keep(splits, np.arange(DOCUMENTS), Data(max_documents=12, max_train_queries=4), 1, drops)
    assert {reason: fact["count"] for reason, fact in drops.facts().items()} == {
        "train queries beyond data.max_train_queries": 6,
        "corpus documents beyond data.max_documents": 18,
    }
