"""The trace file: what is written is read, and what cannot be read says where and why."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.kit.stories import Story, everything, removed, stored

from kvwire.conclusion.judging import judge_stream
from kvwire.standard.registry import load
from kvwire.standard.statement import Bounds, Group, Statement
from kvwire.trace import files, levels
from kvwire.trace.detail import UnknownDetail
from kvwire.trace.marks import ProcessExit, Trouble
from kvwire.trace.records import FORMAT, Header, Record, Source, StreamInfo, Trace, TraceError


def told() -> Trace:
    """A trace with a record of every kind."""
    story = Story(statement=Statement(groups=(Group(idx=1, window=8),), bounds=Bounds(heartbeat_s=0.5), ring=9))
    story.connect()
    story.told(3)
    story.publish(stored("a"), removed("a"))
    story.replay()
    story.frames(b"\x00\xff", b"", by="a")
    story.frames(by="b")
    story.disconnect("b")
    story.note(ProcessExit(how="signal 9", stderr=("ä", "\x00")), life=2)
    story.note(Trouble(text="x"))
    story.record(Source.HARNESS, detail=UnknownDetail(event="later", raw={"big": 2**63, "deep": [{"a": 1.5}]}))
    story.records.append(Record(t_ns=-5, source="live-a", connection=3, frames=(b"t", b"n", b"p")))
    return story.trace()


def file_of(*lines: bytes) -> list[bytes]:
    return [line + b"\n" for line in lines]


HEADER = msgspec.json.encode(Header(trace=FORMAT, edition="1", target="t", level="passive"))
RECORD = b'{"t_ns":1,"source":"live-a","stream":"s","frames":["6b76","0000000000000001","93"]}'
END = b'{"end":1,"interrupted":false}'


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_is_written_is_read(tmp_path: Path, interrupted: bool) -> None:
    before = msgspec.structs.replace(told(), interrupted=interrupted)
    path = tmp_path / "run.kvtrace"
    files.write(before, path)
    assert files.read(path) == before
    assert list(tmp_path.iterdir()) == [path]
    assert b"".join(files.lines(files.read(path))) == path.read_bytes()


def test_a_compressed_file_is_the_same_trace_and_equal_traces_are_equal_files(tmp_path: Path) -> None:
    path, again = tmp_path / "run.kvtrace.gz", tmp_path / "again.kvtrace.gz"
    files.write(told(), path)
    files.write(files.read(path), again)
    assert files.read(path) == told()
    assert path.read_bytes() == again.read_bytes()
    assert gzip.decompress(path.read_bytes()) == b"".join(files.lines(told()))


@pytest.mark.parametrize("damage", [lambda raw: b"{}\n", lambda raw: raw[:40] + b"x" + raw[41:]])
def test_a_damaged_compressed_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "run.kvtrace.gz"
    files.write(told(), path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TraceError, match=r"run\.kvtrace\.gz: \w"):
        files.read(path)


def test_a_trace_that_was_read_is_judged_as_the_one_that_was_written(tmp_path: Path) -> None:
    story = Story().told(4)
    story.live(9, b"\xc1", by="a")
    story.replay(without=[2])
    path = tmp_path / "run.kvtrace"
    files.write(story.trace(), path)
    again = files.read(path)
    outcomes = judge_stream(again, again.header.streams[0], load(), everything()).outcomes
    assert msgspec.json.encode(outcomes) == msgspec.json.encode(story.judged().outcomes)


def test_every_line_is_one_json_value_and_frames_are_hex() -> None:
    lines = list(files.lines(told()))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert msgspec.json.decode(lines[0])["trace"] == "kvwire-trace-1"
    assert msgspec.json.decode(lines[-1]) == {"end": len(lines) - 2, "interrupted": False}
    assert msgspec.json.decode(lines[3])["frames"][:2] == ["6b76", "0000000000000000"]


def test_blank_lines_and_fields_of_the_future_are_overlooked() -> None:
    lines = file_of(HEADER, b"", RECORD[:-1] + b',"later":[1]}', b"  ", END)
    assert files.parse(lines).records == (
        Record(t_ns=1, source="live-a", stream="s", frames=(b"kv", bytes(7) + b"\1", b"\x93")),
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "the file is empty: a trace begins with its header"),
        ([b"", b" "], "the file is empty: a trace begins with its header"),
        ([RECORD, END], "line 1: no trace header .*; record one with `--record`"),
        ([b"not json"], "line 1: no trace header"),
        ([b"", HEADER.replace(b"kvwire-trace-1", b"kvwire-trace-9")], "line 2: format 'kvwire-trace-9', this harness"),
        ([HEADER.replace(b"passive", b"psychic")], "line 1: no trace header .*psychic"),
        ([HEADER, b"{", END], "line 2: not a record"),
        ([HEADER, RECORD, b'{"source":"live-a"}', END], "line 3: not a record: .*t_ns"),
        ([HEADER, RECORD.replace(b"6b76", b"6b7"), END], "line 2: not a record: .*hex"),
        ([HEADER, RECORD.replace(b"6b76", b"zz"), END], "line 2: not a record"),
        ([HEADER, RECORD.replace(b'"6b76"', b"7"), END], "line 2: not a record"),
        ([HEADER, b"[]", END], "line 2: not a record"),
        ([HEADER, RECORD], "the end line is missing after 1 records: the file was cut short"),
        ([HEADER], "the end line is missing after 0 records"),
        ([HEADER, RECORD, RECORD, END], "the end line counts 1 records, the file has 2"),
        ([HEADER, RECORD, b'{"end":"many"}'], "line 3: no end line"),
        ([HEADER, RECORD, b'{"end":1,'], "line 3: no end line"),
        ([HEADER, RECORD, END, RECORD], "line 4: records after the end line"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(lines: list[bytes], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        files.parse(file_of(*lines))


def test_lines_that_were_cut_anywhere_are_no_whole_trace() -> None:
    whole = b"".join(files.lines(told()))
    assert files.parse(whole.splitlines(keepends=True)) == told()
    for end in [*range(0, len(whole) - 1, 97), len(whole) - 2]:
        with pytest.raises(TraceError):
            files.parse(whole[:end].splitlines(keepends=True))


def test_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"missing\.kvtrace: No such file"):
        files.read(tmp_path / "missing.kvtrace")
    path = tmp_path / "bad.kvtrace"
    path.write_bytes(b"x\n")
    with pytest.raises(TraceError, match=r"bad\.kvtrace: line 1"):
        files.read(path)
    with pytest.raises(TraceError, match="Is a directory"):
        files.read(tmp_path)


def test_nothing_half_written_takes_the_place_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    files.write(told(), path)
    before = path.read_bytes()
    broken = msgspec.structs.replace(
        told(), records=(Record(t_ns=1, source="x", detail=UnknownDetail(event="x", raw={"f": open})),)
    )
    with pytest.raises(TypeError):
        files.write(broken, path)
    assert path.read_bytes() == before


def test_a_trace_as_a_lower_level_would_have_seen_it() -> None:
    whole = told()
    assert levels.lowered(whole, "driven") is whole
    replayable = levels.lowered(whole, "replayable")
    passive = levels.lowered(whole, "passive")
    assert (replayable.header.level, replayable.header.can, passive.header.streams[0].replay) == (
        "replayable",
        (),
        None,
    )
    assert replayable.header.streams == whole.header.streams
    kept = [record for record in whole.records if record in replayable.records]
    assert list(replayable.records) == kept
    assert not any(record.event == "publish" for record in replayable.records)
    assert not any(record.is_replay or record.source == Source.STIMULUS for record in passive.records)
    assert [record for record in passive.records if record.is_live] == [r for r in whole.records if r.is_live]


def test_what_a_record_is() -> None:
    records = {source: Record(t_ns=0, source=source) for source in ("live-a", "live-b", "replay-12", "monitor")}
    assert [name for name, record in records.items() if record.is_live] == ["live-a", "live-b"]
    assert [name for name, record in records.items() if record.is_replay] == ["replay-12"]
    assert StreamInfo(name="s", endpoint="ipc://x").replay is None


@pytest.mark.parametrize("where", ["edition", "statement"])
def test_an_edition_that_nobody_knows_is_refused(where: str) -> None:
    header = {"trace": FORMAT, "edition": "1", "target": "zmq:", "level": "passive"}
    header |= {"edition": "99"} if where == "edition" else {"statement": {"edition": "99"}}  # type: ignore[dict-item]
    raw = [json.dumps(header).encode(), b'{"end":0,"interrupted":false}']
    with pytest.raises(
        TraceError, match=r"^line 1: (its statement: )?edition '99' is unknown; this harness knows edition '1'$"
    ):
        files.parse(raw)
