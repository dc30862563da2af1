"""Files: only what was announced is handed out, and only what is right is kept."""

import hashlib

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dance import artefact
from dance.artefact import MANIFEST, Broken
from dance.exchange.messages import Chunk, Offer, Refusal, Want
from dance.exchange.publisher import Publisher
from dance.exchange.subscriber import Subscriber
from dance.exchange.transfer import WINDOW, Fetch, is_offered, serve
from dance.paths import RunPaths
from tests.exchanging import KIND, publish, settings
from tests.lossy import Clock, Network


def offer_of(path, step=1):
    return Offer(step=step, digest=artefact.digest(path), size=(path / MANIFEST).stat().st_size)


def want(path, name, offset=0, length=10, **changes):
    plain = {"run": "run", "kind": KIND, "step": 1, "digest": artefact.digest(path)} | changes
    return Want(name=name, offset=offset, length=length, **plain)


def carry(fetch, path, turns=1000, spoil=lambda chunk: chunk):
    """Answer everything that a fetch asks for, each turn a second."""
    for now in range(turns):
        for piece in fetch.pieces(float(now)):
            answer = serve(want(path, piece.name, piece.offset, piece.length), path)
            assert isinstance(answer, Chunk), answer
            fetch.accept(spoil(answer), float(now))
        if fetch.complete:
            return


@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(sizes=st.lists(st.integers(0, 300), max_size=5), chunk=st.integers(1, 400))
def test_any_sizes_cross_in_any_chunks(tmp_path_factory, sizes, chunk):
    root = tmp_path_factory.mktemp("cross")
    path = publish(RunPaths(root), 1, {f"f{i}": size for i, size in enumerate(sizes)} or {"none": 0})
    fetch = Fetch(offer_of(path), root / "here" / "step_00000001", chunk, 1.0, 0.0)
    carry(fetch, path)
    placed = fetch.place()
    assert artefact.verify(placed, contents=True) == artefact.read_manifest(path)
    assert fetch.received == fetch.total
    assert [p.name for p in placed.parent.iterdir()] == ["step_00000001"]


def test_the_manifest_comes_first_and_the_window_bounds_what_is_on_its_way(tmp_path):
    path = publish(RunPaths(tmp_path), 1, {"big": 10_000})
    fetch = Fetch(offer_of(path), tmp_path / "here" / "x", 50, 1.0, 0.0)
    first = fetch.pieces(0.0)
    assert {piece.name for piece in first} == {MANIFEST} and len(first) <= WINDOW
    assert fetch.pieces(0.5) == []
    assert fetch.pieces(1.0) == first  # silence: once more
    assert fetch.pieces(2.5) == [] and fetch.pieces(3.0) == first  # and ever less often


def test_a09_only_files_of_the_manifest_are_handed_out(tmp_path):
    path = publish(RunPaths(tmp_path), 1)
    (path.parent / "secret").write_text("x" * 100)
    (path / "unlisted").write_text("x" * 100)
    for name in ("../secret", "unlisted", "/etc/passwd", "sub", "", "rows.bin/../../secret"):
        assert isinstance(serve(want(path, name), path), Refusal), name
    assert isinstance(serve(want(path, "rows.bin"), path), Chunk)
    assert isinstance(serve(want(path, "rows.bin", offset=1 << 62), path), Refusal)


def test_another_artefact_in_its_place_and_a_vanished_one_are_refused(tmp_path):
    path = publish(RunPaths(tmp_path), 1)
    assert "another artefact" in serve(want(path, "rows.bin", digest="0" * 64), path).reason
    assert "gone" in serve(want(path, "rows.bin"), path.parent / "step_00000002").reason


def test_a_file_shorter_than_announced_is_refused_rather_than_waited_for(tmp_path):
    path = publish(RunPaths(tmp_path), 1)
    (path / "rows.bin").write_bytes(b"short")
    assert "shorter" in serve(want(path, "rows.bin", length=100), path).reason


def test_a_file_that_arrives_wrong_is_fetched_anew(tmp_path):
    path = publish(RunPaths(tmp_path), 1)
    fetch = Fetch(offer_of(path), tmp_path / "here" / "x", 64, 1.0, 0.0)
    spoiled = []

    def once(chunk):
        if chunk.name == "rows.bin" and not spoiled:
            spoiled.append(chunk)
            return Chunk(
                run="run",
                kind=KIND,
                digest=chunk.digest,
                name=chunk.name,
                offset=chunk.offset,
                payload=b"?" * len(chunk.payload),
            )
        return chunk

    carry(fetch, path, spoil=once)
    assert is_offered(fetch.place(), offer_of(path)) and spoiled


def test_a_file_that_is_never_right_is_given_up_and_a_newer_step_is_taken(tmp_path):
    clock, theirs, ours = Clock(), RunPaths(tmp_path / "theirs"), RunPaths(tmp_path / "ours")
    network = Network(clock)
    publisher = Publisher("run", KIND, lambda step: theirs.published(KIND, step), 1.0, clock=clock)
    subscriber, end = Subscriber("run", KIND, ours, settings().exchange, clock=clock), network.subscriber()
    rotten = publish(theirs, 1)
    (rotten / "rows.bin").write_bytes(b"?" * 100)
    publisher.announce(1)

    def turns(count):
        for _ in range(count):
            clock.now += 0.1
            publisher.turn(network.publisher)
            subscriber.turn(end)

    turns(100)
    assert subscriber.newest() is None
    assert "fetched 3 times" in subscriber.peer().fetching
    publish(theirs, 2)
    publisher.announce(2)
    turns(100)
    assert subscriber.newest() == 2
    assert [p.name for p in ours.received(KIND, 0).parent.iterdir()] == ["step_00000002"]


def test_a_manifest_that_names_a_file_outside_is_given_up(tmp_path):
    raw = b'{"kind":"negatives","step":1,"files":{"../../evil":{"size":1,"sha256":"x"}},"facts":{}}'
    offer = Offer(step=1, digest=hashlib.sha256(raw).hexdigest(), size=len(raw))
    fetch = Fetch(offer, tmp_path / "here" / "x", 1000, 1.0, 0.0)
    (piece,) = fetch.pieces(0.0)
    with pytest.raises(Broken, match="evil"):
        fetch.accept(Chunk(run="run", kind=KIND, digest=offer.digest, name=piece.name, offset=0, payload=raw), 0.0)


def test_chunks_twice_or_never_asked_for_change_nothing(tmp_path):
    path = publish(RunPaths(tmp_path), 1)
    fetch = Fetch(offer_of(path), tmp_path / "here" / "x", 64, 1.0, 0.0)
    piece = fetch.pieces(0.0)[0]
    chunk = serve(want(path, piece.name, piece.offset, piece.length), path)
    fetch.accept(chunk, 0.0)
    for stray in (
        chunk,
        serve(want(path, "rows.bin", 64, 10), path),
        serve(want(path, MANIFEST, 1, 3), path),
    ):
        fetch.accept(stray, 0.0)
    assert fetch.received == piece.length


def test_a_copy_of_another_artefact_under_the_same_step_is_replaced(tmp_path):
    theirs, ours = RunPaths(tmp_path / "theirs"), RunPaths(tmp_path / "ours")
    path, target = publish(theirs, 1), ours.received(KIND, 1)
    publish(ours, 1, salt=9).rename(_made(target))
    fetch = Fetch(offer_of(path), target, 64, 1.0, 0.0)
    carry(fetch, path)
    assert is_offered(fetch.place(), offer_of(path))


def _made(path):
    path.parent.mkdir(parents=True)
    return path
