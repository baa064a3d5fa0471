"""Packet captures as traces: whatever the packets went through, the records are those of the messages."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.packets import (
    LINKS,
    LIVE_PORT,
    PUBLISHER,
    REPLAY_PORT,
    STEP_NS,
    SUBSCRIBER,
    T0_NS,
    Dialogue,
    Link,
    Piece,
    command,
    frame,
    greeting,
    kept,
    live,
    message,
    pcap,
    pcapng,
    ready,
    written,
)
from tests.kit.runs import judged, replayed
from tests.kit.stories import T0, cleared, number_frame, payload, removed, stored

from kvwire.judges.verdict import Verdict
from kvwire.trace.captures.capture import CaptureError, Told, open_capture, read
from kvwire.trace.captures.flow import HELD_BYTES, SETTLE_NS
from kvwire.trace.captures.layers import ACK, SYN
from kvwire.trace.captures.zmtp import SEARCH_BYTES
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import CaptureGap, CaptureNote, ReplayDone, ReplayRequest
from kvwire.trace.records import Kind, Trace

BATCHES = [payload(cleared(), ts=T0)] + [
    payload(stored([at], size=64), *([removed([at - 3])] if at > 3 else []), ts=T0 + at) for at in range(1, 12)
]
"""Batches of a stream; all but the first take long frames."""
TOPIC = b"kv"


def frames(number: int, content: bytes | None = None) -> tuple[bytes, ...]:
    return TOPIC, number_frame(number), BATCHES[number] if content is None else content


def published(
    numbers: Sequence[int] = range(len(BATCHES)), dialogue: Dialogue | None = None, *, rank: int = 0
) -> Dialogue:
    """A subscriber that hears batches of these numbers; other ranks send others."""
    talk = dialogue or Dialogue().subscribed()
    for number in numbers:
        talk.down(live(number, payload(stored([number]), ts=T0 + number, rank=rank) if rank else BATCHES[number]))
    return talk


def heard(trace: Trace, source: str = "live-a") -> list[tuple[bytes, ...]]:
    return [record.frames for record in trace.records if record.source == source and record.frames is not None]


def numbers(trace: Trace, source: str = "live-a") -> list[int]:
    return [int.from_bytes(found[1], "big") for found in heard(trace, source)]


def details(trace: Trace, kind: type[Kind]) -> list[Kind]:
    return [record.detail for record in trace.records if isinstance(record.detail, kind)]


def monitored(trace: Trace, source: str = "live-a") -> list[str]:
    return [said.event for said in details(trace, SocketEvent) if said.of == source]


def notes(trace: Trace) -> str:
    return " | ".join(note.text for note in details(trace, CaptureNote))


def of_data(pieces: Sequence[Piece], number: int) -> int:
    """The index of the piece that holds a batch."""
    return next(at for at, piece in enumerate(pieces) if piece.down and BATCHES[number] in piece.data)


# --- what a whole capture gives ----------------------------------------------------------------------------------


def test_messages_come_as_they_were_sent_with_the_times_of_their_packets(tmp_path: Path) -> None:
    talk = published().close()
    trace = read(written(tmp_path, talk))
    assert heard(trace) == [frames(number) for number in range(len(BATCHES))]
    first = next(record for record in trace.records if record.frames)
    assert first.t_ns == T0_NS + of_data(talk.pieces, 0) * STEP_NS
    assert monitored(trace) == ["HANDSHAKE_SUCCEEDED"]
    (stream,) = trace.header.streams
    assert (stream.name, stream.endpoint, stream.replay) == ("10.0.0.5:5557", "tcp://10.0.0.5:5557", None)
    assert (trace.header.level, trace.header.profile, trace.header.target) == ("passive", "core", "trace:kv.pcap")
    assert notes(trace) == ""


def test_the_trace_is_one_like_any_other_and_is_judged(tmp_path: Path) -> None:
    trace = read(written(tmp_path, published().close()))
    assert replayed(trace) == trace
    verdicts = {line.requirement: line.verdict for line in judged(trace).outcomes}
    assert verdicts["KVW-SEQ-003"] is verdicts["KVW-BAT-002"] is verdicts["KVW-EVT-005"] is Verdict.PASS
    assert not {Verdict.FAIL, Verdict.WARN, Verdict.ERROR} & set(verdicts.values())


def test_what_a_publisher_breaks_is_broken_in_its_capture(tmp_path: Path) -> None:
    talk = published([0, 1]).down(live(2, payload(stored([5]), ts=T0).replace(b"\xcb", b"\xca", 1)))
    failed = {line.requirement for line in judged(read(written(tmp_path, talk))).outcomes if line.violations}
    assert "KVW-BAT-001" in failed or "KVW-BAT-002" in failed


@pytest.mark.parametrize("host", ["10.0.0.5", "fd00::5"])
@pytest.mark.parametrize("link", LINKS)
def test_every_link_layer_is_read_with_both_versions_of_ip(tmp_path: Path, link: Link, host: str) -> None:
    peer = "10.0.0.9" if "." in host else "fd00::9"
    talk = published(dialogue=Dialogue(listens=(host, LIVE_PORT), dials=(peer, 40000)).subscribed())
    trace = read(written(tmp_path, talk, link=link))
    assert numbers(trace) == list(range(len(BATCHES)))
    assert trace.header.streams[0].endpoint == ("tcp://10.0.0.5:5557" if "." in host else "tcp://[fd00::5]:5557")


def test_what_the_header_says_of_check_sequences_is_no_link_type(tmp_path: Path) -> None:
    path = written(tmp_path, published())
    raw = bytearray(path.read_bytes())
    raw[23] = 0x24  # four bytes of each frame, and they are told
    path.write_bytes(raw)
    assert numbers(read(path)) == list(range(len(BATCHES)))


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_form_of_file_gives_the_same(tmp_path: Path, order: str) -> None:
    packets = kept(published().pieces)
    path = tmp_path / "kv"
    wanted: Trace | None = None
    for raw in (
        pcap(packets, order=order),
        pcap(packets, order=order, nano=True),
        pcapng([("ethernet", packets)], order=order),
    ):
        for content in (raw, gzip.compress(raw)):
            path.write_bytes(content)
            trace = read(path)
            kept_records = [record for record in trace.records if not isinstance(record.detail, CaptureNote)]
            wanted = wanted or trace
            assert kept_records == list(wanted.records)


def test_interfaces_of_a_pcapng_file_have_link_types_of_their_own(tmp_path: Path) -> None:
    ours, theirs = (
        published([0, 1]),
        published([0, 1, 2], Dialogue(dials=(SUBSCRIBER, 40001), isns=(5, 6)).subscribed()),
    )
    path = tmp_path / "kv.pcapng"
    path.write_bytes(pcapng([("sll2", kept(ours.pieces, "sll2")), ("ethernet", kept(theirs.pieces))]))
    trace = read(path)
    assert (numbers(trace), numbers(trace, "live-b")) == ([0, 1], [0, 1, 2])
    assert "the capturing system dropped 7 packets" in notes(trace)


# --- what packets go through -------------------------------------------------------------------------------------


def test_repetitions_and_overlaps_change_nothing(tmp_path: Path) -> None:
    pieces: list[Piece] = []
    for piece in published().pieces:
        pieces += [piece, piece, *piece.cut(7), msgspec.structs.replace(piece, data=piece.data[:9])]
    assert heard(read(written(tmp_path, pieces))) == [frames(number) for number in range(len(BATCHES))]


def test_sequence_numbers_wrap(tmp_path: Path) -> None:
    edge = 2**32 - 900
    talk = published(dialogue=Dialogue(isns=(2**32 - 70, edge)).subscribed())
    pieces = talk.pieces
    assert any(piece.seq > edge and piece.seq + len(piece.data) > 2**32 for piece in pieces)
    assert numbers(read(written(tmp_path, pieces))) == list(range(len(BATCHES)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), wrap=st.booleans(), data=st.data())
def test_any_segmentation_duplication_and_order_of_packets_gives_the_same_records(
    tmp_path: Path, seed: int, wrap: bool, data: st.DataObject
) -> None:
    chance = random.Random(seed)
    isns = (2**32 - 80, 2**32 - 500) if wrap else (1, 2)
    first = published(dialogue=Dialogue(isns=isns).subscribed()).close(by_dialled=True)
    client = Dialogue(listens=(PUBLISHER, REPLAY_PORT), dials=(SUBSCRIBER, 50000)).asking().ask(0)
    client.answer(enumerate(BATCHES)).close()
    pieces: list[Piece] = []
    for piece in [*first.pieces, *client.pieces]:
        cuts = (
            chance.sample(range(1, len(piece.data)), k=chance.randrange(min(4, len(piece.data))))
            if len(piece.data) > 1
            else []
        )
        pieces += piece.cut(*cuts) * chance.choice([1, 1, 2])
    reach = data.draw(st.sampled_from([1, 3, 20, len(pieces)]))
    order = sorted(range(len(pieces)), key=lambda at: at + chance.uniform(0, reach))
    step = (SETTLE_NS - 1) // (2 * len(pieces))  # the capture settles within what is allowed for
    shuffled = [msgspec.structs.replace(pieces[at], t_ns=T0_NS + index * step) for index, at in enumerate(order)]
    trace = read(written(tmp_path, shuffled))
    assert heard(trace) == [frames(number) for number in range(len(BATCHES))]
    answer = [(b"", *frames(number)) for number in range(len(BATCHES))]
    assert heard(trace, "replay-1") == [*answer, (b"", b"", b"\xff" * 8, b"")]
    assert details(trace, CaptureGap) == []


def test_a_message_in_a_lost_packet_is_a_hole_of_the_capture_and_nobodys_fault(tmp_path: Path) -> None:
    pieces = published().pieces
    at = of_data(pieces, 4)
    # The frame of the payload began in another packet, so that its length is known.
    head, body = pieces[at].cut(30)
    trace = read(written(tmp_path, [*pieces[:at], head, *pieces[at + 1 :]]))
    assert numbers(trace) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert details(trace, CaptureGap) == [CaptureGap(of="live-a", bytes=len(body.data), exact=True)]
    result = judged(trace)
    assert [(hole.first, hole.last, hole.attribution) for hole in result.holes] == [("4", "4", "transport")]
    assert not [line for line in result.outcomes if line.violations]
    assert "the capture lacks packets in one place" in notes(trace)


def test_reading_goes_on_behind_a_lost_packet_where_messages_in_a_row_show_the_place(tmp_path: Path) -> None:
    pieces = published().pieces
    at = of_data(pieces, 4)
    trace = read(written(tmp_path, [*pieces[:at], *pieces[at + 1 :]]))
    assert numbers(trace) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert [gap.exact for gap in details(trace, CaptureGap)] == [False]


def test_reading_ends_where_nothing_shows_the_place(tmp_path: Path) -> None:
    rest = [payload(stored([at], size=20_000), ts=T0 + at) for at in range(400)]
    talk = published([0, 1, 2])
    for number in range(3, 400, 2):  # never two in a row
        talk.down(live(number, rest[number]))
    pieces = [piece for at, piece in enumerate(talk.pieces) if at != of_data(talk.pieces, 2)]
    assert sum(len(piece.data) for piece in pieces) > SEARCH_BYTES
    trace = read(written(tmp_path, pieces))
    assert numbers(trace) == [0, 1]
    assert "tcp://10.0.0.5:5557: no message is found again there" in notes(trace)


def test_the_other_witness_fills_a_hole_of_the_capture(tmp_path: Path) -> None:
    one, other = published(), published(dialogue=Dialogue(dials=(SUBSCRIBER, 40001), isns=(7, 8)).subscribed())
    cut = [piece for at, piece in enumerate(one.pieces) if at != of_data(one.pieces, 4)]
    trace = read(written(tmp_path, cut, other))
    assert numbers(trace, "live-b") == list(range(len(BATCHES)))
    assert [hole.why for hole in judged(trace).holes] == ["live-a lacks 1 of them, which live-b delivered"]


def test_packets_kept_in_part_are_said_and_what_is_whole_is_read(tmp_path: Path) -> None:
    trace = read(written(tmp_path, published(), snaplen=200))
    assert numbers(trace) == [0]
    assert "11 packets were kept in part, 200 bytes at most: capture with `tcpdump -s 0`" in notes(trace)
    assert not [line for line in judged(trace).outcomes if line.violations]


def test_a_hole_is_awaited_no_longer_than_the_order_of_packets_may_differ(tmp_path: Path) -> None:
    pieces = published().pieces
    at = of_data(pieces, 1)
    late = msgspec.structs.replace(pieces[at], t_ns=T0_NS + 5 * SETTLE_NS)
    rest = [
        msgspec.structs.replace(piece, t_ns=T0_NS + (2 * SETTLE_NS if index > at + 8 else 0))
        for index, piece in enumerate(pieces)
        if index != at
    ]
    assert numbers(read(written(tmp_path, [*rest, late]))) == [0, *range(2, len(BATCHES))]


def test_one_direction_alone_is_enough(tmp_path: Path) -> None:
    pieces = [piece for piece in published().pieces if piece.down]
    assert numbers(read(written(tmp_path, pieces))) == list(range(len(BATCHES)))


def test_what_is_held_behind_a_hole_is_bounded(tmp_path: Path) -> None:
    large = payload(stored([3], size=50_000))
    talk = published([0])
    for number in range(1, 60):
        talk.down(live(number, large))
    pieces = [msgspec.structs.replace(piece, t_ns=T0_NS, ack=0) for piece in talk.pieces if piece.down]
    del pieces[of_data(pieces, 0)]
    path = written(tmp_path, pieces)
    found = numbers(read(path))
    assert found == list(range(1, 60))
    assert len(large) * 60 > 2 * HELD_BYTES


# --- where a capture begins and ends -----------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 5, 40, 300])
def test_a_capture_that_begins_in_the_middle_is_read_from_the_first_whole_message(tmp_path: Path, cut: int) -> None:
    pieces = published().pieces
    at = of_data(pieces, 3)
    begin = msgspec.structs.replace(pieces[at], seq=pieces[at].seq + cut, data=pieces[at].data[cut:])
    trace = read(written(tmp_path, [begin, *pieces[at + 1 :]]))
    assert numbers(trace) == list(range(4 if cut else 3, len(BATCHES)))
    assert trace.header.streams[0].endpoint == "tcp://10.0.0.5:5557"
    assert not [line for line in judged(trace).outcomes if line.violations]


def test_one_message_is_enough_where_the_user_names_the_port(tmp_path: Path) -> None:
    pieces = published().pieces
    path = written(tmp_path, pieces[of_data(pieces, 11) :])
    with pytest.raises(CaptureError, match="name the publish port with --port"):
        read(path)
    assert numbers(read(path, Told(ports={LIVE_PORT: None}))) == [11]
    assert numbers(read(path, Told(topic="kv"))) == [11]


def test_what_is_no_message_is_never_taken_for_one(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(300_000)
    talk = Dialogue().shake().down(b"HTTP/1.1 200 OK\r\n\r\n", noise)
    middle = Dialogue(dials=(SUBSCRIBER, 40001)).down(noise, b"\x01\x02kv\x01\x08" + bytes(8), noise)
    with pytest.raises(CaptureError, match="no PUB socket was recognised in 2 connections"):
        read(written(tmp_path, talk, middle))


def test_a_replay_in_a_capture_that_began_in_the_middle_is_read_where_its_request_was_seen(tmp_path: Path) -> None:
    client = Dialogue(listens=(PUBLISHER, REPLAY_PORT), dials=(SUBSCRIBER, 50000)).asking()
    begin = len(client.pieces)
    client.ask(2).answer([(number, BATCHES[number]) for number in range(2, 12)])
    trace = read(written(tmp_path, published(), client.pieces[begin:]))
    assert [asked.start for asked in details(trace, ReplayRequest)] == ["2"]
    assert [done.outcome for done in details(trace, ReplayDone)] == ["marker"]


def test_a_file_that_ends_in_the_middle_of_a_packet_is_read_up_to_there(tmp_path: Path) -> None:
    path = written(tmp_path, published())
    path.write_bytes(path.read_bytes()[:-5])
    trace = read(path)
    assert numbers(trace) == list(range(len(BATCHES)))  # the last packet is an acknowledgement
    assert "the file ends in the middle of a packet behind packet" in notes(trace)


# --- connections and streams -------------------------------------------------------------------------------------


def test_two_subscribers_are_two_witnesses_and_a_third_takes_the_place_of_one_that_left(tmp_path: Path) -> None:
    talks = [Dialogue(dials=(SUBSCRIBER, 40000 + at), isns=(at, 100 + at)).subscribed() for at in range(3)]
    pieces = [piece for talk in talks for piece in talk.pieces]
    for number in range(len(BATCHES)):
        if number == 5:
            begun = len(talks[0].pieces)
            pieces += talks[0].close().pieces[begun:]
        for talk in talks[1:] if number >= 5 else talks:
            begun = len(talk.pieces)
            pieces += talk.down(live(number, BATCHES[number])).pieces[begun:]
    trace = read(written(tmp_path, pieces))
    assert numbers(trace) == numbers(trace, "live-b") == list(range(len(BATCHES)))
    assert monitored(trace) == ["HANDSHAKE_SUCCEEDED", "DISCONNECTED", "HANDSHAKE_SUCCEEDED"]
    assert [line.requirement for line in judged(trace).outcomes if line.violations] == []


def test_a_subscriber_that_hangs_for_good_is_no_witness_any_more(tmp_path: Path) -> None:
    talks = [Dialogue(dials=(SUBSCRIBER, 40000 + at), isns=(at, 100 + at)).subscribed() for at in range(3)]
    pieces = [piece for talk in talks for piece in talk.pieces]
    for number in range(len(BATCHES)):
        for talk in talks[2:] if number >= 5 else talks:
            begun = len(talk.pieces)
            talk.down(live(number, BATCHES[number]))
            at = T0_NS + number * 20 * 10**9
            pieces += [msgspec.structs.replace(piece, t_ns=at) for piece in talk.pieces[begun:]]
    trace = read(written(tmp_path, [msgspec.structs.replace(piece, t_ns=piece.t_ns or T0_NS) for piece in pieces]))
    assert sorted({*numbers(trace), *numbers(trace, "live-b")}) == list(range(len(BATCHES)))


def test_a_publisher_that_goes_and_comes_back_begins_a_new_life(tmp_path: Path) -> None:
    first = published(range(6)).close(by_dialled=True)
    second = Dialogue(dials=(SUBSCRIBER, 40001), isns=(77, 88)).subscribed()
    second.down(live(0, payload(cleared(), ts=T0 + 100)))
    for number in range(1, 4):
        second.down(live(number, payload(stored([50 + number], size=64), ts=T0 + 100 + number)))
    trace = read(written(tmp_path, first, second))
    assert monitored(trace) == ["HANDSHAKE_SUCCEEDED", "DISCONNECTED", "HANDSHAKE_SUCCEEDED"]
    result = judged(trace)
    assert [stream.incarnations for stream in result.streams] == [2]
    assert [notice.what for notice in result.notices] == ["connection-back"]
    assert not [line for line in result.outcomes if line.violations]


def test_a_life_whose_end_the_capture_lacks_ends_where_another_begins(tmp_path: Path) -> None:
    first = published(range(6))
    again = Dialogue(dials=(SUBSCRIBER, 40001), isns=(5, 6)).subscribed()
    again.down(*(live(number, payload(stored([90 + number]), ts=T0 + 60)) for number in range(4)))
    trace = read(written(tmp_path, first, again))
    assert (numbers(trace), numbers(trace, "live-b")) == ([*range(6)], [*range(4)])
    assert monitored(trace) == ["HANDSHAKE_SUCCEEDED", "DISCONNECTED"]
    assert not [line for line in judged(trace).outcomes if line.violations]
    late = published(range(4, 9), Dialogue(dials=(SUBSCRIBER, 40001), isns=(5, 6)).subscribed())
    assert monitored(read(written(tmp_path, first, late))) == ["HANDSHAKE_SUCCEEDED"]


def test_what_is_found_when_a_connection_ends_is_as_old_as_its_packets(tmp_path: Path) -> None:
    first = published(range(3, 5)).pieces[-4:]
    again = Dialogue(dials=(SUBSCRIBER, 40001), isns=(5, 6)).subscribed()
    again.down(*(live(number, payload(stored([90 + number]), ts=T0 + 60)) for number in range(6)))
    for pause_ns in (STEP_NS, 30 * 10**9):
        pieces = [
            msgspec.structs.replace(piece, t_ns=T0_NS + at * STEP_NS + (pause_ns if at > len(first) else 0))
            for at, piece in enumerate([*first, *again.pieces])
        ]
        trace = read(written(tmp_path, pieces))
        assert [*range(6)] in (numbers(trace)[-6:], numbers(trace, "live-b"))
        assert not [line for line in judged(trace).outcomes if line.violations]


def test_the_same_addresses_are_used_again_for_a_new_connection(tmp_path: Path) -> None:
    first = published(range(6)).close(by_dialled=True)
    second = published(range(6, 12), Dialogue(isns=(5000, 6000)).subscribed())
    trace = read(written(tmp_path, first, second))
    assert numbers(trace) == list(range(12))
    assert monitored(trace) == ["HANDSHAKE_SUCCEEDED", "DISCONNECTED", "HANDSHAKE_SUCCEEDED"]


def test_addresses_that_are_used_again_unseen_are_those_of_another_connection(tmp_path: Path) -> None:
    first, again = published(range(6)), Dialogue(isns=(300_000_000, 1_000_000_000)).subscribed()
    again.down(*(live(number, payload(stored([90 + number]), ts=T0 + 60)) for number in range(4)))
    trace = read(written(tmp_path, first, again.pieces[3:]))
    assert numbers(trace) == [*range(6), *range(4)]
    assert monitored(trace) == ["HANDSHAKE_SUCCEEDED", "DISCONNECTED", "HANDSHAKE_SUCCEEDED"]
    assert not [line for line in judged(trace).outcomes if line.violations]


def test_ports_are_streams_and_each_has_the_replay_socket_at_its_distance(tmp_path: Path) -> None:
    talks: list[Dialogue] = []
    for rank in range(3):
        talks.append(
            published(dialogue=Dialogue(listens=(PUBLISHER, 5557 + rank), isns=(rank, 9)).subscribed(), rank=rank)
        )
        client = Dialogue(listens=(PUBLISHER, 5657 + rank), dials=(SUBSCRIBER, 50000 + rank), isns=(rank, 3)).asking()
        talks.append(client.ask(10).answer([(10, BATCHES[10]), (11, BATCHES[11])]))
    trace = read(written(tmp_path, *talks))
    assert [(info.endpoint[-4:], (info.replay or "")[-4:]) for info in trace.header.streams] == [
        ("5557", "5657"),
        ("5558", "5658"),
        ("5559", "5659"),
    ]
    streams = {record.source: record.stream[-4:] for record in trace.records if record.is_replay}
    assert streams == {"replay-1": "5557", "replay-2": "5558", "replay-3": "5559"}


def test_a_replay_socket_of_which_nothing_tells_whose_it_is_is_said_and_can_be_named(tmp_path: Path) -> None:
    talks = [published(dialogue=Dialogue(listens=(PUBLISHER, port)).subscribed(), rank=port) for port in (5557, 5600)]
    client = Dialogue(listens=(PUBLISHER, 5657), dials=(SUBSCRIBER, 50000)).asking().ask(11).answer([(11, BATCHES[11])])
    path = written(tmp_path, *talks, client)
    trace = read(path)
    assert "tcp://10.0.0.5:5657: it is unknown whose replay socket that is; say so with --port" in notes(trace)
    assert not details(trace, ReplayRequest)
    named = read(path, Told(ports={5557: None, 5600: 5657}))
    assert [info.replay for info in named.header.streams] == [None, "tcp://10.0.0.5:5657"]
    assert {record.stream for record in named.records if record.is_replay} == {"10.0.0.5:5600"}


def test_only_the_named_ports_are_read(tmp_path: Path) -> None:
    talks = [published(dialogue=Dialogue(listens=(PUBLISHER, port)).subscribed(), rank=port) for port in (5557, 5558)]
    trace = read(written(tmp_path, *talks), Told(ports={5558: None}))
    assert [info.name for info in trace.header.streams] == ["10.0.0.5:5558"]


def test_one_publisher_at_several_addresses_is_one_stream(tmp_path: Path) -> None:
    inside = published(dialogue=Dialogue(listens=("127.0.0.1", 5557), dials=("127.0.0.1", 40000)).subscribed())
    outside = published(dialogue=Dialogue(isns=(5, 6)).subscribed())
    trace = read(written(tmp_path, inside, outside))
    assert [info.name for info in trace.header.streams] == ["10.0.0.5:5557"]
    assert numbers(trace) == numbers(trace, "live-b") == list(range(len(BATCHES)))
    assert judged(trace).notices == ()


def test_ranks_that_send_nothing_but_the_like_stay_several_streams(tmp_path: Path) -> None:
    talks = []
    for rank in range(2):
        talk = Dialogue(listens=(PUBLISHER, 5557 + rank)).subscribed()
        for number in range(8):
            talk.down(live(number, payload(stored([number]), ts=T0 + number + rank / 8, rank=rank)))
        talks.append(talk)
    assert len(read(written(tmp_path, *talks)).header.streams) == 2


def test_a_connection_whose_addresses_are_translated_is_seen_once(tmp_path: Path) -> None:
    talk = published()
    behind = Dialogue(listens=("172.17.0.2", 5557), dials=("172.17.0.1", 40000))
    both = [copy for piece in talk.pieces for copy in (piece, msgspec.structs.replace(piece, dialogue=behind))]
    trace = read(written(tmp_path, both))
    assert len(trace.header.streams) == 1
    assert numbers(trace) == list(range(len(BATCHES)))
    assert heard(trace, "live-b") == []


def test_a_publisher_that_dials_is_named_by_whom_it_dials(tmp_path: Path) -> None:
    talks = [
        Dialogue(listens=(SUBSCRIBER, 6000), dials=(PUBLISHER, 40000 + at), isns=(at, 9))
        .greet("PUB", "SUB")
        .down(command("SUBSCRIBE"))
        for at in range(2)
    ]
    pieces = [piece for talk in talks for piece in talk.pieces]
    for number in range(3):
        for at, talk in enumerate(talks):
            begun = len(talk.pieces)
            pieces += talk.up(live(number, payload(stored([at]), ts=T0 + number + at / 8))).pieces[begun:]
    trace = read(written(tmp_path, pieces))
    assert [info.name for info in trace.header.streams] == ["10.0.0.9:6000-0", "10.0.0.9:6000-1"]
    assert Counter(record.stream for record in trace.records if record.frames) == {
        "10.0.0.9:6000-0": 3,
        "10.0.0.9:6000-1": 3,
    }


# --- what is spoken ----------------------------------------------------------------------------------------------


def test_both_minor_versions_subscriptions_heartbeats_and_long_frames_are_read(tmp_path: Path) -> None:
    for minor in (0, 1):
        talk = Dialogue(minor=minor).subscribed(b"kv")
        talk.up(message(b"\x01other"), message(b"\x00other"), command("CANCEL", b"kv"), command("SUBSCRIBE", b"kv"))
        talk.down(command("PING", b"\x00\x64abc")).up(command("PONG", b"abc"))
        small = frame(TOPIC, 1, long=True) + frame(number_frame(0), 1) + frame(BATCHES[0], long=True)
        talk.down(small).down(command("PING", b"\x00\x64"), live(1, BATCHES[1]))
        trace = read(written(tmp_path, talk))
        assert heard(trace) == [frames(0), frames(1)]


def test_messages_of_any_shape_are_kept_as_they_are(tmp_path: Path) -> None:
    odd = [(b"",), (b"kv", b"short"), (b"kv", number_frame(1), b"x", b"y"), tuple(b"%d" % at for at in range(50))]
    talk = published([0])
    for one in odd:
        talk.down(message(*one))
    assert heard(read(written(tmp_path, talk))) == [frames(0), *odd]


@pytest.mark.parametrize("mechanism", ["CURVE", "PLAIN", "GSSAPI"])
def test_other_security_than_null_is_refused_with_a_word_why(tmp_path: Path, mechanism: str) -> None:
    talk = Dialogue().shake().up(greeting(mechanism)).down(greeting(mechanism)).down(b"\x04\x06secret", bytes(500))
    with pytest.raises(CaptureError, match=f"tcp://10.0.0.5:5557: its security is {mechanism}, .* cannot be read"):
        read(written(tmp_path, talk))


def test_an_older_zmtp_is_refused_with_a_word_why(tmp_path: Path) -> None:
    talk = Dialogue().shake().up(greeting(major=1)).down(greeting(major=1))
    with pytest.raises(CaptureError, match="ZMTP 1 is spoken there"):
        read(written(tmp_path, talk))


def test_other_sockets_are_no_streams(tmp_path: Path) -> None:
    talk = Dialogue(listens=(PUBLISHER, 7000)).greet("PUSH", "PULL").up(live(0, BATCHES[0]))
    assert [info.name for info in read(written(tmp_path, talk, published())).header.streams] == ["10.0.0.5:5557"]


def test_replay_is_read_as_requests_and_answers_and_is_judged(tmp_path: Path) -> None:
    client = Dialogue(listens=(PUBLISHER, REPLAY_PORT), dials=(SUBSCRIBER, 50000)).asking("REQ")
    client.ask(0).answer(enumerate(BATCHES)).ask(99).answer([]).close()
    trace = read(written(tmp_path, published(), client))
    asked = details(trace, ReplayRequest)
    assert [(one.client, one.start, one.connection) for one in asked] == [
        ("replay-1", "0", ""),
        ("replay-2", "99", "replay-1"),
    ]
    assert [(done.client, done.outcome, done.messages) for done in details(trace, ReplayDone)] == [
        ("replay-1", "marker", 13),
        ("replay-2", "marker", 1),
    ]
    assert trace.header.profile == "replay"
    verdicts = {line.requirement: line.verdict for line in judged(trace).outcomes}
    assert {verdicts[f"KVW-REP-00{n}"] for n in (1, 2, 3, 4, 8)} == {Verdict.PASS}


def test_answers_to_requests_in_a_row_are_told_apart(tmp_path: Path) -> None:
    client = Dialogue(listens=(PUBLISHER, REPLAY_PORT), dials=(SUBSCRIBER, 50000)).asking().ask(10).ask(11)
    client.answer([(10, BATCHES[10]), (11, BATCHES[11])]).answer([(11, BATCHES[11])])
    trace = read(written(tmp_path, published(), client))
    assert (len(heard(trace, "replay-1")), len(heard(trace, "replay-2"))) == (3, 2)


@pytest.mark.parametrize("outcome", ["disconnected", "over"])
def test_an_answer_without_an_end_is_held_against_nobody(tmp_path: Path, outcome: str) -> None:
    client = Dialogue(listens=(PUBLISHER, REPLAY_PORT), dials=(SUBSCRIBER, 50000)).asking()
    client.ask(0).answer([(0, BATCHES[0]), (1, BATCHES[1])], end=False)
    if outcome == "disconnected":
        client.close()
    trace = read(written(tmp_path, published(), client))
    assert [done.outcome for done in details(trace, ReplayDone)] == [outcome]
    assert not [line for line in judged(trace).outcomes if line.violations]


def test_a_replay_with_a_hole_of_the_capture_is_held_against_nobody(tmp_path: Path) -> None:
    client = Dialogue(listens=(PUBLISHER, REPLAY_PORT), dials=(SUBSCRIBER, 50000)).asking()
    client.ask(0).answer(enumerate(BATCHES)).ask(0).answer(enumerate(BATCHES))
    pieces = [piece for at, piece in enumerate(client.pieces) if at != of_data(client.pieces, 4)]
    trace = read(written(tmp_path, published(), pieces))
    assert [done.outcome for done in details(trace, ReplayDone)] == ["over"]
    assert not [line for line in judged(trace).outcomes if line.violations]


def test_a_malformed_request_makes_what_follows_on_its_connection_unsure(tmp_path: Path) -> None:
    client = Dialogue(listens=(PUBLISHER, REPLAY_PORT), dials=(SUBSCRIBER, 50000)).asking()
    client.up(message(b"", b"short")).ask(0).answer(enumerate(BATCHES))
    trace = read(written(tmp_path, published(), client))
    assert details(trace, ReplayRequest) == []


# --- bounds ------------------------------------------------------------------------------------------------------


def test_records_come_one_by_one_and_the_file_is_not_held(tmp_path: Path) -> None:
    talk = published([0])
    for number in range(1, 200):
        talk.down(live(number, payload(stored([number], size=2000), ts=T0 + number)))
    tenths = [msgspec.structs.replace(piece, t_ns=T0_NS + at * 10**8) for at, piece in enumerate(talk.pieces)]
    path = written(tmp_path, tenths)
    _, records = open_capture(path)
    first = next(records)
    path.write_bytes(b"")  # what was not read yet is gone
    assert first.detail is not None
    assert sum(record.frames is not None for record in records) < 150


def test_a_syn_that_is_repeated_is_no_new_connection(tmp_path: Path) -> None:
    pieces = published().pieces
    syns = [piece for piece in pieces if piece.flags & SYN]
    assert syns[1].flags & ACK
    trace = read(written(tmp_path, [*syns, *pieces, *syns]))
    assert numbers(trace) == list(range(len(BATCHES)))
    assert monitored(trace) == ["HANDSHAKE_SUCCEEDED"]


def test_ready_may_name_sockets_that_do_not_fit(tmp_path: Path) -> None:
    talk = Dialogue().shake().up(greeting(), ready("PUB")).down(greeting(), ready("PUB")).down(live(0, BATCHES[0]))
    with pytest.raises(CaptureError, match="no stream that can be judged"):
        read(written(tmp_path, talk))
