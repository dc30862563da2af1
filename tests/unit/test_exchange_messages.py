"""Frames: what goes in comes out, and nothing else is let in."""

import json
import logging
import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dance.exchange import messages
from dance.exchange.door import Door
from dance.exchange.messages import Announcement, Chunk, Garbled, Offer, Refusal, Want

DIGEST = "0123456789abcdef" * 4
WANT = {"type": "Want", "run": "r", "kind": "negatives", "step": 1, "digest": DIGEST, "name": "a"}
WANT |= {"offset": 0, "length": 1}
natural = st.integers(0, 2**62)
common = {"run": st.text(max_size=20), "kind": st.sampled_from(["encoders", "negatives"])}
offers = st.builds(Offer, step=natural, digest=st.just(DIGEST), size=st.integers(1, 2**60))
every_message = st.one_of(
    st.builds(
        Announcement, **common, boot=natural, sequence=natural, offer=st.none() | offers, final=st.booleans(),
        phase=st.text(max_size=9), holds=st.lists(natural, max_size=4).map(tuple), finished=st.booleans(),
    ),
    st.builds(
        Want, **common, step=natural, digest=st.just(DIGEST), name=st.text(max_size=9), offset=natural,
        length=st.integers(1, messages.MAX_CHUNK),
    ),
    st.builds(
        Chunk, **common, digest=st.just(DIGEST), name=st.text(max_size=9), offset=natural,
        payload=st.binary(max_size=99),
    ),
    st.builds(Refusal, **common, digest=st.just(DIGEST), reason=st.text(max_size=9)),
)  # fmt: skip


@given(every_message)
def test_a_message_comes_out_as_it_went_in(message):
    assert messages.decode(messages.encode(message)) == message


@given(every_message, st.data())
def test_a09_no_damaged_bit_passes(message, data):
    frame = bytearray(messages.encode(message))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Garbled):
        messages.decode(bytes(frame))


@given(every_message, st.data())
def test_a09_no_cut_frame_passes(message, data):
    frame = messages.encode(message)
    with pytest.raises(Garbled):
        messages.decode(frame[: data.draw(st.integers(0, len(frame) - 1))])


@given(st.binary(max_size=200))
def test_a09_random_bytes_are_garbled(frame):
    with pytest.raises(Garbled):
        messages.decode(frame)


def _framed(plain):
    """Any content in a frame whose checksum is right."""

    body = msgspec.msgpack.encode(plain)
    return messages.MAGIC + messages.zlib.crc32(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        {"type": "Announcement"},
        {"type": "Unknown", "run": "r", "kind": "negatives"},
        {"type": "Refusal", "run": "r", "kind": "weights", "digest": DIGEST, "reason": ""},
        {"type": "Refusal", "run": "r", "kind": "negatives", "digest": "../../etc", "reason": ""},
        {"type": "Refusal", "run": "r", "kind": "negatives", "digest": DIGEST, "reason": "", "more": 1},
        WANT | {"step": -1},
        WANT | {"offset": 2**63},
        WANT | {"length": 1 << 40},
        WANT | {"length": 0},
    ],
)  # fmt: skip
def test_a09_a_wrong_schema_is_garbled(plain):
    with pytest.raises(Garbled):
        messages.decode(_framed(plain))


def test_a09_a_pickle_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (tmp_path.joinpath("run").touch, ())

    with pytest.raises(Garbled):
        messages.decode(pickle.dumps(Evil()))
    assert not (tmp_path / "run").exists()


def test_another_version_is_named():
    frame = messages.encode(Refusal(run="r", kind="negatives", digest=DIGEST, reason=""))
    with pytest.raises(Garbled, match="version 2, this is 1: install the same release"):
        messages.decode(frame[:5] + b"\x02" + frame[6:])


def test_a14_the_door_counts_strangers_and_warns_once(caplog):
    door = Door("mine", "negatives")
    ours = Refusal(run="mine", kind="negatives", digest=DIGEST, reason="")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert door.admit(messages.encode(msgspec.structs.replace(ours, run="theirs"))) is None
            assert door.admit(json.dumps({"step": 1}).encode() * 10_000) is None
    assert door.admit(messages.encode(msgspec.structs.replace(ours, kind="encoders"))) is None
    assert door.admit(messages.encode(ours)) == ours
    assert (door.foreign, door.garbled, len(caplog.records)) == (4, 3, 2)
    assert "theirs" in caplog.text
