"""The frames of messages: sequence numbers, live messages, replay answers, and what sockets hold of them."""

from __future__ import annotations

END_SEQUENCE = b"\xff" * 8
"""The sequence frame of a replay's end marker."""
END_NUMBER = 2**64 - 1
"""The number that it stands for, which no batch has."""
SEND_MARK = 1000
"""The high-water mark of a ZeroMQ socket that sets none, in messages."""
SYSTEM_BUFFER = 500
"""Messages that the system may buffer between two sockets on top of their marks, roughly."""

STAMPED = (b"\x92\xcb", b"\x93\xcb")
"""How a batch of two or three elements begins whose first one is a float64."""


def number_of(frame: bytes) -> int | None:
    """The sequence number of an 8-byte big-endian frame; None when it is not 8 bytes long."""
    return int.from_bytes(frame, "big") if len(frame) == 8 else None


def stamp_of(payload: bytes) -> bytes | None:
    """The eight bytes of a batch's ``ts``; None where no float64 stands in its place. What follows is not looked at."""
    return payload[2:10] if payload[:2] in STAMPED and len(payload) >= 10 else None


def split_live(frames: tuple[bytes, ...]) -> tuple[int, bytes] | None:
    """Number and payload of a live message of three frames; None when it is malformed."""
    if len(frames) != 3 or (number := number_of(frames[1])) is None:
        return None
    return number, frames[2]


def split_replay(frames: tuple[bytes, ...]) -> tuple[bytes | None, bytes, bytes] | None:
    """Topic, sequence frame and payload of a replay answer as a DEALER reads it.

    The delimiter comes first. Form ``replay-topic`` has four frames; ``replay-bare`` three, and its topic is None.
    None when it is neither: no batch has an empty payload, or that of an end marker whose frames were shifted.
    """
    if len(frames) not in (3, 4) or frames[0] != b"":
        return None
    topic = frames[1] if len(frames) == 4 else None
    sequence, payload = frames[-2:]
    return None if payload in (b"", END_SEQUENCE) and sequence != END_SEQUENCE else (topic, sequence, payload)
