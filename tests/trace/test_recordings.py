"""Recordings as files: all forms hold the same, what was cut is read as far as it goes, parts are one whole."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from mcap.reader import make_reader
from tests.kit.stories import Story, removed, stored
from tests.trace.test_trace import told

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.standard import resources
from kvwire.trace import files, levels, packed
from kvwire.trace.files import Sink, container, writing
from kvwire.trace.marks import ProbeMark, Witnesses
from kvwire.trace.planned import Left, Planned
from kvwire.trace.records import Header, Record, Trace, TraceError

SESSIONS = sorted((resources.vectors() / "session").glob("*.kvtrace"))
FORMS = (".kvtrace", ".kvtrace.gz", ".mcap")


def run(batches: int = 400) -> Trace:
    """What two witnesses hear of a run of some length."""
    story = Story()
    story.connect()
    options = Witnesses(of=("live-a", "live-b"), rcvhwm=1, maxmsgsize=1, reconnect_ms=1)
    story.note(options)
    for number in range(batches):
        story.publish(stored([f"block-{number}"]), removed([f"block-{number}"]))
    passive = levels.lowered(story.trace(), "passive")
    return msgspec.structs.replace(passive, header=msgspec.structs.replace(passive.header, profile="core"))


def through(path: Path, into: Path) -> files.Ended:
    with files.open_recording(path) as recording:
        files.convert(recording, into)
    return recording.ended


def streamed(trace: Trace, path: Path, *, rotate: int | None = None) -> Sink:
    sink = Sink(path, rotate=rotate)
    sink.begin(trace.header)
    for record in trace.records:
        sink.add(record)
        sink.push()
    return sink


def test_a_large_chunk_of_small_records_is_read_by_batches(tmp_path: Path) -> None:
    trace, path = run(), tmp_path / "run.mcap"
    files.write(trace, path)
    with path.open("rb") as file:
        read = [item for item in container.items(file, packed.Digest()) if isinstance(item, list)]
    assert [record for batch in read for record in batch] == list(trace.records)
    assert max(map(len, read)) <= packed.BATCH < len(trace.records)


@pytest.mark.parametrize("form", FORMS)
def test_a_full_disk_is_an_error_of_the_machine_that_names_the_file(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int, __: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / f"x{form}"
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        code = cli.run(["convert", str(SESSIONS[0]), "-o", str(path)])
    assert code == Exit.ERROR
    assert f"kvwire: error: {path}: No space left on device" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: str(path.stem))
def test_every_session_goes_through_all_forms_without_loss(session: Path, tmp_path: Path) -> None:
    steps = [tmp_path / "a.mcap", tmp_path / "b.kvtrace.gz", tmp_path / "c.mcap", tmp_path / "d.kvtrace"]
    digests = {through(*pair).digest for pair in zip([session, *steps], steps, strict=False)}
    assert steps[-1].read_bytes() == session.read_bytes()
    assert digests == {packed.digest(files.read(session))}


@pytest.mark.parametrize("form", FORMS)
def test_a_recording_is_written_as_it_comes_and_its_header_at_the_end_is_the_one_that_counts(
    tmp_path: Path, form: str
) -> None:
    path = tmp_path / f"run{form}"
    trace = told()
    sink = streamed(trace, path)
    later = msgspec.structs.replace(trace.header, probes=("live",), mode="quick")
    sink.end(interrupted=True, header=later)
    assert files.read(path) == Trace(header=later, records=trace.records, interrupted=True)
    with files.open_recording(path) as recording:
        assert recording.header == trace.header
    assert through(path, tmp_path / "same.mcap").digest == through(tmp_path / "same.mcap", tmp_path / "b").digest


@pytest.mark.parametrize("form", FORMS)
def test_what_was_flushed_can_be_read_whatever_becomes_of_the_writer(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "FLUSH_S", 0.0)
    path = tmp_path / f"run{form}"
    trace = run(20)
    streamed(trace, path)  # and it never ends
    found = files.read(path)
    assert found.records == trace.records
    assert found.cut == f"the recording was cut short after {len(trace.records)} records"


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_was_cut_anywhere_is_read_as_far_as_it_goes(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvwire.trace.files.container.CHUNK_BYTES", 4096)
    trace = run(60)
    path = tmp_path / f"run{form}"
    files.write(trace, path)
    raw = path.read_bytes()
    counts: list[int] = []
    said: list[str] = []
    for end in range(len(raw) - 1, 0, -len(raw) // 40):
        path.write_bytes(raw[:end])
        try:
            found = files.read(path)
        except TraceError as error:  # the header itself is not whole
            said.append(str(error))
            continue
        assert found.cut or found == trace
        assert found.records == trace.records[: len(found.records)]
        counts.append(len(found.records))
    assert counts == sorted(counts, reverse=True)
    assert all("header" in text or "empty" in text or "MCAP" in text for text in said), said
    assert counts[0] > len(trace.records) // 2
    assert len(set(counts)) > 3


def test_a_whole_recording_says_that_nothing_is_cut(tmp_path: Path) -> None:
    for form in FORMS:
        files.write(run(3), tmp_path / f"run{form}")
        assert files.read(tmp_path / f"run{form}") == run(3)
        assert files.read(tmp_path / f"run{form}").cut == ""


def test_of_a_run_that_was_cut_no_probe_that_did_not_end_was_carried_out(tmp_path: Path) -> None:
    plan = (Planned(name="live"), Planned(name="replay"), Planned(name="reset", left=Left.MODE))
    header = msgspec.structs.replace(run(1).header, plan=plan, probes=())
    path = tmp_path / "run.mcap"
    sink = Sink(path)
    sink.begin(header)
    for name, phase in (("live", "begins"), ("live", "ends"), ("replay", "begins")):
        mark = msgspec.convert({"name": name, "phase": phase}, ProbeMark)
        sink.add(Record(t_ns=1, source="harness", detail=mark))
    sink.push()
    sink._encoder.flush()
    found = files.read(path).header
    assert [probe.left for probe in found.plan] == [None, Left.INTERRUPTED, Left.MODE]
    assert found.probes == ("live", "replay")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda raw: b"PK" + raw[2:], "not an MCAP file: it begins with other bytes"),
        (lambda raw: raw.replace(b"kvwire.header", b"another.title"), "no recording of kvwire"),
    ],
)
def test_what_is_no_container_of_ours_is_named(tmp_path: Path, damage: Callable[[bytes], bytes], says: str) -> None:
    path = tmp_path / "run.mcap"
    files.write(run(3), path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TraceError, match=rf"run\.mcap: .*{says}"):
        files.read(path)


def test_damage_in_the_middle_is_an_error_that_names_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwire.trace.files.container.CHUNK_BYTES", 4096)
    path = tmp_path / "run.mcap"
    files.write(run(60), path)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x55
    path.write_bytes(raw)
    with pytest.raises(TraceError, match=r"run\.mcap: byte \d+: "):
        files.read(path)


def test_the_container_is_read_by_the_reader_of_those_who_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    trace = run(5)
    files.write(trace, path)
    with path.open("rb") as file:
        messages = [(channel.topic, message.data) for _, channel, message in make_reader(file).iter_messages()]
    assert [data for _, data in messages] == [packed.pack(record) for record in trace.records]
    assert {topic for topic, _ in messages} >= {f"{trace.header.streams[0].name}/live-a"}


def test_without_the_package_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.mcap"
    files.write(run(1), path)
    monkeypatch.delitem(sys.modules, "kvwire.trace.files.container")
    monkeypatch.delattr(files, "container")
    monkeypatch.setitem(sys.modules, "mcap.writer", None)
    says = r"an \.mcap file needs the package mcap: python -m pip install mcap"
    with pytest.raises(TraceError, match=rf"run\.mcap: {says}"):
        files.read(path)
    with pytest.raises(TraceError, match=says):
        Sink(tmp_path / "other.mcap")
    assert not (tmp_path / "other.mcap").exists()


# --- parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_parts_are_one_recording_and_each_is_one_alone(tmp_path: Path, form: str) -> None:
    trace = run()
    sink = streamed(trace, tmp_path / f"run{form}", rotate=8_000 if form != ".kvtrace.gz" else 4_000)
    sink.end()
    assert len(sink.files) > 3
    assert [path.name for path in sink.files][:2] == [f"run{form}.0001", f"run{form}.0002"]
    assert files.recordings(tmp_path) == list(sink.files)
    assert all(path.stat().st_size < 12_000 for path in sink.files)
    assert files.read(*sink.files).records == trace.records
    alone = [files.read(path) for path in sink.files]
    for number, part in enumerate(alone, 1):
        assert part.header.part is not None
        assert (part.header.part.number, part.cut) == (number, "")
    second = alone[1]
    assert second.header.part is not None
    repeated = second.records[: second.header.part.repeats]
    assert [type(record.detail).__name__ for record in repeated] == ["SocketEvent", "SocketEvent", "Witnesses"]
    assert all(record in trace.records for record in repeated)


def test_the_digest_of_parts_together_is_of_each_record_once(tmp_path: Path) -> None:
    sink = streamed(run(), tmp_path / "run.mcap", rotate=8_000)
    sink.end()
    with files.open_recording(*sink.files) as recording:
        records = tuple(recording)
    whole = Trace(header=recording.ended.header, records=records)
    assert recording.ended.digest == packed.digest(whole)
    with files.open_recording(*sink.files) as again:
        files.convert(again, tmp_path / "whole.kvtrace")
    with files.open_recording(tmp_path / "whole.kvtrace") as one:
        assert tuple(one) == records
    assert one.ended.digest == recording.ended.digest


def test_a_part_that_was_cut_ends_the_recording(tmp_path: Path) -> None:
    sink = streamed(run(), tmp_path / "run.kvtrace", rotate=40_000)
    sink.end()
    *_, last = sink.files
    last.write_bytes(last.read_bytes()[:-40])
    assert files.read(*sink.files).cut
    first, *_ = sink.files
    first.write_bytes(first.read_bytes()[:-40])
    with pytest.raises(TraceError, match=r"run\.kvtrace\.0001: cut short, and another part follows"):
        files.read(*sink.files)


def test_numbers_go_on_behind_parts_that_are_there(tmp_path: Path) -> None:
    sinks = []
    for _ in range(2):
        sinks.append(streamed(run(40), tmp_path / "run.kvtrace", rotate=10_000))
        sinks[-1].end()
    names = [path.name for path in files.recordings(tmp_path)]
    assert names == [f"run.kvtrace.{number:04d}" for number in range(1, len(names) + 1)]
    assert names == [path.name for sink in sinks for path in sink.files]


# --- what is never replaced, and a full disk ---------------------------------------------------------------------


def test_nothing_but_a_regular_file_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.kvtrace")
    (tmp_path / "folder.mcap").mkdir()
    for path in (tmp_path / "pipe.kvtrace", tmp_path / "folder.mcap", Path("/dev/null")):
        with pytest.raises(TraceError, match="not a regular file; name one that can be replaced"):
            Sink(path)
        with pytest.raises(TraceError, match="not a regular file; name one that can be replaced"):
            files.write(run(1), path)
    with pytest.raises(TraceError, match="No such file or directory"):
        Sink(tmp_path / "nowhere" / "run.mcap")


@contextmanager
def disk_of(size: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, no more than so many bytes can be written."""
    left = size
    real = os.write

    def write(descriptor: int, data: bytes | memoryview) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(descriptor, bytes(data)[:left])
        left -= written
        return written

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        yield


@pytest.mark.parametrize("form", FORMS)
def test_a_full_disk_ends_the_writing_and_what_was_written_stays(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "FLUSH_S", 0.0)
    trace = run()
    path = tmp_path / f"run{form}"
    with disk_of(9_000, monkeypatch):
        sink = streamed(trace, path)
        sink.end()
    assert sink.failed == f"{path}: No space left on device; the file holds what was recorded before"
    found = files.read(path)
    assert found.cut
    assert 0 < len(found.records) < len(trace.records)
    assert found.records == trace.records[: len(found.records)]


def test_a_file_that_is_written_as_a_whole_leaves_no_half_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.mcap"
    files.write(run(1), path)
    before = path.read_bytes()
    with disk_of(2_000, monkeypatch), pytest.raises(OSError, match="No space left on device"):
        files.write(run(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_that_was_never_opened_leaves_a_file_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    Sink(path).push()
    with pytest.raises(TraceError, match="the file is empty: a trace begins with its header"):
        files.read(path)


def test_a_file_that_goes_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    trace = run()
    path = tmp_path / "run.kvtrace"
    files.write(trace, path)
    with files.open_recording(path) as recording:
        path.unlink()
        assert [recording.position <= 1 for _ in recording] == [True] * len(trace.records)


def test_a_recording_may_have_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 247 + ".kvtrace")
    files.write(run(), path)
    assert list(tmp_path.iterdir()) == [path]


def test_the_reader_never_holds_more_than_a_chunk(tmp_path: Path) -> None:
    trace = run()
    path = tmp_path / "run.kvtrace"
    files.write(trace, path)
    with files.open_recording(path) as recording:
        positions = [recording.position for _ in recording]
    assert positions == sorted(positions)
    assert positions[0] < 0.6 < positions[-1] <= 1.0


def test_a_time_beyond_64_bits_is_refused() -> None:
    record = Record(t_ns=1 << 70, source="live-a", frames=(b"", b"", b""))
    with pytest.raises(TraceError, match="more than 64 bits"):
        packed.digest(Trace(header=header(), records=(record,)))


def header() -> Header:
    return run(1).header
