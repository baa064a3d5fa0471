"""Captures of real publishers: what is found in them, and which sentences they show."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.packets import Kept, pcap
from tests.kit.runs import judged, replayed
from tests.packaging.test_tree import FORBIDDEN

from kvwire import cli
from kvwire.judges.verdict import Exit, Verdict
from kvwire.trace.captures.capture import CaptureError, read
from kvwire.trace.captures.packets import Packets, opened
from kvwire.trace.marks import CaptureGap, CaptureNote, ReplayDone, ReplayRequest
from kvwire.trace.records import Trace

DATA = Path(__file__).parent / "data"
LARGEST = 40_000
SHOWN = {
    "KVW-ENV-001",
    "KVW-SEQ-003",
    "KVW-SEQ-004",
    "KVW-BAT-002",
    "KVW-EVT-001",
    "KVW-EVT-005",
    "KVW-RES-002",
    "KVW-REP-001",
    "KVW-REP-002",
    "KVW-REP-003",
    "KVW-REP-004",
    "KVW-REP-008",
    "KVW-REP-013",
    "KVW-REP-014",
    "KVW-RNK-002",
}
"""Sentences that a capture of live messages and replay shows."""


def passed(trace: Trace) -> set[str]:
    result = judged(trace)
    assert [line.requirement for line in result.outcomes if line.verdict in (Verdict.FAIL, Verdict.WARN)] == []
    assert result.troubles == ()
    return {line.requirement for line in result.outcomes if line.verdict is Verdict.PASS}


def details(trace: Trace) -> tuple[list[str | None], list[str]]:
    """The starts of the replay requests, and how their answers ended."""
    told = [record.detail for record in trace.records]
    return (
        [one.start for one in told if isinstance(one, ReplayRequest)],
        [one.outcome for one in told if isinstance(one, ReplayDone)],
    )


def test_vllms_publisher_is_read_whole() -> None:
    trace = read(DATA / "vllm-0.33.0.pcap.gz")
    (stream,) = trace.header.streams
    assert (stream.endpoint, stream.replay) == ("tcp://127.0.0.1:5557", "tcp://127.0.0.1:5657")
    assert details(trace) == (["0", "20", "40", "1000000"], ["marker"] * 4)
    assert [record for record in trace.records if isinstance(record.detail, CaptureGap | CaptureNote)] == []
    assert passed(trace) >= SHOWN | {"KVW-SEQ-001", "KVW-SEQ-008"}
    result = judged(trace)
    assert [(one.batches, one.incarnations, one.form) for one in result.streams] == [(62, 2, "map")]
    assert [(hole.first, hole.last, hole.attribution) for hole in result.holes] == [("26", "35", "transport")]
    assert [notice.what for notice in result.notices] == ["connection-back"]
    assert replayed(trace) == trace


def test_a_capture_that_lost_packets_is_read_as_far_as_it_goes_and_nobody_is_blamed() -> None:
    trace = read(DATA / "reference.pcapng.gz")
    (stream,) = trace.header.streams
    assert (stream.endpoint, stream.replay) == ("tcp://[::1]:5557", "tcp://[::1]:5657")
    assert details(trace) == (["0", "20", "40", "1000000"], ["marker"] * 4)
    assert sum(isinstance(record.detail, CaptureNote) for record in trace.records) == 1
    assert passed(trace) >= SHOWN
    result = judged(trace)
    assert [(one.batches, one.incarnations) for one in result.streams] == [(63, 2)]
    assert {hole.attribution for hole in result.holes} <= {"transport"}
    assert [notice.what for notice in result.notices] == ["connection-back", "capture"]


def test_the_command_line_takes_a_capture_as_it_takes_a_recording(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = DATA / "vllm-0.33.0.pcap.gz"
    results = []
    for command in (["judge", str(path)], ["check", f"trace:{path}"], ["judge", str(path), "--port", "5557:5657"]):
        assert cli.run([*command, "--json", str(tmp_path / "result.json")]) == Exit.CONFORMANT
        results.append((tmp_path / "result.json").read_bytes())
        assert "conformant as far as this level shows; edition 1, profile replay, passive" in capsys.readouterr().out
    assert len(set(results)) == 1
    assert cli.run(["judge", str(path), "--topic", "other", "--only", "ENV"]) == Exit.NOT_CONFORMANT


@pytest.mark.parametrize("name", ["vllm-0.33.0.pcap.gz", "reference.pcapng.gz"])
def test_a_capture_is_small_and_tells_nothing_of_a_machine(name: str) -> None:
    raw = (DATA / name).read_bytes()
    assert len(raw) < LARGEST
    text = gzip.decompress(raw).decode("latin-1")
    assert [what for what, pattern in FORBIDDEN.items() if re.search(pattern, text)] == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_whatever_a_capture_lost_nothing_is_made_up_and_nobody_is_blamed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with opened(DATA / "vllm-0.33.0.pcap.gz") as file:
        packets = [Kept(packet.t_ns, packet.data, packet.length) for packet in Packets(file)]
    begin = chance.choice([0, 0, chance.randrange(len(packets) // 2)])
    rate = chance.choice([0.005, 0.02, 0.1])
    left = [packet for packet in packets[begin:] if chance.random() > rate]
    path = tmp_path / "lost.pcap"
    path.write_bytes(pcap(left))
    try:
        trace = read(path)
    except CaptureError:
        return
    whole = read(DATA / "vllm-0.33.0.pcap.gz")
    sent = {record.frames for record in whole.records if record.frames is not None}
    assert {record.frames for record in trace.records if record.frames is not None} <= sent
    passed(trace)
