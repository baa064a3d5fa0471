"""A capture and a recording of the same run agree: what went over loopback, heard by sockets and seen as packets."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.capturing import Way, capturing, may_capture
from tests.kit.runs import judged

from kvwire.attack.probes.kit.session import Limits
from kvwire.attack.run import Settings, run
from kvwire.attack.targets.listening import endpoint
from kvwire.judges.verdict import Verdict
from kvwire.trace.captures.capture import Told, read
from kvwire.trace.marks import ReplayDone
from kvwire.trace.records import LIVE, Trace
from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher

pytestmark = pytest.mark.network

MALFORMED = {"KVW-REP-005", "KVW-REP-006", "KVW-REP-007"}
"""What is asked in malformed requests, which a capture leaves out."""


@pytest.fixture
def publisher() -> Iterator[ZmqPublisher]:
    """The reference at ports of its own, whose engine is at work."""
    config = PublisherConfig(
        endpoint="tcp://127.0.0.1:0", replay_endpoint="tcp://127.0.0.1:0", topic="kv-events", ephemeral=True
    )
    over, chance = threading.Event(), random.Random(1)
    with ZmqPublisher(config) as publisher:
        engine = CacheEngine(publisher, CacheConfig(block_size=16, capacity=64, algorithm="v2_sha256_64/u32"))

        def work() -> None:
            while not over.wait(0.02):
                engine.insert([chance.randrange(1000) for _ in range(chance.randrange(16, 80))])
                engine.flush()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield publisher
        over.set()
        thread.join(5)


def by_source(trace: Trace, kind: str) -> list[tuple[tuple[bytes, ...], ...]]:
    """What each source of a kind brought, in an order of its own."""
    found: dict[str, list[tuple[bytes, ...]]] = {}
    for record in trace.records:
        if record.frames is not None and record.source.startswith(kind):
            found.setdefault(record.source, []).append(record.frames)
    return sorted(map(tuple, found.values()))


@pytest.mark.parametrize("way", ["tcpdump", "raw-socket"])
def test_a_capture_of_a_run_and_its_recording_hold_the_same_and_get_the_same_verdicts(
    publisher: ZmqPublisher, tmp_path: Path, way: Way
) -> None:
    may_capture()
    path = tmp_path / "run.pcap"
    place = f"zmq:{publisher.endpoint}?replay={publisher.replay_endpoint}&topic=kv-events"
    settings = Settings(probes=("live", "replay"), limits=Limits(listen_s=1.5))
    with capturing(way, path):
        recording = run(endpoint(place), settings)
    assert publisher.replay_endpoint is not None
    ports = [int(place.rpartition(":")[2]) for place in (publisher.endpoint, publisher.replay_endpoint)]
    capture = read(path, Told(ports={ports[0]: ports[1]}, topic="kv-events"))

    heard, seen_live = by_source(recording, "live-"), by_source(capture, "live-")
    assert len(seen_live) == len(heard) == len(LIVE)
    for mine in heard:  # what was on its way when the witnesses left is in packets only
        assert mine in {other[: len(mine)] for other in seen_live}
    ended = {record.detail.client for record in recording.records if isinstance(record.detail, ReplayDone)}
    assert ended
    answers = {answer for answer in by_source(recording, "replay-") if answer[0][1] or len(answer) > 1}
    assert answers <= {*by_source(capture, "replay-"), *by_source(recording, "replay-")}
    assert [(info.endpoint, info.replay) for info in capture.header.streams] == [
        (publisher.endpoint, publisher.replay_endpoint)
    ]

    seen, known = (
        {line.requirement: line.verdict for line in judged(trace, "replay").outcomes} for trace in (capture, recording)
    )
    assert {key: seen[key] for key in seen if key not in MALFORMED} == {
        key: known[key] for key in known if key not in MALFORMED
    }
    assert Verdict.PASS in (seen["KVW-REP-008"], seen["KVW-RES-002"])
