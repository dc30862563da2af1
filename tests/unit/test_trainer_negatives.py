"""Adoption and deletion, with fakes that record: all ranks together, only forwards, only what nobody needs."""

import numpy as np
import pytest

from dance import tracking
from dance.config import from_plain
from dance.corpus.qrels import Qrels
from dance.corpus.relevance import Relevance
from dance.exchange import Peer, PeerLost
from dance.mining.table import Drawn, Groups, NegativesTable
from dance.paths import RunPaths
from dance.progress import Reporter
from tests.fakes import FakeStop, FakeSubscriber, FakeWorld
from trainer.negatives import Negatives


class FakePrepared:
    """The text that the tables below were mined from."""

    identity = "abc"

    @property
    def collection(self):
        return self

    def split(self, name):
        return QRELS


QRELS = Qrels.of(np.arange(4), np.arange(4), np.ones(4, dtype=np.int64))


def publish_table(run: RunPaths, step: int) -> None:
    drawn = Drawn(np.arange(4), np.arange(0, 9, 2), np.arange(10, 18), np.zeros(8, np.float32))
    NegativesTable(step, drawn, None, {"turn": 0, "text": "abc"}).publish(run.published("negatives", step))


def negatives(tmp_path, held, world=None, **settings) -> Negatives:
    run = RunPaths(tmp_path)
    config = from_plain({"handover": {"every": 10}, **settings})
    reporter = Reporter("trainer", run.status("trainer"), active=False)
    relevance = Relevance.of(QRELS, np.arange(20))
    return Negatives(
        config, world or FakeWorld(), run, FakePrepared(), relevance, FakeSubscriber(held), FakeStop(), reporter
    )


def test_adopts_what_all_ranks_hold_and_journals_it(tmp_path):
    for step in (0, 10):
        publish_table(RunPaths(tmp_path), step)
    made = negatives(tmp_path, [10], FakeWorld(others=[[0, 1]]))  # another machine is at step 0 still
    assert made.look(12) and made.step == 0 and made.staleness(12) == 12
    assert made.look(13) and made.step == 10
    assert not made.look(14)
    assert tracking.read_lines(RunPaths(tmp_path).journal) == [
        {"step": 12, "negatives_step": 0},
        {"step": 13, "negatives_step": 10},
    ]


def test_a_step_that_one_machine_skipped_is_not_adopted_by_the_others(tmp_path):
    publish_table(RunPaths(tmp_path), 10)
    world = FakeWorld(others=[[10, 1], [0]])  # agreed on 10, but another machine's disk lacks it
    made = negatives(tmp_path, [10], world, negatives={"cold_start": "in_batch"})
    made.start(None)
    assert not made.look(12) and made.step is None


def test_never_goes_back_and_never_adopts_from_the_future(tmp_path):
    for step in (0, 10, 40):
        publish_table(RunPaths(tmp_path), step)
    made = negatives(tmp_path, [10, 0, 40])
    assert made.look(15) and made.step == 10
    assert not made.look(16) and made.step == 10
    assert not made.look(17) and made.step == 10, "step 40 is left over from before a resume at 17"


def test_static_takes_its_first_negatives_only(tmp_path):
    for step in (0, 10):
        publish_table(RunPaths(tmp_path), step)
    made = negatives(tmp_path, [0, 10], schedule="static")
    assert made.look(0) and not made.look(10) and made.step == 0


def test_sync_waits_at_a_handover_and_nowhere_else(tmp_path):
    for step in (0, 10):
        publish_table(RunPaths(tmp_path), step)
    made = negatives(tmp_path, [None, None, 0, 0, 0, 10], schedule="sync")
    assert made.must_wait(0) and made.look(0) and made.step == 0
    assert not any(made.must_wait(step) for step in range(10)) and made.must_wait(10)
    assert made.look(10) and made.step == 10 and made.clocks.waiting > 0


def test_a_stop_on_any_rank_ends_the_wait_on_all(tmp_path):
    made = negatives(tmp_path, [None], FakeWorld(others=[[-1, 1], [-1, 1], [-1, 0]]))
    assert not made.look(0) and made.stopping and made.step is None


def test_a13_a_wait_ends_in_an_error_that_says_who_is_missing(tmp_path):
    made = negatives(tmp_path, [None], exchange={"peer_timeout_seconds": 0.1})
    made.subscriber.peers = Peer()
    with pytest.raises(PeerLost, match="negatives of step 0 or newer, at step 0.*no producer was ever seen at here"):
        made.look(0)
    made.subscriber.peers = Peer(last_seen=5.0, phase="encode", step=0)
    with pytest.raises(PeerLost, match="silent for 5 s.*'encode'"):
        made.look(0)
    made = negatives(tmp_path, [None], exchange={"product_timeout_seconds": 0.1})
    with pytest.raises(TimeoutError, match="alive, in phase 'encode'"):
        made.look(0)


def test_negatives_of_another_text_are_refused(tmp_path):
    publish_table(RunPaths(tmp_path), 0)
    made = negatives(tmp_path, [0])
    made.text = "xyz"
    with pytest.raises(ValueError, match="mined from another text.*would name other documents"):
        made.look(0)


def test_e07_a_positive_among_the_negatives_is_refused_on_adoption(tmp_path):
    publish_table(RunPaths(tmp_path), 0)
    made = negatives(tmp_path, [0])
    made.relevance = Relevance.of(Qrels.of(np.array([1]), np.array([13]), np.array([1])), np.arange(20))
    with pytest.raises(ValueError, match=r"step_00000000 of step 0: 1 are judged relevant to their key"):
        made.look(0)


def test_a07_silence_is_warned_of_once_and_training_goes_on(tmp_path, caplog):
    publish_table(RunPaths(tmp_path), 0)
    made = negatives(tmp_path, [0])
    made.look(0)
    made.subscriber.peers = Peer(last_seen=700.0)
    for step in (41, 42):
        assert not made.look(step)
    assert [r.message for r in caplog.records if "silent for 700 s" in r.message and "41 steps old" in r.message]
    assert sum("silent" in record.message for record in caplog.records) == 1


def test_an_inferencer_that_has_finished_may_be_silent(tmp_path, caplog):
    publish_table(RunPaths(tmp_path), 0)
    made = negatives(tmp_path, [0], schedule="static")
    made.look(0)
    made.subscriber.peers = Peer(last_seen=700.0, finished=True)
    assert not made.look(41)
    assert not caplog.records


def test_groups_of_the_table_fill_the_batches_where_the_settings_say_so(tmp_path):
    run = RunPaths(tmp_path)
    rows = np.array([[2, 0], [3, 1]])
    drawn = Drawn(np.arange(4), np.arange(0, 9, 2), np.arange(10, 18), np.zeros(8, np.float32))
    NegativesTable(0, drawn, None, {"text": "abc"}, Groups(rows, rows)).publish(run.published("negatives", 0))
    publish_table(run, 10)
    settings = {"batches": {"how": "hard_groups", "group_size": 2}, "loss": {"in_batch": True}, "train": {"batch": 2}}
    made = negatives(tmp_path, [0, 10], **settings)
    assert made.look(0)
    examples = made.stream.take(0, 4)
    assert sorted(examples.queries.reshape(2, 2).tolist()) == [[2, 0], [3, 1]] and (examples.negatives >= 10).all()
    with pytest.raises(ValueError, match="step 10 hold no groups"):
        made.look(11)
    assert negatives(tmp_path, [10]).look(11), "ordinary batches need none"


def test_resumed_negatives_that_are_gone_are_named(tmp_path):
    with pytest.raises(ValueError, match="step_00000007 is gone, which the checkpoint needs"):
        negatives(tmp_path, [None]).start(7)
