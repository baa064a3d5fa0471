"""``kvwire doctor`` as somebody runs it whose router has no hits."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.checked import KVWIRE, kvwire

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.standard import resources, statement


@pytest.fixture
def served(room: Path) -> Iterator[str]:
    """Serve the reference in another process; yields its target."""
    where = ("--endpoint", f"ipc://{room}/live", "--replay", f"ipc://{room}/replay")
    command = (*KVWIRE, "serve", *where, "--rate", "100")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        match = re.fullmatch(r"kvwire check '(.*)'\n", process.stdout.readline())
        assert match is not None
        yield match[1]
        process.send_signal(signal.SIGINT)
        process.wait(10)


@pytest.mark.network
def test_a_running_publisher_is_described_compared_and_drafted(served: str, tmp_path: Path) -> None:
    expect, told, draft = tmp_path / "router.toml", tmp_path / "told.json", tmp_path / "kvwire.toml"
    expect.write_text("block_size = 7\n", encoding="utf-8")
    done = kvwire("doctor", served, "--for", "2", "--expect", str(expect), "--json", str(told), "--draft", str(draft))
    assert done.returncode == Exit.NOT_CONFORMANT, done.stderr
    assert "the consumer hashes 7 tokens a block, the engine announces" in done.stdout
    assert re.search(r"^  hashes +v\w+.*\(recomputed (\d+) of \1\)", done.stdout, re.MULTILINE), done.stdout
    assert f"next: kvwire check '{served}" in done.stdout
    assert done.stderr == ""
    profile = json.loads(told.read_bytes())["streams"][0]
    assert profile["batches"] > 20
    assert statement.read(draft).streams[0].endpoint == served.removeprefix("zmq:").partition("?")[0]


@pytest.mark.network
def test_nobody_there_is_said_and_is_inconclusive() -> None:
    done = kvwire("doctor", "zmq:tcp://127.0.0.1:9", "--for", "1")
    assert done.returncode == Exit.INCONCLUSIVE
    assert "no ZeroMQ handshake on tcp://127.0.0.1:9" in done.stdout


def test_recordings_are_compared_and_named_apart(capsys: pytest.CaptureFixture[str]) -> None:
    sessions = resources.vectors() / "session"
    one, other = str(sessions / "eviction.kvtrace"), str(sessions / "gap-replay.kvtrace")
    assert cli.run(["doctor", one, other]) in (Exit.CONFORMANT, Exit.NOT_CONFORMANT)
    out = capsys.readouterr().out
    assert re.search(r"1:\S+ and 2:\S+ (hash|share)", out)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["zmq:garbage"], "garbage"),
        (["trace:/nowhere.kvtrace"], "/nowhere.kvtrace"),
        (["zmq:tcp://127.0.0.1:9", "--expect", "/nowhere.toml"], "/nowhere.toml: No such file or directory"),
    ],
)
def test_bad_input_is_one_clear_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", *arguments]) == Exit.USAGE
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.network
def test_what_is_announced_is_held_against_what_is_reused() -> None:
    good = kvwire("doctor", "reference:")
    assert good.returncode == Exit.CONFORMANT, good.stdout
    assert "announced and reused agree for 8 of 8 prompts" in good.stdout
    bad = kvwire("doctor", "mutant:removes-on-split?block_size=2")
    assert bad.returncode == Exit.NOT_CONFORMANT
    assert "8 reused, announced GPU 0: block 0 (tokens 0 to 1) was reused and stands announced nowhere" in " ".join(
        bad.stdout.split()
    )


@pytest.mark.network
def test_an_engine_behind_an_api_is_asked_for_what_it_reuses() -> None:
    command = (sys.executable, "-m", "kvwire.peers.openai")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        _, _, target, option, url, *_ = shlex.split(child.stdout.readline())
        done = kvwire("doctor", target, option, url)
        child.stdin.close()
        child.wait(20)
    assert re.search(r"announced and reused agree for (\d+) of \1 prompts", done.stdout), done.stdout


def test_one_target_can_be_driven_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    drive = ["--drive", "openai:http://127.0.0.1:1/v1"]
    assert cli.run(["doctor", "zmq:tcp://127.0.0.1:9", "zmq:tcp://127.0.0.1:10", *drive]) == Exit.USAGE
    assert "--drive is for one target, and there are 2" in capsys.readouterr().err
