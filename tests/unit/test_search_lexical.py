"""BM25 indexes beside the text: made once, for documents and for queries."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dance import artefact
from dance.search import lexical


@pytest.fixture
def collection(tmp_path: Path) -> Any:
    """A text folder with its manifest; what BM25 reads of it."""
    with artefact.publishing(tmp_path / "home" / "text", "text") as folder:
        (folder / "texts").write_text("as good as any")
    return SimpleNamespace(
        path=tmp_path / "home" / "text",
        titles=["cat", "dog", ""],
        texts=["sat here", "and cow", "cow cow"],
        queries=["one cow", "a dog", "no match", "cow"],
        splits={"train": SimpleNamespace(queries=np.array([1, 3]))},
    )


def test_titles_and_texts_are_found_and_the_index_is_made_once(collection: Any) -> None:
    told: list[int] = []
    found = lexical.documents(collection, told.append).search(["dog", "cow"], 2)
    assert found.rows.tolist() == [[1, -1], [2, 1]] and told == [1, 2, 3]
    digest = artefact.digest(collection.path.parent / "bm25" / "documents")
    lexical.documents(collection, told.append)
    assert told == [1, 2, 3] and artefact.digest(collection.path.parent / "bm25" / "documents") == digest


def test_documents_ask_for_the_queries_of_a_split(collection: Any) -> None:
    texts = list(lexical.document_texts(collection, [1, 2, 0]))
    assert texts == ["dog and cow", " cow cow", "cat sat here"]
    found = lexical.queries(collection, "train").search(texts, 2)
    assert found.rows.tolist() == [[0, 1], [1, -1], [-1, -1]]  # places among the split's queries


def test_an_index_of_another_text_or_cut_short_is_made_again(collection: Any) -> None:
    lexical.documents(collection)
    path = collection.path.parent / "bm25" / "documents"
    (path / "vocab.index.json").write_bytes(b"{")
    assert lexical.documents(collection).search(["dog"], 1).rows.tolist() == [[1]]
    artefact.remove(collection.path)
    with artefact.publishing(collection.path, "text") as folder:
        (folder / "texts").write_text("another text")
    collection.titles = ["", "", "dog"]
    assert lexical.documents(collection).search(["dog"], 1).rows.tolist() == [[2]]
