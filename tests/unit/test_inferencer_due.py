"""Which encoders are scored over the whole corpus, also after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dance import artefact
from inferencer.passes import Passes
from tests.fakes import FakeContext


@pytest.mark.parametrize("fraction", [0.25, 1.0])
def test_what_is_due(tmp_path: Path, fraction: float) -> None:
    """The first at or behind every multiple of 100, and the last."""
    made: Any = FakeContext(tmp_path, refresh={"fraction": fraction}, train={"steps": 350, "batch": 2})
    agenda, due = Passes(made), []
    for step in (0, 50, 100, 150, 250, 260, 290, 350):
        if agenda.due(step):
            due.append(step)
            agenda.note(step)
    assert due == [0, 100, 250, 350]
    assert agenda.waiting == (350 if fraction < 1 else None)


def test_every_refresh_is_due_without_an_interval(tmp_path: Path) -> None:
    made: Any = FakeContext(tmp_path, refresh={"fraction": 1.0}, evaluate={})
    assert all(Passes(made).due(step) for step in (0, 50, 51))


def test_a_restart_scores_what_was_not_scored_if_it_is_still_there(tmp_path: Path) -> None:
    made: Any = FakeContext(tmp_path, schedule="sync", train={"steps": 900, "batch": 2})
    with artefact.publishing(made.paths.published("encoders", 200), "encoder", 200):
        pass
    lines = [{"step": 0, "turn": 0}, {"step": 50, "turn": 1}, {"step": 100, "turn": 2}, {"step": 0, "ndcg@10": 0.1}]
    agenda = Passes(made)
    agenda.recall([*lines, {"step": 200, "turn": 3}])
    assert agenda.waiting == 200 and agenda.noted == 200


def test_an_encoder_that_no_pass_will_score_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """refresh.fraction was raised to 1 on resume."""
    made: Any = FakeContext(tmp_path, refresh={"fraction": 1.0}, train={"steps": 900, "batch": 2})
    agenda = Passes(made)
    with caplog.at_level("INFO"):
        agenda.recall([{"step": 0, "ndcg@10": 0.1}, {"step": 50, "turn": 1}, {"step": 100, "turn": 2}])
    assert "step 100 is not scored" in caplog.text and not agenda.holds


def test_a_last_encoder_that_is_scored_but_not_mined_is_not_scored_again(tmp_path: Path) -> None:
    made: Any = FakeContext(tmp_path, train={"steps": 200, "batch": 2})
    agenda = Passes(made)
    agenda.recall([{"step": 100, "turn": 2}, {"step": 100, "ndcg@10": 0.1}, {"step": 200, "ndcg@10": 0.2}])
    assert not agenda.holds and not agenda.due(200)
