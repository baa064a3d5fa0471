"""``kvwire watch``, as a user runs it: beside publishers that come, go, fall silent and lie."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import zmq
from prometheus_client.parser import text_string_to_metric_families
from tests.kit.checked import KVWIRE, kvwire
from tests.kit.stories import END_MARKER, cleared, payload, stored

from kvwire.judges.verdict import Exit
from kvwire.wire.framing import number_of

pytestmark = pytest.mark.network

Socket = zmq.Socket[bytes]
BOUND_S = 30.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, "the bound is over"
        time.sleep(0.05)


class Watching:
    """A watch in a process of its own."""

    def __init__(self, folder: Path, targets: Sequence[str], *options: str) -> None:
        self.folder = folder
        self.result = folder / "result.ndjson"
        self._out = (folder / "out").open("wb")
        self._err = (folder / "err").open("wb")
        words = [*KVWIRE, "watch", *targets, "--json", "--metrics", "0", "--result", str(self.result), *options]
        self.process = subprocess.Popen(words, stdout=self._out, stderr=self._err)
        until(lambda: b"/metrics" in (folder / "err").read_bytes())
        self.url = (folder / "err").read_text().split()[1].removesuffix("/metrics")

    def lines(self, what: str = "") -> list[dict[str, object]]:
        found = [json.loads(line) for line in (self.folder / "out").read_text().splitlines(keepends=True)]
        return [line for line in found if what in ("", line["what"])]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def figure(self, name: str) -> float:
        """The sum of a metric over all streams."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return sum(sample.value for family in families for sample in family.samples if sample.name == name)

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(BOUND_S)
        self._out.close()
        self._err.close()
        return code

    def kinds(self) -> list[str]:
        """The lines of the result stream, by kind."""
        return [json.loads(line)["kind"] for line in self.result.read_text().splitlines()]


class Publisher:
    """A publisher of the test's own: it says what it is told to."""

    def __init__(self, endpoint: str) -> None:
        self.context: zmq.Context[Socket] = zmq.Context()
        self.endpoint = endpoint
        self.socket: Socket | None = None
        self.number = 0
        self.ts = 1e9
        self.begin()

    def begin(self) -> None:
        self.socket = self.context.socket(zmq.PUB)
        self.socket.set(zmq.LINGER, 0)
        until(self._bound)
        self.number = 0

    def _bound(self) -> bool:
        assert self.socket is not None
        try:
            self.socket.bind(self.endpoint)
        except zmq.ZMQError:  # the last life still closes
            return False
        return True

    def die(self) -> None:
        assert self.socket is not None
        self.socket.close(0)

    def send(self, count: int = 1, topic: bytes = b"kv") -> None:
        for _ in range(count):
            assert self.socket is not None
            self.ts += 1
            events = [cleared()] if self.number == 0 else [stored([f"{self.ts}"])]
            self.socket.send_multipart((topic, self.number.to_bytes(8, "big"), payload(*events, ts=self.ts)))
            self.number += 1

    def heard(self, watching: Watching) -> None:
        """Send until something more was judged."""
        before = watching.figure("kvwire_batches_total")

        def more() -> bool:
            self.send(20)
            return watching.figure("kvwire_batches_total") > before

        until(more)

    def close(self) -> None:
        self.die()
        self.context.term()


@pytest.fixture
def publisher(room: Path) -> Iterator[Publisher]:
    publisher = Publisher(f"ipc://{room}/live")
    yield publisher
    publisher.close()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watching]]:
    """Start a watch; it is ended after the test."""
    started: list[Watching] = []

    def start(targets: Sequence[str], *options: str) -> Watching:
        started.append(Watching(tmp_path, targets, *options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.end()


Start = Callable[..., Watching]


def test_survives_a_publisher_that_dies_and_comes_back(watch: Start, publisher: Publisher) -> None:
    watching = watch([f"zmq:{publisher.endpoint}"])
    publisher.heard(watching)
    publisher.die()
    until(lambda: watching.figure("kvwire_connection_up") == 0)
    publisher.begin()
    until(lambda: watching.figure("kvwire_connection_up") == 1)
    publisher.heard(watching)

    def second() -> bool:
        publisher.send(20)
        return watching.figure("kvwire_incarnations_total") == 2

    until(second)
    assert watching.end() == 0
    said = [line["what"] for line in watching.lines()]
    assert said == ["connected", "connection-lost", "connected", "new-life", "ended"]
    assert watching.kinds()[0] == "run"
    assert watching.kinds()[-1] == "summary"


def test_a_silent_publisher_is_not_well_until_it_is_heard_again(watch: Start, publisher: Publisher) -> None:
    watching = watch([f"zmq:{publisher.endpoint}"], "--silent", "3s")
    assert watching.get("/healthz")[0] == 503
    publisher.heard(watching)
    until(lambda: watching.get("/healthz") == (200, "all is well\n"))
    until(lambda: watching.get("/healthz")[0] == 503)
    assert "connected, and nothing came for" in watching.get("/healthz")[1]
    publisher.heard(watching)
    until(lambda: watching.get("/healthz")[0] == 200)
    until(lambda: bool(watching.lines("heard-again")))
    assert len(watching.lines("silent")) == 1


def test_a_finding_is_told_once_and_counted_and_decides_the_exit_code(watch: Start, publisher: Publisher) -> None:
    watching = watch([f"zmq:{publisher.endpoint}"])
    publisher.heard(watching)
    publisher.send(topic=b"other")
    publisher.heard(watching)
    until(lambda: watching.figure("kvwire_violations_total") == 1)
    publisher.heard(watching)
    assert watching.end() == 1
    (finding,) = watching.lines("finding")
    assert str(finding["requirement"]).startswith("KVW-ENV-")
    assert finding["verdict"] == "FAIL"
    assert watching.lines("ended")[0]["exit"] == 1


def test_several_targets_are_watched_by_one_process(watch: Start, publisher: Publisher, room: Path) -> None:
    other = Publisher(f"ipc://{room}/other")
    try:
        targets = [f"zmq:{publisher.endpoint}", f"zmq:{other.endpoint}"]
        watching = watch(targets)
        publisher.heard(watching)
        other.heard(watching)
        other.send(topic=b"strange")
        until(lambda: watching.figure("kvwire_violations_total") == 1)
        assert watching.figure("kvwire_connection_up") == 2
        assert watching.end() == 1
        assert [line["target"] for line in watching.lines("finding")] == targets[1:]
        kinds = watching.kinds()
        assert (kinds.count("recording"), kinds.count("run"), kinds[-1]) == (2, 2, "total")
    finally:
        other.close()


def test_ends_by_itself_after_a_time(watch: Start, publisher: Publisher) -> None:
    watching = watch([f"zmq:{publisher.endpoint}"], "--for", "1s")
    assert watching.process.wait(BOUND_S) == 3
    assert watching.kinds()[-1] == "summary"


def test_one_that_is_interrupted_ends_in_good_order(watch: Start, publisher: Publisher) -> None:
    watching = watch([f"zmq:{publisher.endpoint}"])
    publisher.heard(watching)
    assert watching.end(signal.SIGINT) == 0
    assert watching.kinds()[-1] == "summary"


def test_one_whose_reader_leaves_ends_and_keeps_its_result(publisher: Publisher, tmp_path: Path) -> None:
    result = tmp_path / "result.ndjson"
    words = [*KVWIRE, "watch", f"zmq:{publisher.endpoint}", "--json", "--result", str(result)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["what"] == "connected"
        process.stdout.close()
        ends = time.monotonic() + BOUND_S
        while process.poll() is None and time.monotonic() < ends:
            publisher.send(4)
            publisher.number += 1  # a hole, of which a line would tell
            time.sleep(0.1)
        code = process.poll()
        said = process.stderr.read() if process.stderr is not None and code is not None else b""
        process.kill()
    assert code in (Exit.ERROR, Exit.NOT_CONFORMANT)
    assert b"Traceback" not in said
    assert json.loads(result.read_bytes().splitlines()[-1])["kind"] == "summary"


def test_a_publisher_that_was_never_there_is_an_error_that_names_it(watch: Start, room: Path) -> None:
    watching = watch([f"zmq:ipc://{room}/nobody"])
    until(lambda: watching.get("/healthz")[1].endswith("no connection, and nothing has come yet\n"))
    assert watching.end() == 4
    assert "trouble" in watching.kinds()


def test_a_gap_is_asked_for_and_filled(watch: Start, publisher: Publisher, room: Path) -> None:
    replay = publisher.context.socket(zmq.ROUTER)
    replay.set(zmq.LINGER, 0)
    replay.bind(f"ipc://{room}/replay")
    try:
        watching = watch([f"zmq:{publisher.endpoint}?replay=ipc://{room}/replay"], "--replay-gaps")
        publisher.heard(watching)
        assert publisher.socket is not None
        missing = publisher.number
        publisher.ts += 1
        lost = payload(stored(["lost"]), ts=publisher.ts)
        publisher.number += 1
        sent = publisher.number
        later = [payload(stored([f"later-{at}"]), ts=publisher.ts + at + 1) for at in range(40)]
        for number, content in enumerate(later, sent):
            publisher.socket.send_multipart((b"kv", number.to_bytes(8, "big"), content))
        publisher.number, publisher.ts = sent + 40, publisher.ts + 41
        assert replay.poll(int(BOUND_S * 1000))
        client, delimiter, start = replay.recv_multipart()
        assert number_of(start) == missing
        for number, content in enumerate([lost, *later], missing):
            replay.send_multipart((client, delimiter, b"kv", number.to_bytes(8, "big"), content))
        replay.send_multipart((client, *END_MARKER))
        publisher.heard(watching)

        def settled() -> bool:
            publisher.send(20)
            return watching.figure("kvwire_waiting_messages") < 20

        until(settled)
        publisher.send(400)
        until(lambda: watching.figure("kvwire_batches_total") > sent + 300)
        assert watching.figure("kvwire_replay_requests_total") == 1
        assert watching.figure("kvwire_missing_numbers_total") == 0
        assert watching.end() in (0, 3)
        assert [line["text"] for line in watching.lines("replay-asked")] == [f"from number {missing} on"]
    finally:
        replay.close(0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("reference:",), "is not listened to"),
        (("zmq:tcp://127.0.0.1:1", "zmq:tcp://127.0.0.1:1"), "is named twice"),
        (("zmq:tcp://127.0.0.1:1", "--metrics", "nowhere"), "is no place to listen at"),
        (("zmq:tcp://127.0.0.1:1", "--metrics", "203.0.113.1:1"), "--metrics 203.0.113.1:1"),
        (("zmq:tcp://127.0.0.1:1", "--only", "XYZ"), "XYZ"),
        (("zmq:tcp://127.0.0.1:1", "--profile", "none"), "none"),
        (("zmq:tcp://127.0.0.1:1", "--result", "/nowhere/at/all"), "does not exist"),
        ((), "Missing argument"),
    ],
    ids=["driven", "twice", "no place", "not here", "no sentence", "no profile", "no folder", "no target"],
)
def test_what_cannot_be_watched_is_said_at_once(arguments: tuple[str, ...], said: str) -> None:
    done = kvwire("watch", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_the_help_fits_a_screen() -> None:
    words, environment = [*KVWIRE, "watch", "--help"], {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND_S, env=environment, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
