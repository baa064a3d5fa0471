"""Many recordings: one stream whatever the number of workers, parts as one, and nothing lost with what goes wrong."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import msgspec
import pytest
from tests.kit.packets import Dialogue, written
from tests.trace.test_recordings import run, streamed
from tests.watch.test_together import told

from kvwire import cli
from kvwire.conclusion.result import Total
from kvwire.judges.verdict import Exit
from kvwire.recordings import judging, many
from kvwire.recordings.judging import Answer, Asked, answer, dumped
from kvwire.recordings.many import Tally, answers
from kvwire.recordings.units import Unit, units
from kvwire.standard import resources, schemas
from kvwire.trace import files
from kvwire.trace.records import TraceError

SESSIONS = resources.vectors() / "session"
SOME = ("clear", "gap", "mutant-integer-ts", "eviction")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of recordings: whole ones in all forms, one in parts, one that was cut, and one that is none."""
    inside = tmp_path / "recordings"
    (inside / "below").mkdir(parents=True)
    for name, form in zip(SOME, (".kvtrace", ".kvtrace.gz", ".mcap", ".kvtrace"), strict=True):
        files.write(files.read(SESSIONS / f"{name}.kvtrace"), inside / f"{name}{form}")
    streamed(run(200), inside / "below" / "parts.mcap", rotate=4_000).end()
    cut = inside / "cut.kvtrace"
    cut.write_bytes((SESSIONS / "clear.kvtrace").read_bytes()[:-30])
    (inside / "none.mcap").write_bytes(b"nothing of ours")
    (inside / "notes.txt").write_text("no recording")
    return inside


def stream(found: list[Answer]) -> bytes:
    tally = Tally()
    for one in found:
        tally.add(one)
    return b"".join(one.dump() for one in found) + judging.line(tally.total())


def test_the_recordings_of_a_folder_are_sorted_and_parts_are_one(folder: Path) -> None:
    names = [unit.name for unit in units([folder])]
    parts = len(list((folder / "below").iterdir()))
    assert names == [
        f"below/parts.mcap.0001…{parts:04d}",
        "clear.kvtrace",
        "cut.kvtrace",
        "eviction.kvtrace",
        "gap.kvtrace.gz",
        "mutant-integer-ts.mcap",
        "none.mcap",
    ]


def test_a_file_that_is_named_twice_is_one_and_the_order_is_that_of_the_user(folder: Path) -> None:
    named = [folder / "gap.kvtrace.gz", folder / "clear.kvtrace", folder]
    assert [unit.name for unit in units(named)][:2] == ["gap.kvtrace.gz", "clear.kvtrace"]
    assert len(units(named)) == len(units([folder]))


def test_behind_a_part_that_is_missing_the_recording_begins_anew(folder: Path) -> None:
    *_, third, fourth = sorted((folder / "below").iterdir())[:4]
    third.unlink()
    first, second = units([folder / "below"])
    assert first.name == "parts.mcap.0001…0002"
    assert second.paths[0] == fourth
    assert answer(second, Asked()).recording.error == ""


def test_a_folder_without_recordings_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no recording is in this folder: none ends in \.mcap, \.kvtrace"):
        units([tmp_path])


@pytest.mark.parametrize("name", ["kv.pcap", "kv.pcap00", "kv.pcap12", "kv.pcapng.gz", "kv.cap"])
def test_captures_of_a_folder_are_found_whatever_tcpdump_calls_them(name: str, tmp_path: Path) -> None:
    raw = written(tmp_path, Dialogue().subscribed()).read_bytes()
    (tmp_path / "kv.pcap").rename(tmp_path / name)
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    (tmp_path / "kv.pcap.md").write_bytes(raw)
    assert [unit.name for unit in units([tmp_path])] == [name]


def test_one_stream_comes_out_whatever_the_number_of_workers(folder: Path) -> None:
    found = units([folder])
    alone = list(answers(found, Asked(), 1))
    told: list[int] = []
    assert stream(list(answers(found, Asked(), 3, told.append))) == stream(alone)
    assert told[-1] == len(found)
    by_name = {one.recording.name: one for one in alone}
    assert by_name["none.mcap"].recording.error == "not an MCAP file: it begins with other bytes"
    assert by_name["cut.kvtrace"].recording.ended == "cut"
    ours = by_name["mutant-integer-ts.mcap"].result
    single = answer(Unit(name="x", paths=(SESSIONS / "mutant-integer-ts.kvtrace",)), Asked()).result
    assert ours is not None
    assert single is not None
    assert dumped(ours) == dumped(single)


def test_every_line_is_as_the_schema_says(folder: Path) -> None:
    for text in stream(list(answers(units([folder]), Asked(), 1))).splitlines():
        assert schemas.validate("result", msgspec.json.decode(text)) == []


def test_parts_together_are_judged_as_the_recording_that_was_not_rotated(tmp_path: Path, folder: Path) -> None:
    streamed(run(200), tmp_path / "whole.mcap").end()
    together = answer(units([folder / "below"])[0], Asked()).result
    whole = answer(units([tmp_path / "whole.mcap"])[0], Asked()).result
    assert together is not None
    assert whole is not None
    assert together.outcomes == whole.outcomes
    assert together.streams == whole.streams
    assert together.notices == whole.notices


def test_each_part_is_judged_alone_without_a_word_against_it(folder: Path) -> None:
    for path in sorted((folder / "below").iterdir()):
        found = answer(Unit(name=path.name, paths=(path,)), Asked()).result
        assert found is not None
        assert not [one for one in found.outcomes if one.violations]
        assert not found.troubles


def test_a_worker_that_dies_is_an_error_that_names_the_recording_and_nothing_else_is_lost(folder: Path) -> None:
    found = units([folder])
    waiting = deque(enumerate(found))
    pool = many._Pool(Asked(), 2)
    done: dict[int, Answer] = {}
    try:
        pool.fill(waiting)
        victim = pool._workers[0]
        assert victim.has is not None
        doomed = victim.has[0]
        os.kill(victim.process.pid or 0, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while len(done) < len(found) and time.monotonic() < deadline:
            done.update(pool.take())
            pool.fill(waiting)
    finally:
        pool.close()
    assert done[doomed].recording.error == "the worker that judged it died (signal SIGKILL)"
    alone = list(answers(found, Asked(), 1))
    assert [done[at] for at in range(len(found)) if at != doomed] == [
        one for at, one in enumerate(alone) if at != doomed
    ]


def test_a_fault_of_the_harness_is_the_error_of_one_recording(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = judging.read

    def broken(recording: files.Recording, asked: Asked, **fields: object) -> object:
        if recording.header.target.startswith("mutant:"):
            raise KeyError("planted")
        return real(recording, asked, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(judging, "read", broken)
    errors = [one.recording.error for one in answers(units([folder]), Asked(), 1) if one.recording.error]
    assert "the harness failed: KeyError: 'planted'" in errors
    assert "planted" in capsys.readouterr().err


def test_the_command_judges_a_folder(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = [tmp_path / "one", tmp_path / "two"]
    codes = [
        cli.run(["judge", str(folder), "--json", str(path), "--workers", n]) for path, n in zip(out, "12", strict=True)
    ]
    assert codes == [Exit.NOT_CONFORMANT, Exit.NOT_CONFORMANT]
    assert out[0].read_bytes() == out[1].read_bytes() == stream(list(answers(units([folder]), Asked(today=""), 1)))
    printed = capsys.readouterr().out.splitlines()
    rows = printed[: len(printed) // 2]
    assert rows[-1].startswith("7 recordings: 1 ERROR, 1 FAIL, ")
    assert "FAIL          mutant-integer-ts.mcap: 10 batches; breaks BAT-002" in "\n".join(rows)
    assert any(row.startswith("INCONCLUSIVE  cut.kvtrace:") and "cut short" in row for row in rows)


def test_what_recordings_show_together_is_said_once_and_stands_in_the_last_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    for name, algorithm in (("a", "v1_block_key"), ("b", "v2_sha256_64/u32")):
        trace = told(algorithm)
        streams = (msgspec.structs.replace(trace.header.streams[0], endpoint=f"tcp://{name}:5557"),)
        header = msgspec.structs.replace(trace.header, streams=streams, profile="core", clock_ns=10**18)
        files.write(msgspec.structs.replace(trace, header=header), fleet / f"{name}.mcap")
    outs = [tmp_path / "one", tmp_path / "two"]
    for out, n in zip(outs, "12", strict=True):
        assert cli.run(["judge", str(fleet), "--json", str(out), "--workers", n]) in (
            Exit.CONFORMANT,
            Exit.INCONCLUSIVE,
        )
    assert outs[0].read_bytes() == outs[1].read_bytes()
    last = outs[0].read_bytes().splitlines()[-1]
    total = msgspec.json.decode(last, type=Total)
    assert [notice.what for notice in total.notices] == ["one-rank", "hashes-differ"]
    assert schemas.validate("result", msgspec.json.decode(last)) == []
    assert cli.run(["verify", str(outs[0]), str(fleet)]) == Exit.CONFORMANT
    printed = capsys.readouterr().out
    assert printed.count("two streams carry rank 0: a.mcap, b.mcap\n") == 2
    assert printed.count("b.mcap and a.mcap hash one prompt differently: 0 of 8 shared prefixes alike") == 2


def test_a_row_says_that_its_recording_claims_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = files.read(SESSIONS / "clear.kvtrace")
    quick = msgspec.structs.replace(trace, header=msgspec.structs.replace(trace.header, mode="quick"))
    files.write(quick, tmp_path / "quick.kvtrace")
    files.write(trace, tmp_path / "whole.kvtrace")
    cli.run(["judge", str(tmp_path)])
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.endswith("; no claim (quick)")
    assert "claim" not in second


def test_on_a_terminal_a_row_does_not_stand_behind_the_line_of_progress(folder: Path) -> None:
    leader, follower = os.openpty()
    named = [str(folder / name) for name in ("clear.kvtrace", "gap.kvtrace.gz", "eviction.kvtrace")]
    command = [sys.executable, "-m", "kvwire", "judge", *named, "--workers", "1"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        said = b""
        with contextlib.suppress(OSError):  # Linux's word for the end of a terminal
            while block := os.read(leader, 65536):
                said += block
        process.wait(60)
    os.close(leader)
    text = said.decode()
    assert "judged 2 of 3 …" in text
    assert "3 recordings: 1 INCONCLUSIVE, 2 PASS" in text
    erased = re.split(r"\x1b\[[0-9]?K", text)
    assert not [line for line in erased if " of 3 …" in line and "PASS" in line]


def test_what_is_of_one_result_only_is_refused_for_several(folder: Path, tmp_path: Path) -> None:
    assert cli.run(["judge", str(folder), "--badge", str(tmp_path / "b")]) == Exit.USAGE
    assert cli.run(["judge", str(folder), "--junit", str(tmp_path / "j"), "--quiet"]) == Exit.NOT_CONFORMANT
    assert (tmp_path / "j").read_text().count("<testsuite ") > 4


def test_one_recording_is_reported_in_full_and_how_it_ended(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["judge", str(folder / "below"), "--only", "ENV"]) == Exit.CONFORMANT
    said = capsys.readouterr()
    assert "parts, whole" in said.err
    assert "ENV " in said.out
