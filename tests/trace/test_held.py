"""How much of a file is held in memory."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from tests.kit.stories import Story, cleared

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.trace import files
from kvwire.trace.files import ndjson
from kvwire.trace.records import Record, TraceError, held, weight


def record(number: int) -> Record:
    return Record(t_ns=0, source="live-a", stream="s", frames=(number.to_bytes(1000, "big"),))


def test_records_are_held_as_long_as_there_is_room() -> None:
    records = [record(number) for number in range(4)]
    room = 4 * weight((bytes(1000),))
    assert list(held(records, room)) == records
    with pytest.raises(TraceError, match=r"take more than .* bytes of memory; `kvwire judge --memory` takes"):
        list(held(records, room - 1))
    again = weight(())
    assert list(held([*records, *records], room + 4 * again)) == [*records, *records]


def test_a_line_is_read_up_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "LINE_BYTES", 10)
    assert list(ndjson.bounded(io.BytesIO(b"123456789\nab\n"))) == [b"123456789\n", b"ab\n"]
    with pytest.raises(TraceError, match="line 2: longer than 10 bytes"):
        list(ndjson.bounded(io.BytesIO(b"a\n" + b"x" * 11)))


def test_a_line_without_end_is_named_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ndjson, "LINE_BYTES", 10_000)
    story = Story()
    story.send(cleared())
    path = tmp_path / "x.kvtrace.gz"
    files.write(story.trace(), path)
    path.write_bytes(path.read_bytes() + gzip.compress(bytes(20_000)))
    assert cli.run(["judge", str(path), "--profile", "core"]) == Exit.USAGE
    assert "longer than 10000 bytes" in capsys.readouterr().err


def test_a_driven_recording_that_is_larger_than_memory_says_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.kvtrace"
    head = b'{"can":["publish"],"edition":"1","level":"driven","target":"x","trace":"kvwire-trace-1"}\n'
    line = b'{"frames":["%02x%s"],"source":"live-a","stream":"s","t_ns":0}\n'
    path.write_bytes(head + b"".join(line % (number, b"00" * 4_000_000) for number in range(20)))
    assert cli.run(["judge", str(path), "--memory", "256MB"]) == Exit.USAGE
    assert "`kvwire judge --memory` takes more" in capsys.readouterr().err
    assert cli.run(["judge", str(path), "--memory", "1GB", "--quiet"]) != Exit.USAGE


def test_a_chunk_that_is_larger_than_it_says_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvwire.trace.files import container

    story = Story()
    for _ in range(50):
        story.send(cleared())
    path = tmp_path / "x.mcap"
    files.write(story.trace(), path)
    monkeypatch.setattr(container, "CHUNK_MAX", 2_000)
    with pytest.raises(TraceError, match="damaged"):
        files.read(path)
