"""Everything that travels, and its frame.

    publisher  -> subscribers   Announcement   news, repeated as the heartbeat
    subscriber -> publisher     Want           a piece of a file of an announced artefact
    publisher  -> subscriber    Chunk          that piece
    publisher  -> subscriber    Refusal        it cannot be had any more

A frame is ``MAGIC`` (with the version), the CRC-32 of the body, the body in MessagePack. Data only:
decoding runs no code, and what is not exactly one of these messages is ``Garbled``.
"""

from __future__ import annotations

import zlib
from typing import Annotated

import msgspec
from msgspec import Meta

from ..paths import Kind

VERSION = 1
MAX_CHUNK = 64 << 20  # bytes that one Want may ask for
_NAME = b"dance"
MAGIC = _NAME + bytes([VERSION])
START = "start"  # the phase of a role that was started and has not said yet what it holds
_HEAD = len(MAGIC) + 4  # bytes before the body: magic, checksum

Natural = Annotated[int, Meta(ge=0, le=1 << 62)]  # what a file offset can be
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An artefact that can be had: its step, and the size and digest of its manifest."""

    step: Natural
    digest: Digest  # sha256 of the manifest, hence of all files
    size: Annotated[int, Meta(ge=1)]  # bytes of the manifest


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag=True):
    """Common to all: the run and the kind of artefact that it is about."""

    run: str
    kind: Kind


class Announcement(Message, frozen=True):
    """The publisher's whole state; a later one replaces it."""

    boot: Natural  # start of the publisher, Unix nanoseconds: tells a restart
    sequence: Natural  # grows by one per announcement of one boot
    offer: Offer | None = None
    final: bool = False  # no newer step will come
    phase: str = ""  # what the role is doing
    holds: tuple[int, ...] = ()  # steps of the *other* kind that the role still reads
    finished: bool = False  # the role is done and about to leave


class Want(Message, frozen=True):
    """``length`` bytes of file ``name`` from ``offset``, of the artefact with this manifest digest."""

    step: Natural
    digest: Digest
    name: str
    offset: Natural
    length: Annotated[int, Meta(ge=1, le=MAX_CHUNK)]


class Chunk(Message, frozen=True):
    digest: Digest
    name: str
    offset: Natural
    payload: bytes


class Refusal(Message, frozen=True):
    digest: Digest
    reason: str


AnyMessage = Announcement | Want | Chunk | Refusal
_decoder = msgspec.msgpack.Decoder(AnyMessage)
_encoder = msgspec.msgpack.Encoder()


class Garbled(ValueError):
    """Bytes that are no message of this version."""


def encode(message: Message) -> bytes:
    body = _encoder.encode(message)
    return b"".join((MAGIC, zlib.crc32(body).to_bytes(4, "big"), body))


def decode(frame: bytes) -> AnyMessage:
    """Raises Garbled that says what is wrong."""
    if not frame.startswith(MAGIC):
        raise Garbled(_wrong_start(frame))
    body = memoryview(frame)[_HEAD:]
    if zlib.crc32(body) != int.from_bytes(frame[len(MAGIC) : _HEAD], "big"):
        raise Garbled("checksum differs")
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Garbled(f"no known message: {error}") from None


def _wrong_start(frame: bytes) -> str:
    if frame.startswith(_NAME) and len(frame) >= _HEAD:
        return f"protocol version {frame[len(_NAME)]}, this is {VERSION}: install the same release on both sides"
    return "not a message of this product"
