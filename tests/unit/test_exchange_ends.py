"""A publisher and a subscriber in one turn of each, without sockets: who says, adopts and deletes what."""

from dataclasses import replace

import pytest

from dance import artefact
from dance.config import Exchange
from dance.exchange.hearing import Hearing, Peer
from dance.exchange.messages import Announcement
from dance.exchange.patience import Patience, PeerLost
from dance.exchange.publisher import Publisher
from dance.exchange.subscriber import Subscriber
from dance.paths import RunPaths, steps
from tests.exchanging import KIND, publish, settings
from tests.lossy import Clock, Network


class Pair:
    def __init__(self, root, shared=False):
        self.clock = Clock()
        self.network = Network(self.clock)
        self.theirs = RunPaths(root / "theirs")
        self.ours = self.theirs if shared else RunPaths(root / "ours")
        self.publisher = Publisher("run", KIND, lambda step: self.theirs.published(KIND, step), 1.0, clock=self.clock)
        self.end = self.network.subscriber()
        self.subscriber = self.new_subscriber()

    def new_subscriber(self):
        return Subscriber("run", KIND, self.ours, settings().exchange, clock=self.clock)

    def turns(self, count=50):
        for _ in range(count):
            self.clock.now += 0.1
            self.publisher.turn(self.network.publisher)
            self.subscriber.turn(self.end)


def test_a10_a_step_that_is_not_complete_cannot_be_announced(tmp_path):
    pair = Pair(tmp_path)
    unfinished = pair.theirs.published(KIND, 3)
    unfinished.mkdir(parents=True)
    (unfinished / "rows.bin").write_bytes(b"half")
    with pytest.raises(artefact.Broken, match="incomplete or absent"):
        pair.publisher.announce(3)


def test_a10_a_slow_writer_is_seen_only_when_done(tmp_path):
    pair = Pair(tmp_path, shared=True)
    with artefact.publishing(pair.theirs.published(KIND, 1), KIND, 1) as folder:
        for name in "abc":
            (folder / name).write_bytes(b"x")
            pair.turns(3)
            assert pair.subscriber.newest() is None
    pair.publisher.announce(1)
    pair.turns(1)
    assert pair.subscriber.newest() == 1


def test_a10_what_a_killed_fetch_left_is_swept_and_never_adopted(tmp_path):
    pair = Pair(tmp_path)
    leftover = artefact.draft(pair.ours.received(KIND, 1))
    (leftover / "rows.bin").write_bytes(b"half")
    pair.subscriber = pair.new_subscriber()
    assert not leftover.exists()
    publish(pair.theirs, 1)
    pair.publisher.announce(1)
    pair.turns()
    artefact.verify(pair.subscriber.path(), contents=True)


def test_on_a_shared_disk_nothing_is_copied(tmp_path):
    pair = Pair(tmp_path, shared=True)
    publish(pair.theirs, 4)
    pair.publisher.announce(4)
    pair.turns()
    assert pair.subscriber.path() == pair.theirs.published(KIND, 4)
    assert pair.publisher.being_read() == set()
    assert not pair.ours.received(KIND, 4).parent.exists()


def test_a_broken_file_on_the_shared_disk_is_not_adopted(tmp_path):
    pair = Pair(tmp_path, shared=True)
    path = publish(pair.theirs, 4)
    pair.publisher.announce(4)
    (path / "rows.bin").write_bytes(b"torn")
    pair.turns()
    assert pair.subscriber.newest() is None
    assert "cannot be had" in pair.subscriber.peer().fetching


def test_a14_leftovers_of_another_run_are_not_what_was_announced(tmp_path):
    """Both folders hold a step 7 of a former run; the announced one is another."""
    pair = Pair(tmp_path)
    publish(pair.ours, 7, salt=1)
    publish(pair.ours, 7, salt=1).rename(_parent_made(pair.ours.received(KIND, 7)))
    publish(pair.ours, 7, salt=2)
    publish(pair.theirs, 7)
    pair.publisher.announce(7)
    pair.turns()
    assert pair.subscriber.newest() == 7
    assert artefact.digest(pair.subscriber.path()) == artefact.digest(pair.theirs.published(KIND, 7))
    assert pair.ours.held(KIND, 7) == pair.subscriber.path()


def test_a14_a_resumed_subscriber_takes_up_its_copy_without_fetching(tmp_path):
    pair = Pair(tmp_path)
    publish(pair.theirs, 7)
    pair.publisher.announce(7)
    pair.turns()
    pair.subscriber = pair.new_subscriber()
    asked = len(pair.publisher.being_read())
    pair.clock.now += 100
    pair.turns(20)
    assert pair.subscriber.newest() == 7
    assert asked == 1 and pair.publisher.being_read() == set()


def test_machines_that_share_a_run_folder_leave_each_others_fetches_and_copies_alone(tmp_path):
    pair = Pair(tmp_path)
    publish(pair.theirs, 7, salt=1)
    pair.publisher.announce(7)
    pair.turns()
    ours, other = pair.subscriber.path(), replace(pair.ours, node=4)
    under_way = artefact.draft(pair.ours.received(KIND, 8))
    assert other.held(KIND, 7) is None, "it may be of a future that a resume went back from"
    pair.ours, pair.end = other, pair.network.subscriber()
    pair.subscriber = pair.new_subscriber()
    publish(pair.theirs, 9)
    pair.publisher.announce(9)
    pair.turns()
    pair.subscriber.release(set())
    assert pair.subscriber.path() == other.held(KIND, 9) == other.received(KIND, 9)
    assert under_way.is_dir()
    artefact.verify(ours, contents=True)


def test_release_keeps_the_newest_the_needed_and_what_is_not_ours(tmp_path):
    pair = Pair(tmp_path)
    for step in range(4):
        publish(pair.theirs, step)
        pair.publisher.announce(step)
        pair.turns()
    received = pair.ours.received(KIND, 0).parent
    assert steps(received) == [0, 1, 2, 3]
    pair.subscriber.release({1})
    assert steps(received) == [1, 3]
    pair.subscriber.release(set())
    assert steps(received) == [3]
    assert steps(pair.theirs.negatives) == [0, 1, 2, 3]


def test_the_peer_is_what_it_said(tmp_path):
    pair = Pair(tmp_path)
    assert pair.subscriber.peer() == Peer()
    publish(pair.theirs, 2)
    pair.publisher.announce(2, final=True, phase="mine", holds=frozenset({9, 5}), finished=True)
    pair.turns(1)
    peer = pair.subscriber.peer()
    assert (peer.step, peer.final, peer.phase, peer.holds, peer.finished) == (2, True, "mine", {5, 9}, True)
    assert peer.last_seen == 0 and peer.restarts == 0


def test_a_disk_that_cannot_be_written_stops_with_the_folder_named(tmp_path):
    pair = Pair(tmp_path)
    publish(pair.theirs, 1)
    pair.publisher.announce(1)
    pair.ours.root.mkdir()
    (pair.ours.root / "received").write_text("in the way")
    with pytest.raises(RuntimeError, match=r"received/negatives-0: cannot keep what is fetched"):
        pair.turns()


def news(boot, sequence, phase=""):
    return Announcement(run="run", kind=KIND, boot=boot, sequence=sequence, phase=phase)


def test_an_overtaken_announcement_does_not_turn_back_the_picture():
    hearing = Hearing(1.0)
    assert hearing.hear(news(1, 5, "new"))
    assert not hearing.hear(news(1, 4, "old"))
    assert hearing.hear(news(2, 1, "restarted"))
    assert not hearing.hear(news(1, 9, "ghost"))
    assert hearing.peer().phase == "restarted" and hearing.peer().restarts == 1


def test_a_restart_with_its_clock_set_back_is_believed_once_the_former_is_silent():
    hearing = Hearing(1.0)
    hearing.hear(news(boot=100, sequence=1))
    for second in range(15):
        hearing.listen(float(second))
        hearing.hear(news(boot=50, sequence=second, phase="back"))
    assert hearing.peer().phase == "back"
    assert hearing.peer().last_seen < 3


def patience(**limits):
    clock = Clock()
    plain = {"peer_timeout_seconds": 10.0, "product_timeout_seconds": 100.0, "heartbeat_seconds": 1.0} | limits
    return Patience(Exchange(**plain), clock), clock


def test_a13_nobody_ever_seen_is_said_with_place_and_time():
    wait, clock = patience()
    wait.check(Peer(), "the first negatives", "ipc:///tmp/x")
    clock.now = 11
    with pytest.raises(
        PeerLost, match=r"waited 11 s for the first negatives: no producer was ever seen at ipc:///tmp/x"
    ):
        wait.check(Peer(), "the first negatives", "ipc:///tmp/x")


def test_a13_a_peer_fallen_silent_is_told_from_one_that_is_busy():
    wait, clock = patience()
    wait.check(Peer(last_seen=9.0, phase="encode"), "negatives", "there")
    with pytest.raises(PeerLost, match=r"silent for 12 s. It was in phase 'encode', its newest step was 7"):
        wait.check(Peer(last_seen=12.0, phase="encode", step=7), "negatives", "there")
    clock.now = 101
    with pytest.raises(TimeoutError, match=r"waited 101 s .* alive, in phase 'encode', newest step None; fetching"):
        wait.check(Peer(last_seen=0.5, phase="encode", fetching="fetching step 3"), "negatives", "there")


def test_a13_a_peer_that_finished_and_left_is_not_waited_for_long():
    wait, _ = patience(peer_timeout_seconds=600.0)
    wait.check(Peer(last_seen=5.0, finished=True), "negatives", "there")
    wait.check(Peer(last_seen=50.0, finished=True, fetching="fetching step 3"), "negatives", "there")
    with pytest.raises(PeerLost, match="It had finished"):
        wait.check(Peer(last_seen=11.0, finished=True), "negatives", "there")


def _parent_made(path):
    path.parent.mkdir(parents=True)
    return path


def test_what_is_announced_beyond_the_readers_own_step_waits_until_that_is_reached(tmp_path):
    pair = Pair(tmp_path)
    pair.subscriber.reached = 20
    for step in (20, 30):
        publish(pair.theirs, step)
    pair.publisher.announce(30)  # by a peer that has not heard yet that we went back to 20
    pair.turns()
    assert pair.subscriber.newest() is None
    pair.publisher.announce(20)
    pair.turns()
    assert pair.subscriber.newest() == 20
    pair.publisher.announce(30)
    pair.subscriber.reached = 30
    pair.turns()
    assert pair.subscriber.newest() == 30
