"""Captures that nobody would send: damaged, made up, and much too long for what is in them."""

from __future__ import annotations

import gzip
import os
import random
import struct
from pathlib import Path

import pytest
from tests.kit.packets import (
    PUBLISHER,
    REPLAY_PORT,
    SUBSCRIBER,
    Dialogue,
    frame,
    greeting,
    kept,
    live,
    pcap,
    pcapng,
    written,
)
from tests.kit.runs import judged
from tests.kit.stories import T0, cleared, number_frame, payload, stored

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.trace.captures.capture import CaptureError, is_capture, read
from kvwire.trace.records import Trace

MUTATIONS = int(os.environ.get("KVWIRE_MUTATIONS", "300"))
"""How many damaged captures are read; a few ten thousand were once."""


def talks() -> list[Dialogue]:
    """A subscriber and a replay client."""
    batches = [payload(cleared(), ts=T0)] + [payload(stored([at]), ts=T0 + at) for at in range(1, 6)]
    talk = Dialogue().subscribed(b"kv")
    for number, content in enumerate(batches):
        talk.down(live(number, content))
    client = Dialogue(listens=(PUBLISHER, REPLAY_PORT), dials=(SUBSCRIBER, 50000)).asking()
    return [talk.close(), client.ask(1).answer(list(enumerate(batches))[1:]).close()]


def seeds() -> list[bytes]:
    """Files of every form."""
    pieces = [piece for talk in talks() for piece in talk.pieces]
    middle = pieces[14:]
    return [
        pcap(kept(pieces)),
        pcap(kept(middle, "sll2"), "sll2", order=">", nano=True),
        pcapng([("ethernet", kept(pieces)), ("null", kept(middle, "null"))]),
        pcap(kept(pieces, "raw", snaplen=200), "raw"),
        gzip.compress(pcap(kept(pieces, "sll"), "sll")),
    ]


def damaged(chance: random.Random, raw: bytes) -> bytes:
    """A file with a few changes, anywhere in it."""
    data = bytearray(raw)
    for _ in range(chance.choice([1, 1, 2, 5, 30])):
        at = chance.randrange(len(data)) if data else 0
        match chance.randrange(7):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                data[at : at + 4] = struct.pack("<I", chance.choice([0, 1, 8, 2**16, 2**31 - 1, 2**32 - 1]))
            case 2:
                del data[at : at + chance.choice([1, 4, 16, 100, 1000])]
            case 3:
                data[at:at] = chance.randbytes(chance.choice([1, 4, 60]))
            case 4:
                end = at + chance.choice([16, 90, 400])
                data[at:at] = data[at:end]
            case 5:
                del data[at:]
            case _:
                data[at : at + 1] = bytes([data[at] ^ 1 << chance.randrange(8)]) if data else b""
    return bytes(data)


def read_or_refused(path: Path) -> Trace | None:
    """The trace of a file; None where it is refused by name."""
    try:
        return read(path)
    except CaptureError as error:
        if not str(error).startswith(f"{path}: "):
            raise
        return None


@pytest.mark.parametrize("form", range(5))
def test_no_damage_gives_anything_but_a_trace_or_an_error_that_names_the_file(tmp_path: Path, form: int) -> None:
    chance, raw = random.Random(form), seeds()[form]
    path = tmp_path / "kv.pcap"
    traces = 0
    for _ in range(MUTATIONS // 5):
        path.write_bytes(damaged(chance, raw))
        trace = read_or_refused(path)
        if trace is None:
            continue
        traces += 1
        if traces % 10 == 0:
            judged(trace)
    assert traces > MUTATIONS // 50


@pytest.mark.parametrize("size", [0, 1, 3, 4, 23, 24, 30])
def test_a_file_that_is_too_short_is_refused_on_the_command_line(
    tmp_path: Path, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kv.pcap"
    path.write_bytes(seeds()[0][:size])
    assert cli.run(["judge", str(path)]) == Exit.USAGE
    assert str(path) in capsys.readouterr().err


def test_a_packet_of_an_absurd_length_is_not_read(tmp_path: Path) -> None:
    raw = seeds()[0]
    path = tmp_path / "kv.pcap"
    path.write_bytes(raw[:32] + struct.pack("<II", 2**32 - 1, 2**32 - 1) + raw[40:])
    with pytest.raises(CaptureError, match="it holds no packet; the file is damaged: a packet of 4,294,967,295 bytes"):
        read(path)


def test_frames_that_claim_more_than_is_held_end_the_connection(tmp_path: Path) -> None:
    talk = Dialogue().subscribed().down(live(0, payload(cleared())), b"\x02" + struct.pack(">Q", 2**62))
    trace = read(written(tmp_path, talk.down(bytes(1000))))
    assert any("a frame of 4,611,686,018,427,387,904 bytes" in (notice.text) for notice in judged(trace).notices)


def test_a_message_without_an_end_is_not_held(tmp_path: Path) -> None:
    talk = Dialogue().subscribed().down(live(0, payload(cleared())), frame(b"x", 1) * 1200)
    trace = read(written(tmp_path, talk))
    assert any("a message without an end" in notice.text for notice in judged(trace).notices)


@pytest.mark.timeout(30)
def test_a_search_among_what_looks_like_messages_ends(tmp_path: Path) -> None:
    head = b"\x01\x02kv\x01\x08" + number_frame(1)
    likes = (head + b"\x00\x01\x90", head + b"\x02" + bytes(5) + b"\x7f\xff\xff")
    for filling in (b"\x01\x08" * 1_000_000, *(like * 50_000 for like in likes)):
        talk = Dialogue().down(filling)
        with pytest.raises(CaptureError):
            read(written(tmp_path, talk.pieces))


def test_greetings_of_any_kind_are_survived(tmp_path: Path) -> None:
    for raw in (greeting("", major=255), greeting("NULL", minor=255)[:40], b"\xff" * 64, bytes(64)):
        with pytest.raises(CaptureError):
            read(written(tmp_path, Dialogue().shake().up(raw).down(raw)))


def test_what_is_no_capture_is_not_taken_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kv.kvtrace"
    path.write_bytes(b'{"trace":"kvwire-trace-1"}\n')
    assert not is_capture(path)
    assert not is_capture(tmp_path / "missing")
    assert cli.run(["judge", str(path), "--port", "5557"]) == Exit.USAGE
    assert "is no packet capture" in capsys.readouterr().err


def test_a_port_is_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, *talks())
    for text in ("x", "0", "5557:70000", "-1"):
        assert cli.run(["judge", str(path), f"--port={text}"]) == Exit.USAGE
        assert f"--port {text}" in capsys.readouterr().err
