"""A result follows from a recording, whatever the form of its file, or what differs is named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.kit.packets import LIVE_PORT, Dialogue, live, written
from tests.kit.stories import cleared, payload
from tests.trace.test_recordings import run, streamed

from kvwire import cli
from kvwire.conclusion import provenance
from kvwire.judges.verdict import Exit
from kvwire.standard import resources
from kvwire.trace import files

SESSIONS = resources.vectors() / "session"
BROKEN = SESSIONS / "mutant-integer-ts.kvtrace"
EXPECTED = '[[expected]]\nid = "BAT-002"\nreason = "known"\n'


def judged(path: Path, into: Path, *options: str) -> Path:
    cli.run(["judge", str(path), "--json", str(into), "--quiet", *options])
    return into


def verify(*arguments: Path | str) -> int:
    return cli.run(["verify", *map(str, arguments)])


@pytest.mark.parametrize(
    "options", [(), ("--only", "BAT"), ("--strict",), ("--allow-inconclusive",), ("--profile", "core")]
)
def test_a_result_follows_from_its_recording_in_every_form(
    tmp_path: Path, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    result = judged(BROKEN, tmp_path / "result", *options)
    for form in (".mcap", ".kvtrace.gz"):
        files.write(files.read(BROKEN), tmp_path / f"run{form}")
        assert verify(result, tmp_path / f"run{form}") == Exit.CONFORMANT
        assert capsys.readouterr().out == f"{result} follows from {tmp_path}/run{form}, to the byte\n"


def test_every_result_has_the_digests_that_it_follows_from(tmp_path: Path) -> None:
    run_line = msgspec.json.decode(judged(BROKEN, tmp_path / "result").read_bytes().splitlines()[0])
    with files.open_recording(BROKEN) as recording:
        assert list(recording)
    assert run_line["recording_sha256"] == recording.ended.digest
    assert run_line["standard_sha256"] == provenance.standard()
    assert run_line["judges_sha256"] == provenance.judges()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((b'"standard_sha256":"', b'"standard_sha256":"0'), "another standard: the result has 0"),
        ((b'"judges_sha256":"', b'"judges_sha256":"0'), "other judges: the result has 0"),
        ((b'"recording_sha256":"', b'"recording_sha256":"0'), "another recording: the result has 0"),
        (
            (b'"requirement":"KVW-BAT-002","stream":"rank-0","verdict":"FAIL"',
             b'"requirement":"KVW-BAT-002","stream":"rank-0","verdict":"PASS"'),
            "another verdict: KVW-BAT-002 on rank-0: PASS in the result, FAIL here",
        ),
        ((b'"violations":10', b'"violations":9'), "other counts, findings or reasons: KVW-BAT-002 on rank-0"),
        ((b'"exit":1', b'"exit":0'), "the summary: not as here"),
        ((b'"mode":"plain"', b'"mode":"quick"'), "the run: not as here"),
        ((b'{"kind":"run",', b'{ "kind":"run",'), "the same is said, in other bytes"),
    ],
)  # fmt: skip
def test_what_differs_is_named(
    tmp_path: Path, change: tuple[bytes, bytes], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = judged(BROKEN, tmp_path / "result")
    raw = result.read_bytes()
    assert change[0] in raw
    result.write_bytes(raw.replace(*change, 1))
    assert verify(result, BROKEN) == Exit.NOT_CONFORMANT
    assert says in capsys.readouterr().out


def test_a_result_of_another_recording_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = judged(BROKEN, tmp_path / "result")
    assert verify(result, SESSIONS / "clear.kvtrace") == Exit.NOT_CONFORMANT
    assert "another recording: " in capsys.readouterr().out


def test_expected_failures_and_their_day_are_part_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "expected.toml"
    file.write_text(EXPECTED + "expires = 2199-01-01\n")
    result = judged(BROKEN, tmp_path / "result", "--expected-failures", str(file))
    assert verify(result, BROKEN) == Exit.USAGE
    assert "name the file by --expected-failures" in capsys.readouterr().err
    assert verify(result, BROKEN, "--expected-failures", file) == Exit.CONFORMANT
    file.write_text(EXPECTED + 'link = "https://example.org"\n')
    capsys.readouterr()
    assert verify(result, BROKEN, "--expected-failures", file) == Exit.NOT_CONFORMANT
    assert "other expected failures: " in capsys.readouterr().out


def test_the_result_of_a_folder_follows_from_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    streamed(run(100), folder / "parts.mcap", rotate=4_000).end()
    (folder / "broken.kvtrace").write_bytes(BROKEN.read_bytes())
    (folder / "none.mcap").write_bytes(b"")
    result = judged(folder, tmp_path / "result", "--workers", "2")
    assert verify(result, folder) == Exit.CONFORMANT
    raw = result.read_bytes()
    for changed in (
        raw + raw.splitlines(keepends=True)[-1],
        raw.replace(b'{"kind":"total",', b'{"kind":"total","x":0,'),
    ):
        result.write_bytes(changed)
        capsys.readouterr()
        assert verify(result, folder) == Exit.NOT_CONFORMANT
        assert "the same is said, in other bytes" in capsys.readouterr().out
    result.write_bytes(raw)
    (folder / "broken.kvtrace").write_bytes((SESSIONS / "clear.kvtrace").read_bytes())
    capsys.readouterr()
    assert verify(result, folder) == Exit.NOT_CONFORMANT
    said = capsys.readouterr().out
    assert "broken.kvtrace: another recording: " in said
    assert "the last line, of all recordings together, is another" in said
    assert "parts.mcap" not in said
    (folder / "broken.kvtrace").unlink()
    (folder / "more.kvtrace").write_bytes(BROKEN.read_bytes())
    assert verify(result, folder) == Exit.NOT_CONFORMANT
    said = capsys.readouterr().out
    assert "broken.kvtrace: no recording of this name is given" in said
    assert "more.kvtrace: the result does not speak of it" in said


def test_what_was_said_of_a_capture_is_said_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, Dialogue().subscribed().down(*(live(at, payload(cleared())) for at in range(3))))
    said = ("--port", str(LIVE_PORT), "--topic", "kv")
    result = judged(path, tmp_path / "result", *said)
    assert verify(result, path, *said) == Exit.CONFORMANT
    assert verify(result, path, "--port", str(LIVE_PORT)) == Exit.NOT_CONFORMANT
    assert verify(judged(tmp_path, result, *said), tmp_path, *said) == Exit.CONFORMANT
    capsys.readouterr()
    assert verify(judged(BROKEN, result), BROKEN, *said) == Exit.USAGE
    assert f"{BROKEN} is no packet capture: --port and --topic say nothing of it" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["convert", "scrub"])
def test_a_capture_is_no_recording_and_the_command_that_takes_it_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, Dialogue().subscribed())
    assert cli.run([command, str(path), "-o", str(tmp_path / "run.kvtrace")]) == Exit.USAGE
    assert f"{path}: a packet capture, which is no recording: `kvwire judge` takes it" in capsys.readouterr().err


def test_bad_input_is_a_usage_error_that_names_the_thing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = tmp_path / "nothing"
    nothing.write_bytes(b"no result\n")
    assert verify(nothing, BROKEN) == Exit.USAGE
    assert f"{nothing}: line 1: not of a result stream" in capsys.readouterr().err
    result = judged(BROKEN, tmp_path / "result")
    assert verify(result, tmp_path / "none.kvtrace") == Exit.NOT_CONFORMANT
    assert "No such file" in capsys.readouterr().out
    assert verify(result, BROKEN, SESSIONS / "clear.kvtrace") == Exit.USAGE
    assert "it is the result of one recording, and 2 are given" in capsys.readouterr().err
