"""Adapters that keep to the protocol, and adapters that do not: each ends in a sentence and within its bound."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.probing import marks

from kvwire.attack.targets import process
from kvwire.attack.targets.process import AdapterProcess
from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import Accepted, AdapterError, Bound, Cached, Failed, Refused, Start, Stats, Unsupported
from kvwire.trace.calls import BoundAt, CacheCall, FaultCall, PublishCall, ResetCall, StartCall, StatsCall, StopCall
from kvwire.trace.marks import Noise, ProcessExit, Trouble
from kvwire.trace.records import Record, Source
from kvwire.wire.projection import batch_projection

pytestmark = pytest.mark.network

Adapt = Callable[..., AdapterProcess]
EMPTY = batch_projection(0.0, [], 0)

LOOP = """
import json, os, sys, time, signal
def answer(request, **fields):
    sys.stdout.write(json.dumps({"id": request["id"], **fields}) + chr(10)); sys.stdout.flush()
HELLO = {"protocol": "kvwire-adapter-1", "implementation": "x", "version": "1", "can": ["hello", "start", "stop"]}
OK = {"hello": HELLO, "start": {"endpoint": "ipc:///tmp/none"}, "publish": {"accepted": True, "blocked_us": 7},
      "cache": {"cached_tokens": None}, "stats": {"offered": 3}, "restart": {"endpoint": "ipc:///tmp/none"},
      "reset": {}, "resident": {"hashes": ["-5"]}, "stop": {}}
def on(request):
    return False
BODY
for line in sys.stdin:
    request = json.loads(line)
    if on(request):
        continue
    elif request["verb"] in OK:
        answer(request, ok=OK[request["verb"]])
    else:
        answer(request, unsupported=request["verb"])
"""


@pytest.fixture
def adapt(recorder: Recorder) -> Iterator[Adapt]:
    """Start an adapter whose loop has ``body`` before it; all are ended."""
    started: list[AdapterProcess] = []

    def start(body: str = "", **bounds: float) -> AdapterProcess:
        first_s = bounds.pop("first", 30.0)
        command = [sys.executable, "-c", LOOP.replace("BODY", body)]
        started.append(AdapterProcess(command, recorder, "s", answer_s=bounds, first_s=first_s, end_s=0.5))
        return started[-1]

    yield start
    for adapter in started:
        adapter.close()
        assert not adapter.alive


def stimuli(recorder: Recorder) -> list[Record]:
    return [r for r in recorder.records if r.source == Source.STIMULUS]


def test_every_verb_is_asked_answered_and_recorded(adapt: Adapt, recorder: Recorder) -> None:
    adapter = adapt()
    assert adapter.hello().implementation == "x"
    assert adapter.can == {"hello", "start", "stop"}
    assert adapter.start(Start(ring=5)) == Bound(endpoint="ipc:///tmp/none")
    assert adapter.publish(EMPTY) == Accepted(accepted=True, blocked_us=7)
    assert adapter.cache([1, "ab" * 32], lora="7", salt="s", mm=[{"digest": "00"}]) == Cached()
    assert adapter.stats() == Stats(offered=3)
    assert adapter.resident().hashes == ["-5"]
    adapter.reset()
    adapter.restart()
    with pytest.raises(Unsupported):
        adapter.fault("encode")
    adapter.stop()
    adapter.close()
    assert [(r.event, r.life) for r in stimuli(recorder)] == [
        ("hello", None),
        *((verb, 1) for verb in ("start", "publish", "cache", "stats", "resident", "reset")),
        *((verb, 2) for verb in ("restart", "fault", "stop")),
    ]
    details = {r.event: r.detail for r in stimuli(recorder)}
    assert details["start"] == StartCall(ring=5, bound=BoundAt(endpoint="ipc:///tmp/none"))
    assert details["publish"] == PublishCall(batch=EMPTY, accepted=True, blocked_us=7)
    assert details["cache"] == CacheCall(tokens=(1, "ab" * 32), lora="7", salt="s", mm=({"digest": "00"},))
    assert details["fault"] == FaultCall(kind="encode", unsupported="fault")
    process = [r for r in recorder.records if r.source == Source.PROCESS]
    assert [r.event for r in process] == ["start", "exit"]
    assert process[-1].detail == ProcessExit(code=0, how="exit code 0", expected=True)


def test_a_refusal_is_an_answer(adapt: Adapt, recorder: Recorder) -> None:
    adapter = adapt("def on(r): return r['verb'] == 'start' and (answer(r, refused='port 0'), True)[1]")
    adapter.hello()
    with pytest.raises(Refused, match="port 0"):
        adapter.start(Start(endpoint="tcp://127.0.0.1:0"))
    assert stimuli(recorder)[-1].detail == StartCall(endpoint="tcp://127.0.0.1:0", refused="port 0")
    assert adapter.hello().version == "1"


def test_a_line_that_is_no_answer_is_named_and_skipped(adapt: Adapt, recorder: Recorder) -> None:
    adapter = adapt("print('Loading model…', flush=True); print('{\"a\": 1}', flush=True)")
    adapter.hello()
    assert adapter.noise == ["Loading model…", '{"a": 1}']
    assert [noise.line for noise in marks(recorder, Noise)] == adapter.noise


def test_an_adapter_that_knows_every_verb_is_found_out(adapt: Adapt) -> None:
    adapter = adapt("def on(r): return r['verb'] not in OK and (answer(r, ok={}), True)[1]")
    with pytest.raises(AdapterError, match=r"to the unknown verb 'x-.*' it answered \{\} instead of"):
        adapter.hello()


@pytest.mark.parametrize("fields", ["refused='what?'", "error='KeyError'"])
def test_an_adapter_that_has_no_word_for_what_it_does_not_know_is_found_out(adapt: Adapt, fields: str) -> None:
    adapter = adapt(f"def on(r): return r['verb'] not in OK and (answer(r, {fields}), True)[1]")
    with pytest.raises(AdapterError, match=r"to the unknown verb 'x-.*' it answered .* instead of `unsupported`"):
        adapter.hello()


def test_hello_is_the_first_request_and_a_verb_that_nobody_knows_the_second(adapt: Adapt) -> None:
    adapter = adapt("def on(r): print(r['id'], r['verb'][:5], flush=True)")
    adapter.hello()
    assert [line[:4] for line in adapter.noise] == ["1 he", "2 x-"]


@pytest.mark.parametrize("said", ["kvwire-adapter-1", "kvwire-adapter-1.0", "kvwire-adapter-1.1", "kvwire-adapter-1.7"])
def test_every_minor_version_is_taken(adapt: Adapt, said: str) -> None:
    assert adapt(f"HELLO['protocol'] = {said!r}").hello().protocol == said


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            "HELLO['can'] += ['publsh', 'evict']",
            "its `can` names 'evict', 'publsh', which nobody knows; there are hello,",
        ),
        (
            "HELLO['sets'] = ['ts', 'hashes']",
            "its `sets` names 'hashes', which nobody knows; there are envelope, encoder",
        ),
    ],
)
def test_names_that_nobody_knows_are_refused(adapt: Adapt, names: str, said: str) -> None:
    with pytest.raises(AdapterError, match=said):
        adapt(names).hello()


def test_names_of_a_newer_version_are_overlooked(adapt: Adapt) -> None:
    adapter = adapt(
        "HELLO['protocol'] = 'kvwire-adapter-1.9'; HELLO['can'] += ['evict']; HELLO['sets'] = ['ts', 'hashes']"
    )
    hello = adapter.hello()
    assert (hello.can, hello.sets) == (["hello", "start", "stop"], ["ts"])
    assert adapter.can == {"hello", "start", "stop"}


def test_another_protocol_is_named(adapt: Adapt) -> None:
    adapter = adapt("HELLO['protocol'] = 'kvwire-adapter-9'")
    with pytest.raises(AdapterError, match=r"speaks 'kvwire-adapter-9', this harness speaks 'kvwire-adapter-1\.1'"):
        adapter.hello()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("error='boom'", "`start` failed in the adapter: boom"),
        ("ok={'endpoint': 5}", "its answer to `start` is not as the protocol says: Expected `str`, got `int`"),
        ("nothing=1", "its answer to `start` has none of ok, unsupported, refused, error"),
    ],
)
def test_an_answer_that_is_none_is_an_error(adapt: Adapt, recorder: Recorder, fields: str, said: str) -> None:
    adapter = adapt(f"def on(r): return r['verb'] == 'start' and (answer(r, {fields}), True)[1]")
    adapter.hello()
    with pytest.raises(AdapterError, match=said):
        adapter.start(Start())
    assert said in (marks(recorder, StartCall)[-1].error or "")


def test_an_answer_to_another_request_breaks_the_protocol(adapt: Adapt) -> None:
    adapter = adapt("def on(r): return r['verb'] == 'hello' and (answer({'id': 77}, ok=HELLO), True)[1]")
    with pytest.raises(AdapterError, match="it answered request 77 when 1"):
        adapter.hello()


def test_death_is_told_with_exit_code_and_last_words(adapt: Adapt, recorder: Recorder) -> None:
    adapter = adapt(
        "def on(r):\n    if r['verb'] == 'reset':\n        print('out of memory', file=sys.stderr); sys.exit(3)"
    )
    adapter.hello()
    with pytest.raises(AdapterError, match=r"it ended \(exit code 3\) before it answered `reset`.*out of memory"):
        adapter.reset()
    # The stimulus stands before the end that it caused.
    assert [(r.source, r.event) for r in recorder.records][-2:] == [
        (Source.STIMULUS, "reset"),
        (Source.PROCESS, "exit"),
    ]
    end = ProcessExit(code=3, how="exit code 3", expected=False, stderr=("out of memory",))
    assert recorder.records[-1].detail == end
    with pytest.raises(AdapterError, match=r"`stats` was not asked: it ended \(exit code 3\)"):
        adapter.stats()


def test_of_the_last_words_the_end_is_kept_however_many_there_are(adapt: Adapt, recorder: Recorder) -> None:
    adapter = adapt(
        "def on(r):\n"
        "    if r['verb'] == 'reset':\n"
        "        sys.stderr.write('x' * 3_000_000 + 'the end of a line' + chr(10))\n"
        "        sys.stderr.write('RuntimeError: no such block'); sys.exit(1)"
    )
    adapter.hello()
    with pytest.raises(AdapterError, match=r"x*the end of a line \| RuntimeError: no such block$"):
        adapter.reset()
    (end,) = marks(recorder, ProcessExit)
    assert end.stderr is not None
    assert [len(line) for line in end.stderr] == [200, 27]


def test_an_error_is_an_answer_too(adapt: Adapt) -> None:
    adapter = adapt("def on(r): return r['verb'] == 'cache' and (answer(r, error='KeyError: lora'), True)[1]")
    adapter.hello()
    with pytest.raises(Failed, match="`cache` failed in the adapter: KeyError: lora"):
        adapter.cache([1], lora="7")
    adapter.reset()


# counters


COUNTING = """
counts = {"offered": 0, "dropped": 0}
OK["burst"] = {"accepted": [True, False, True], "blocked_us": [1, 1, 1]}
def on(r):
    if r["verb"] == "publish": counts["offered"] += 1
    if r["verb"] == "burst": counts["offered"] += 3; counts["dropped"] += 1
    if r["verb"] in LOSES: counts.update(offered=0, dropped=0)
    OK["stats"] = dict(counts)
"""


def counted(adapter: AdapterProcess) -> list[tuple[int | None, int | None]]:
    """What an adapter counts after a batch, three more, a stop, and a batch of the next life."""
    adapter.hello()
    found = []
    for step in (
        lambda: adapter.start(Start()),
        lambda: adapter.publish(EMPTY),
        lambda: adapter.burst([EMPTY, EMPTY, EMPTY]),
        adapter.stop,
        lambda: adapter.start(Start()),
        lambda: adapter.publish(EMPTY),
        adapter.restart,
    ):
        step()
        stats = adapter.stats()
        found.append((stats.offered, stats.dropped))
    return found


@pytest.mark.parametrize("loses", ["{'start', 'restart'}", "{'start'}", "{}"])
def test_counters_of_a_life_or_of_several_are_right(adapt: Adapt, recorder: Recorder, loses: str) -> None:
    offered = [offered for offered, _ in counted(adapt(COUNTING.replace("LOSES", loses)))]
    assert offered[:4] == [0, 1, 4, 4]
    assert None not in offered
    assert not marks(recorder, Trouble)


def test_counters_that_start_over_at_the_stop_are_no_counters(adapt: Adapt, recorder: Recorder) -> None:
    adapter = adapt(COUNTING.replace("LOSES", "{'stop', 'start', 'restart'}"))
    assert counted(adapter) == [(0, 0), (1, 0), (4, 1), (None, None), (0, 0), (1, 0), (0, 0)]
    said = "the adapter's counter `offered` says 0, when 3 batches had been accepted"
    assert [trouble.text for trouble in marks(recorder, Trouble)] == [said]
    assert [call.error for call in marks(recorder, StatsCall) if not call.succeeded] == [said]


def test_a_counter_of_drops_that_falls_is_none(adapt: Adapt, recorder: Recorder) -> None:
    adapter = adapt(
        "drops = [5, 5, 3]\ndef on(r):\n    if r['verb'] == 'stats': OK['stats'] = {'dropped': drops.pop(0)}"
    )
    adapter.hello()
    adapter.start(Start())
    assert [adapter.stats().dropped for _ in range(3)] == [5, 5, None]
    (trouble,) = marks(recorder, Trouble)
    assert trouble.text == "the adapter's counter `dropped` fell from 5 to 3 without a new start"


def test_a_signal_is_named(adapt: Adapt) -> None:
    adapter = adapt("def on(r):\n    if r['verb'] == 'reset': os.kill(os.getpid(), signal.SIGSEGV)")
    adapter.hello()
    with pytest.raises(AdapterError, match="signal SIGSEGV"):
        adapter.reset()
    assert not adapter.alive


def test_an_interrupted_call_is_no_success_and_lets_it_stop_in_good_order(adapt: Adapt, recorder: Recorder) -> None:
    adapter = adapt("def on(r):\n    if r['verb'] == 'reset': os.kill(os.getppid(), signal.SIGINT); time.sleep(0.2)")
    adapter.hello()
    adapter.start(Start())
    with pytest.raises(KeyboardInterrupt):
        adapter.reset()
    adapter.close()
    assert [record.detail for record in recorder.records][-3:] == [
        ResetCall(error="interrupted"),
        StopCall(),
        ProcessExit(code=0, how="exit code 0", expected=True),
    ]


def test_silence_ends_at_the_bound_and_is_not_waited_for_twice(adapt: Adapt) -> None:
    adapter = adapt("def on(r): return r['verb'] == 'reset'", reset=0.2)
    adapter.hello()
    began = time.monotonic()
    with pytest.raises(AdapterError, match=r"no answer to `reset` within 0.2 s"):
        adapter.reset()
    with pytest.raises(AdapterError, match="was not asked"):
        adapter.stats()
    assert time.monotonic() - began < 5
    assert adapter.alive


def test_an_adapter_that_reads_nothing_is_noticed(adapt: Adapt) -> None:
    adapter = adapt("def on(r):\n    if r['verb'] == 'reset': time.sleep(60)", reset=0.2, cache=0.3)
    adapter.hello()
    with pytest.raises(AdapterError, match="no answer to `reset`"):
        adapter.reset()
    adapter.broken = None
    with pytest.raises(AdapterError, match="it did not read its input while asked for `cache`"):
        adapter.cache(list(range(200_000)))


def test_talk_between_the_requests_blocks_nobody(adapt: Adapt) -> None:
    adapter = adapt(
        "def on(r):\n"
        "    if r['verb'] == 'reset':\n"
        "        for _ in range(5000): print('x' * 100, file=sys.stderr)\n"
        "        for _ in range(5000): print('y' * 100)\n"
    )
    adapter.hello()
    adapter.reset()
    assert len(adapter.noise) == 5


def test_whoever_ignores_the_end_is_killed_within_the_bound(adapt: Adapt, recorder: Recorder) -> None:
    adapter = adapt(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "import atexit; atexit.register(lambda: time.sleep(60))\n"
        "def on(r): return False"
    )
    adapter.hello()
    began = time.monotonic()
    adapter.close()
    assert time.monotonic() - began < 10
    assert marks(recorder, ProcessExit)[-1].how == "signal SIGKILL"


def test_a_program_that_is_not_there(recorder: Recorder, tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="cannot start the adapter"):
        AdapterProcess([str(tmp_path / "nothing")], recorder, "s")


def test_an_adapter_that_is_none_ends_at_once(recorder: Recorder) -> None:
    adapter = AdapterProcess([sys.executable, "-c", "print('usage: prog')"], recorder, "s")
    try:
        with pytest.raises(
            AdapterError, match=r"it ended \(exit code 0\).*not JSON on its standard output: 'usage: prog'"
        ):
            adapter.hello()
    finally:
        adapter.close()


def test_one_that_prints_without_end_is_given_up(adapt: Adapt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "NOISE_BYTES", 200_000)
    adapter = adapt("while True: print('loading weights')")
    with pytest.raises(AdapterError, match=r"standard output brought \d+ bytes in \d+ lines that are no answer"):
        adapter.hello()
    assert len(adapter.noise) == 5


def test_one_that_answers_nothing_in_json_is_given_up_too(adapt: Adapt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "NOISE_BYTES", 20_000)
    adapter = adapt("""while True: print('{"x": 1}')""")
    with pytest.raises(AdapterError, match="lines that are no answer"):
        adapter.hello()


def test_one_that_answers_on_while_it_is_ended_is_not_collected(adapt: Adapt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes these lines any more; for two seconds they had been kept all the same, 500 MB of them."""
    monkeypatch.setattr(process, "UNREAD_BYTES", 100_000)
    adapter = adapt("""while True: os.write(1, b'{"id": 0}\\n' * 1000)""")
    with pytest.raises(AdapterError, match="it answered request 0"):
        adapter.hello()
    adapter.close()
    lines = 64 * 1024 // 10
    assert adapter._put <= 100_000 + 2 * lines * (10 + process.QUEUED_BYTES)


def test_a_line_without_end_is_given_up(adapt: Adapt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LINE_BYTES", 100_000)
    adapter = adapt("while True: sys.stdout.write('{' * 50_000)")
    with pytest.raises(AdapterError, match="a line of more than 100000 bytes"):
        adapter.hello()


def test_noise_between_answers_is_read_and_kept_by_its_first_lines(adapt: Adapt) -> None:
    adapter = adapt("print('noise' + chr(10) * 20_000)")
    assert adapter.hello().implementation == "x"
    assert adapter.noise == ["noise", "", "", "", ""]


def test_what_an_adapter_left_behind_ends_with_it(adapt: Adapt, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    child = f"import os, time; open({str(place)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    adapter = adapt(f"import subprocess; subprocess.Popen([sys.executable, '-c', {child!r}], stdin=subprocess.DEVNULL)")
    adapter.hello()
    deadline = time.monotonic() + 30
    while not (place.exists() and place.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    adapter.close()
    assert (
        not Path(f"/proc/{place.read_text()}/cmdline").exists()
        or not Path(f"/proc/{place.read_text()}/cmdline").read_bytes()
    )
