"""What is printed and written: nothing is obeyed by a terminal, nothing found is lost, and the exit code is right."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import IO

import pytest

from kvwire import cli
from kvwire.cli import root
from kvwire.cli.screen import Growing, writable, write, wrote
from kvwire.judges.verdict import Exit
from kvwire.standard import resources

KVWIRE = (sys.executable, "-m", "kvwire")
SESSION = str(resources.vectors() / "session" / "mutant-integer-ts.kvtrace")
EVIL = "a\x1b[31m\x9b2J\n\u202eb"
GONE = """
import os, sys
os.mkdir("x"); os.chdir("x"); os.rmdir("../x")
from kvwire.cli import run
sys.exit(run(sys.argv[1:]))
"""
SHOWN = r"a\x1b[31m\x9b2J\n\u202eb"


def kvwire(
    *arguments: str | bytes, stdout: IO[bytes] | int = subprocess.PIPE, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        (*KVWIRE, *arguments), stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, env=env, check=False
    )


# --- what is printed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (EVIL,),
        (f"--{EVIL}",),
        ("judge", EVIL),
        ("judge", f"--{EVIL}"),
        ("judge", SESSION, "--profile", EVIL),
        ("judge", SESSION, "--only", EVIL),
        ("judge", SESSION, "--json", f"/nonexistent/{EVIL}"),
        ("judge", SESSION, "--port", EVIL),
        ("check", EVIL),
        ("check", f"zmq:tcp://{EVIL}:1"),
        ("check", f"zmq:tcp://h:1?{EVIL}=1"),
        ("check", f"exec:{EVIL}"),
        ("check", f"{EVIL}.toml"),
        ("check", "reference:", "--for", EVIL),
        ("record", EVIL, "-o", "x"),
        ("watch", EVIL),
        ("doctor", EVIL),
        ("lookup", SESSION, "--tokens", EVIL),
        ("lookup", SESSION, "--tokens", "1", "--stream", EVIL),
        ("report", EVIL),
        ("convert", EVIL, "-o", "x"),
        ("scrub", SESSION, "-o", "x", "--key-file", EVIL),
        ("verify", EVIL, SESSION),
        ("baseline", "update", "x", EVIL),
        ("hash", EVIL, "--tokens", "1", "--block-size", "1"),
        ("hash", "v1_block_key", "--tokens", EVIL, "--block-size", "1"),
        ("hash", "v1_block_key", "--tokens", "1", "--block-size", EVIL),
        ("explain", EVIL),
        ("list", EVIL),
        ("vectors", "list", EVIL),
        ("vectors", "session", EVIL, "-o", "x"),
        ("vectors", "list", "--vectors", f"/nonexistent/{EVIL}"),
        ("mutants", "list", EVIL),
    ],
    ids=lambda arguments: " ".join(arguments[:2]).replace(EVIL, "EVIL").replace(SESSION, "FILE"),
)
def test_an_argument_that_is_refused_reaches_no_terminal_unescaped(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) in (Exit.USAGE, Exit.ERROR)
    said = capsys.readouterr()
    assert not {"\x1b", "\x9b", "\u202e"} & set(said.out + said.err)
    assert "Traceback" not in said.err
    assert r"a\x1b[31m" in said.err.replace("\\\\", "\\") or EVIL not in arguments


def test_a_file_name_is_shown_and_obeyed_by_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"{EVIL.replace('/', '')}.kvtrace"
    path.write_bytes(Path(SESSION).read_bytes())
    assert cli.run(["judge", str(path)]) == Exit.NOT_CONFORMANT
    said = capsys.readouterr()
    assert f"{SHOWN}.kvtrace: " in said.err
    assert "\x1b" not in said.out + said.err


@pytest.mark.parametrize(("command", "code"), [("judge", Exit.NOT_CONFORMANT), ("doctor", Exit.NOT_CONFORMANT)])
def test_a_name_that_is_no_utf_8_is_a_name(tmp_path: Path, command: str, code: Exit) -> None:
    for name in (b"q\xff.kvtrace", b"r\xfe.kvtrace"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(Path(SESSION).read_bytes())
    found = tmp_path / "found.json"
    done = kvwire(command, os.fsencode(tmp_path) + b"/q\xff.kvtrace", "--json", str(found))
    assert done.returncode == code, done.stderr
    done = kvwire("judge", str(tmp_path), "--json", str(found))
    assert done.returncode == Exit.NOT_CONFORMANT, done.stderr
    assert rb"q\\xff.kvtrace" in found.read_bytes()


@pytest.mark.parametrize("target", [b"zmq:tcp://\xff:1", b"exec:\xff", b"reference:?topic=\xff", b"\xff.toml"])
def test_a_target_that_is_no_utf_8_is_refused(target: bytes) -> None:
    done = kvwire("check", target)
    assert done.returncode == Exit.USAGE
    assert "is not UTF-8" in done.stderr


@pytest.mark.parametrize("arguments", [("list",), ("judge", SESSION), ("vectors", "list", "--ids")])
def test_who_reads_no_further_gets_no_verdict_for_it(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = kvwire(*arguments, stdout=pipe)
    assert done.returncode == Exit.ERROR
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [("list",), ("judge", SESSION), ("hash", "v1_block_key", "--tokens=1", "--block-size=1")]
)
def test_a_full_disk_behind_standard_output_is_said(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = kvwire(*arguments, stdout=full)
    assert done.returncode == Exit.ERROR
    assert "kvwire: error: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_of_few_characters_gets_their_numbers() -> None:
    narrow = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for arguments, code in ((("explain", "RES-006"), 0), (("judge", SESSION), 1), (("list",), 0)):
        done = kvwire(*arguments, env=narrow)
        assert done.returncode == code, done.stderr
        assert done.stdout.isascii()


def test_no_home_and_no_folder_for_files_in_between_change_nothing(tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if name != "HOME"} | {"TMPDIR": "/nonexistent"}
    assert kvwire("judge", SESSION, "--quiet", env=bare).returncode == Exit.NOT_CONFORMANT
    for more, expected in (((), Exit.NOT_CONFORMANT), (("--json", "x.json"), Exit.USAGE)):
        done = subprocess.run(
            (sys.executable, "-c", GONE, "judge", SESSION, "--quiet", *more),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == expected, done.stderr
        assert "Traceback" not in done.stderr


# --- what is written ----------------------------------------------------------------------------------------------


def test_what_cannot_be_written_keeps_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "run.html"
    code = cli.run(["judge", SESSION, "--json", "/dev/full", "--html", str(page)])
    said = capsys.readouterr()
    assert code == Exit.ERROR
    assert "kvwire: cannot write /dev/full: No space left on device" in said.err
    assert "sentences:" in said.out
    assert page.read_bytes().startswith(b"<!")


def test_of_several_recordings_a_full_disk_loses_the_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.kvtrace").write_bytes(Path(SESSION).read_bytes())
    assert cli.run(["judge", str(tmp_path), "--json", "/dev/full"]) == Exit.ERROR
    said = capsys.readouterr()
    assert said.err.count("cannot write /dev/full") == 1
    assert "2 recordings" in said.out


def test_a_regular_file_is_replaced_when_the_new_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    write(path, b"first")

    def full(self: Path, content: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        assert not wrote([(path, b"second")])
    assert path.read_bytes() == b"first"
    assert [one.name for one in tmp_path.iterdir()] == ["x"]
    assert wrote([(path, b"third")])
    assert path.read_bytes() == b"third"


def test_what_a_link_stands_for_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"")
    link.symlink_to(real)
    write(link, b"x")
    assert link.is_symlink()
    assert real.read_bytes() == b"x"


def test_a_pipe_is_written_to_and_one_that_nobody_reads_is_an_error(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not wrote([(pipe, b"x")])
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert wrote([(pipe, b"x")])
        assert os.read(reading, 9) == b"x"
    finally:
        os.close(reading)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_by_another_name_is_printed_to(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        done = kvwire("judge", SESSION, "--json", "/dev/stdout", stdout=out)
    assert done.returncode == Exit.NOT_CONFORMANT
    text = (tmp_path / "out").read_text(encoding="utf-8")
    assert text.startswith('{"kind":"run"')
    assert '"kind":"summary"' in text
    assert "not conformant (BAT-002)" in text.splitlines()[-1]


@pytest.mark.parametrize("command", [("convert", SESSION), ("scrub", SESSION), ("vectors", "session", "clear")])
def test_no_name_of_the_systems_is_replaced_by_a_recording(command: tuple[str, ...], tmp_path: Path) -> None:
    before = os.lstat("/dev/stdout")
    for place in ("/dev/stdout", "/dev/full", "/proc/self/fd/1"):
        with (tmp_path / "out").open("wb") as out:
            done = kvwire(*command, "-o", place, stdout=out)
        assert done.returncode == Exit.USAGE
        assert "not a regular file" in done.stderr
    assert os.path.samestat(before, os.lstat("/dev/stdout"))


def test_a_place_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    import click

    for path, why in ((tmp_path / "none" / "x", "does not exist"), (tmp_path, "a folder")):
        with pytest.raises(click.UsageError, match=why):
            writable(path, "--json")
    writable(tmp_path / "x", "--json")


def test_a_file_that_grows_ends_where_the_disk_does(capsys: pytest.CaptureFixture[str]) -> None:
    growing = Growing(Path("/dev/full"))
    growing.write(b"x")
    growing.write(b"y")
    growing.close()
    assert growing.failed
    assert capsys.readouterr().err.count("cannot write /dev/full") == 1


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), "there is not enough memory"),
        (RuntimeError("can't start new thread"), "no thread can be started"),
        (BrokenExecutor("a process ended abruptly"), "a process that worked here was ended"),
    ],
)
def test_a_machine_without_memory_is_said_in_a_line(
    error: Exception, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(root.main, "main", none)
    assert cli.run([]) == Exit.ERROR
    said = capsys.readouterr().err
    assert said.startswith(f"kvwire: error: {says}")
    assert said.count("\n") == 1


def test_links_in_a_circle_are_usage_before_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    circle = tmp_path / "circle.kvtrace"
    circle.symlink_to(circle)
    for arguments in (
        ["judge", str(circle)],
        ["judge", SESSION, "--json", str(circle)],
        ["convert", SESSION, "-o", str(circle)],
        ["scrub", str(circle), "-o", str(tmp_path / "x.kvtrace")],
        ["report", str(circle)],
        ["vectors", "session", "eviction", "-o", str(circle)],
        ["check", "reference:", "--record", str(circle)],
        ["record", "zmq:tcp://127.0.0.1:1", "-o", str(circle)],
    ):
        assert cli.run(arguments) == Exit.USAGE, arguments
        assert "Too many levels of symbolic links" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "n" * 256])
def test_a_name_that_no_file_can_have_is_usage(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(SESSION, tmp_path / "here.kvtrace")
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["judge", name],
        ["judge", SESSION, "--json", name],
        ["judge", SESSION, "--expected-failures", name],
        ["convert", name, "-o", "x.mcap"],
        ["convert", SESSION, "-o", f"{name}.mcap" if name else name],
        ["scrub", name, "-o", "x.mcap"],
        ["verify", name, SESSION],
        ["report", name],
        ["vectors", "export", name],
        ["vectors", "list", "--vectors", name],
        ["baseline", "update", name, SESSION],
        ["doctor", SESSION, "--draft", name],
        ["doctor", f"{name}.kvtrace"],
        ["check", f"trace:{name}"],
        ["check", f"{name}.toml"],
    ):
        assert cli.run(arguments) == Exit.USAGE, arguments
        said = capsys.readouterr().err
        assert any(
            why in said for why in ("is empty", "too long", "no regular file", "there is no file", "no target")
        ), arguments
    assert [file.name for file in tmp_path.iterdir()] == ["here.kvtrace"]


def test_a_name_may_be_as_long_as_a_name_can_be(tmp_path: Path) -> None:
    write(tmp_path / ("n" * 250), b"kept")
    assert (tmp_path / ("n" * 250)).read_bytes() == b"kept"


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor", SESSION, "--hash-seed"),
        ("lookup", SESSION, "--tokens", "1", "--hash-seed"),
        ("lookup", SESSION, "--tokens", "1", "--lora-name"),
        ("hash", "v1_block_key", "--tokens", "1", "--block-size", "1", "--salt"),
        ("hash", "x-vllm-sha256-cbor", "--tokens", "1", "--block-size", "1", "--seed"),
        ("hash", "x-vllm-sha256-cbor", "--tokens", "1", "--block-size", "1", "--extra-keys"),
    ],
)
def test_bytes_that_are_no_text_are_usage_where_text_is_hashed(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*arguments, "\udcff"]) == Exit.USAGE
    assert "'\\udcff' is not UTF-8" in capsys.readouterr().err


def test_half_a_surrogate_pair_in_json_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["hash", "x-vllm-sha256-cbor", "--tokens", "1", "--block-size", "1", "--extra-keys", '[["\\ud800"]]']
    assert cli.run(arguments) == Exit.USAGE
    assert "--extra-keys: no JSON of text" in capsys.readouterr().err
