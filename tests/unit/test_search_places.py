"""Where the vectors of documents lie in a shard."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dance.search.places import Places


@given(data=st.data())
def test_e06_every_vector_of_every_document_asked_for_and_no_other(data: Any) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, 9), max_size=20)), dtype=np.int64)
    documents = np.array(data.draw(st.lists(st.integers(-1, 12), max_size=8)), dtype=np.int64)
    which, places = Places.of(rows).find(documents)
    expected = [
        (i, place) for i, row in enumerate(documents.tolist()) for place in np.flatnonzero(rows == row).tolist()
    ]
    assert list(zip(which.tolist(), places.tolist())) == expected
