"""Two witnesses, each a process of its own: what they hear, in which order, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from tests.kit.probing import marks

from kvwire.attack.witness import Recorder
from kvwire.attack.witness_process import RCVHWM
from kvwire.standard.statement import Stream
from kvwire.trace.calls import FaultCall, ResetCall
from kvwire.trace.marks import Stalled, Trouble, Witnesses
from kvwire.trace.records import LIVE, Record, Source

pytestmark = pytest.mark.network

Socket = zmq.Socket[bytes]
OpenSocket = Callable[[int], Socket]
BOUND_S = 10.0
OLD = 2**40
"""Numbers of a first life begin here, so that a second one's are told apart."""


@pytest.fixture
def stream(room: Path) -> Stream:
    return Stream(name="s", endpoint=f"ipc://{room}/live")


def message(number: int, payload: bytes = b"payload") -> list[bytes]:
    return [b"topic", number.to_bytes(8, "big"), payload]


def bound(open_socket: OpenSocket, endpoint: str) -> Socket:
    publisher = open_socket(zmq.PUB)
    publisher.set(zmq.SNDHWM, 0)
    publisher.bind(endpoint)
    return publisher


def heard_by_all(recorder: Recorder, publisher: Socket, numbers: Iterator[int]) -> None:
    """Send until every witness has heard something more."""
    before = {source: recorder.live_count("s", source) for source in recorder.witnesses("s")}

    def heard() -> bool:
        publisher.send_multipart(message(next(numbers)))
        return all(recorder.live_count("s", source) > before[source] for source in before)

    assert recorder.wait(heard, BOUND_S)


def of(recorder: Recorder, source: Source) -> list[Record]:
    """What a witness wrote, data and monitor events; a stall is told when it is over, and has its own time."""
    told = (r for r in recorder.records if not isinstance(r.detail, Stalled))
    return [r for r in told if source in (r.source, getattr(r.detail, "of", None))]


def counting() -> Iterator[int]:
    yield from range(2**32)


def test_both_hear_everything_in_order(recorder: Recorder, open_socket: OpenSocket, stream: Stream) -> None:
    publisher = bound(open_socket, stream.endpoint)
    recorder.watch([stream])
    numbers = counting()
    heard_by_all(recorder, publisher, numbers)
    first = next(numbers)
    for number in range(first, first + 2000):
        publisher.send_multipart(message(number, b"%d" % number))
    assert recorder.wait(lambda: all(recorder.last_number("s", source) == first + 1999 for source in LIVE), BOUND_S)
    assert recorder.level("s")
    assert recorder.newest("s") == first + 1999
    for source in LIVE:
        frames = [r.frames for r in recorder.records if r.source == source][-2000:]
        assert frames == [tuple(message(number, b"%d" % number)) for number in range(first, first + 2000)]
        stamps = [r.t_ns for r in of(recorder, source)]
        assert stamps == sorted(stamps)


def test_a_handshake_stands_before_the_data_of_its_connection(
    recorder: Recorder, open_socket: OpenSocket, stream: Stream
) -> None:
    publisher = bound(open_socket, stream.endpoint)
    recorder.watch([stream])
    heard_by_all(recorder, publisher, counting())
    for source in LIVE:
        first, *rest = of(recorder, source)
        assert first.event == "HANDSHAKE_SUCCEEDED"
        assert {r.connection for r in (first, *rest)} == {1}
        assert recorder.handshakes("s", source) == 1


def test_a_disconnect_stands_before_the_data_of_the_next_life(
    recorder: Recorder, open_socket: OpenSocket, stream: Stream
) -> None:
    publisher = bound(open_socket, stream.endpoint)
    recorder.watch([stream])
    heard_by_all(recorder, publisher, iter(range(OLD, 2 * OLD)))
    publisher.close(0)
    # Nobody pumps during the outage; the witnesses must be back all the same.
    again = bound(open_socket, stream.endpoint)
    numbers = counting()

    def new() -> bool:
        again.send_multipart(message(next(numbers)))
        return all((recorder.last_number("s", source) or 0) < OLD for source in LIVE)

    assert recorder.wait(new, BOUND_S)
    for source in LIVE:
        records = of(recorder, source)
        events = [r.event or ("new" if (r.frames or (b"",) * 3)[1] < message(OLD)[1] else "old") for r in records]
        lost = events.index("DISCONNECTED")
        assert "new" not in events[:lost]
        assert events[lost + 1 :].index("HANDSHAKE_SUCCEEDED") < events[lost + 1 :].index("new")
        assert {r.connection for r in records if r.frames and r.frames[1] < message(OLD)[1]} == {2}
        assert recorder.disconnects("s", source) == 1


def test_whatever_is_received_is_kept(recorder: Recorder, open_socket: OpenSocket, stream: Stream) -> None:
    publisher = bound(open_socket, stream.endpoint)
    recorder.watch([stream])
    heard_by_all(recorder, publisher, counting())
    odd = [[b""], [b"", b"short", b"x"], [b"a", b"b", b"c", b"d"], [b"t", bytes(8), bytes(300_000)]]
    for frames in odd:
        publisher.send_multipart(frames)

    def heard(source: Source) -> list[list[bytes]]:
        return [list(r.frames or ()) for r in recorder.records if r.source == source]

    assert recorder.wait(lambda: all(heard(source)[-1] == odd[-1] for source in LIVE), BOUND_S)
    for source in LIVE:
        assert heard(source)[-4:] == odd


def test_where_the_harness_binds_there_is_one_witness(
    recorder: Recorder, open_socket: OpenSocket, stream: Stream
) -> None:
    recorder.watch([Stream(name="s", endpoint=stream.endpoint, mode="bind")])
    publisher = open_socket(zmq.PUB)
    publisher.connect(stream.endpoint)
    heard_by_all(recorder, publisher, counting())
    assert recorder.witnesses("s") == (Source.LIVE_A,)
    (stated,) = marks(recorder, Witnesses)
    assert stated.of == ("live-a",)
    assert stated.rcvhwm == RCVHWM


def test_streams_may_be_more_than_fit_into_an_argument(
    recorder: Recorder, open_socket: OpenSocket, stream: Stream
) -> None:
    long = Stream(name="n" * 150_000, endpoint=f"{stream.endpoint}-other")
    recorder.watch([stream, long])
    heard_by_all(recorder, bound(open_socket, stream.endpoint), counting())
    assert not marks(recorder, Trouble)


def test_an_endpoint_that_cannot_be_bound_is_our_trouble(
    recorder: Recorder, open_socket: OpenSocket, stream: Stream
) -> None:
    bound(open_socket, stream.endpoint.replace("live", "taken"))
    recorder.watch([Stream(name="s", endpoint="ipc:///nowhere/at/all", mode="bind")])
    (trouble,) = marks(recorder, Trouble)
    assert "ipc:///nowhere/at/all" in trouble.text
    assert recorder.records[-1].stream == "s"


def test_an_interrupt_from_the_terminal_ends_no_witness(
    recorder: Recorder, open_socket: OpenSocket, stream: Stream
) -> None:
    publisher = bound(open_socket, stream.endpoint)
    recorder.watch([stream])
    for witness in recorder._witnesses.values():
        assert os.getpgid(witness.process.pid) != os.getpgid(0)
        witness.process.send_signal(signal.SIGINT)
    heard_by_all(recorder, publisher, counting())


def test_an_interrupt_tears_no_hole_into_the_trace(
    recorder: Recorder, open_socket: OpenSocket, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = bound(open_socket, stream.endpoint)
    recorder.watch([stream])
    numbers = counting()
    heard_by_all(recorder, publisher, numbers)
    first = next(numbers)
    write = recorder._write

    def interrupted(witness: Any, item: Any) -> None:
        if len(recorder.records) % 500 == 0:
            signal.raise_signal(signal.SIGINT)
        write(witness, item)

    monkeypatch.setattr(recorder, "_write", interrupted)
    for number in range(first, first + 5000):
        publisher.send_multipart(message(number))
    interrupts = 0
    while not all(recorder.last_number("s", source) == first + 4999 for source in LIVE):
        try:
            recorder.pump(BOUND_S)
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts
    for source in LIVE:
        heard = [r.frames[1] for r in recorder.records if r.source == source and r.frames]
        assert heard[-5000:] == [number.to_bytes(8, "big") for number in range(first, first + 5000)]


def test_closing_takes_what_was_not_pumped_yet(open_socket: OpenSocket, stream: Stream) -> None:
    recorder = Recorder()
    publisher = bound(open_socket, stream.endpoint)
    recorder.watch([stream])
    numbers = counting()
    heard_by_all(recorder, publisher, numbers)
    last = next(numbers) + 499
    for number in range(last - 499, last + 1):
        publisher.send_multipart(message(number))
    # What one has heard, the other has received or is about to.
    assert recorder.wait(lambda: recorder.last_number("s", Source.LIVE_A) == last, BOUND_S)
    recorder.close()
    assert recorder.last_number("s", Source.LIVE_B) == last
    count = len(recorder.records)
    recorder.close()
    assert len(recorder.records) == count


def test_a_witness_that_dies_is_our_trouble(recorder: Recorder, open_socket: OpenSocket, stream: Stream) -> None:
    bound(open_socket, stream.endpoint)
    recorder.watch([stream])
    recorder._witnesses[Source.LIVE_B].process.kill()
    assert recorder.wait(lambda: recorder.records[-1].event == "trouble", BOUND_S)
    assert recorder.records[-1].detail == Trouble(text="the witness live-b ended by itself", code=-9)
    assert not recorder.wait(lambda: False, 0.05)


def test_a_full_trace_says_so(open_socket: OpenSocket, stream: Stream) -> None:
    recorder = Recorder(trace_bytes=10_000)
    publisher = bound(open_socket, stream.endpoint)
    try:
        recorder.watch([stream])
        numbers = counting()

        def full() -> bool:
            publisher.send_multipart(message(next(numbers), bytes(3000)))
            return recorder.full

        assert recorder.wait(full, BOUND_S)
    finally:
        recorder.close()
    assert sum(map(len, {frame for record in recorder.records for frame in record.frames or ()})) <= 10_000
    told = [record.detail.text for record in recorder.records if isinstance(record.detail, Trouble)]
    assert told[0] == "the trace is full: what came later is not in it"
    assert told[1].endswith("messages came when the trace was full")
    assert int(told[1].split()[0]) >= 1


def test_what_a_replay_client_hears_is_held_against_the_bound_too() -> None:
    recorder = Recorder(trace_bytes=10_000)
    for number in range(10):
        payload = bytes([number]) * 3000
        recorder.add(source="replay-1", stream="s", frames=(b"", b"", number.to_bytes(8, "big"), payload))
    assert len([record for record in recorder.records if record.frames is not None]) == 2
    assert recorder.full


def test_what_several_sockets_read_is_held_once() -> None:
    recorder = Recorder(trace_bytes=10_000)
    for source in (Source.LIVE_A, Source.LIVE_B, "replay-1", "replay-2"):
        recorder.add(source=source, stream="s", frames=tuple(message(0, bytes(5000))))
    assert not recorder.full
    assert len({id(record.frames[2]) for record in recorder.records if record.frames}) == 1


def test_the_children_end_with_their_parent(stream: Stream) -> None:
    script = (
        "import os\n"
        "from kvwire.standard.statement import Stream\n"
        "from kvwire.attack.witness import Recorder\n"
        "recorder = Recorder()\n"
        f"recorder.watch([Stream(name='s', endpoint={stream.endpoint!r})])\n"
        "print(*[w.process.pid for w in recorder._witnesses.values()], flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=30, check=False)
    assert ended.returncode == -9, ended.stderr
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + BOUND_S
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_what_must_be_survived_stands_in_every_stimulus() -> None:
    recorder = Recorder()
    recorder.lives["s"] = 2
    with recorder.surviving("KVW-REP-007"):
        inside = recorder.note(FaultCall(kind="encode"), "s")
    after = recorder.note(ResetCall(), "s")
    heard = recorder.add(source=Source.LIVE_A, stream="s", frames=(b"", bytes(8), b""))
    assert inside.detail == FaultCall(kind="encode", must_survive=("KVW-REP-007",))
    assert (inside.life, after.detail, heard.life) == (2, ResetCall(), None)
