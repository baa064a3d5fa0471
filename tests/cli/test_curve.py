"""CURVE, from files of keys to a verdict: who has the keys hears, who has others is told, and no secret is left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq.auth

from kvwire import cli
from kvwire.attack.curve import Curve
from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile.measure import tree
from kvwire_reference.curve import CurveKeyError, CurveServer, KeyPair, read_allowed, read_public
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch

KVWIRE = (sys.executable, "-P", "-m", "kvwire")
SERVER = ("--curve-server", "publisher.key")
PEOPLE = ("publisher", "consumer", "stranger")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder of key files, and the list that allows the consumer."""
    for name in PEOPLE:
        zmq.auth.create_certificates(tmp_path, name)
    (tmp_path / "allowed").write_bytes(
        b"# who may come\n\n" + read_public(tmp_path / "consumer.key") + b" the router\n"
    )
    return tmp_path


@pytest.fixture
def target(keys: Path) -> Iterator[str]:
    """A publisher that lets in the consumer."""
    config = PublisherConfig(
        endpoint="tcp://127.0.0.1:0",
        replay_endpoint="tcp://127.0.0.1:0",
        ephemeral=True,
        heartbeat=0.02,
        curve=CurveServer(KeyPair.read(keys / "publisher.key_secret"), read_allowed(keys / "allowed")),
    )
    with ZmqPublisher(config) as publisher:
        publisher.publish(Batch(time.time(), (), 0))
        yield f"zmq:{publisher.endpoint}?replay={publisher.replay_endpoint}"


def options(keys: Path, who: str = "consumer", server: str = "publisher") -> list[str]:
    return ["--curve-keys", str(keys / f"{who}.key_secret"), "--curve-server", str(keys / f"{server}.key")]


def environment(keys: Path) -> dict[str, str]:
    return {
        "KVWIRE_CURVE_SECRET_KEY": KeyPair.read(keys / "consumer.key_secret").secret.decode(),
        "KVWIRE_CURVE_SERVER_KEY": read_public(keys / "publisher.key").decode(),
    }


COMMANDS = {
    "check": "check TARGET --quick --json a.json --html a.html --junit a.xml --record a.kvtrace",
    "record": "record TARGET --for 2 -o a.mcap",
    "watch": "watch TARGET --for 2 --json --replay-gaps --result a.json",
    "doctor": "doctor TARGET --for 2 --json a.json --draft a.toml",
}


def shown(pid: int, what: str) -> bytes:
    try:
        return (Path("/proc") / str(pid) / what).read_bytes()
    except OSError:
        return b""


@pytest.mark.network
@pytest.mark.parametrize(("command", "by"), [*((name, "files") for name in COMMANDS), ("check", "environment")])
def test_who_has_the_keys_hears_and_the_secret_is_nowhere(
    keys: Path, target: str, command: str, by: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    room = tmp_path_factory.mktemp("room")
    secrets = [KeyPair.read(keys / f"{name}.key_secret").secret for name in ("consumer", "publisher")]
    arguments = COMMANDS[command].replace("TARGET", target).split()
    arguments += options(keys) if by == "files" else []
    env = {**os.environ, **(environment(keys) if by == "environment" else {})}
    seen = b""
    with (room / "said").open("wb") as said:
        process = subprocess.Popen([*KVWIRE, *arguments], cwd=room, env=env, stdout=said, stderr=said)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            for pid in tree(process.pid):
                seen += shown(pid, "cmdline") + (shown(pid, "environ") if pid != process.pid else b"")
            time.sleep(0.05)
        process.kill()
    assert process.wait() not in (Exit.USAGE, Exit.ERROR), (room / "said").read_text()
    assert "handshake" not in (room / "said").read_text()
    assert b"witness_process" in seen
    for artefact in room.rglob("*"):
        seen += artefact.read_bytes()
    assert not [secret for secret in secrets if secret in seen]


@pytest.mark.network
@pytest.mark.parametrize(
    ("who", "told"),
    [
        pytest.param(
            {"who": "stranger"}, "does not allow this client; is our public key on its list?", id="not listed"
        ),
        pytest.param({"server": "stranger"}, "is this the publisher's server key", id="another server"),
        pytest.param(None, "does it want CURVE keys", id="no keys"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_who_has_other_keys_is_told_so(
    keys: Path,
    target: str,
    command: str,
    who: dict[str, str] | None,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(keys)
    monkeypatch.setenv("COLUMNS", "1000")
    arguments = COMMANDS[command].replace("TARGET", target).split()
    code = cli.run([*arguments, *([] if who is None else options(keys, **who))])
    out, err = capsys.readouterr()
    assert "the handshake failed" in out + err
    assert told in (out + err).replace("\\u2019", "'")
    assert code in (Exit.ERROR, Exit.INCONCLUSIVE, Exit.NOT_CONFORMANT)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(
            ["--curve-keys", "consumer.key_secret"], "keys of our own without the publisher's", id="no server"
        ),
        pytest.param(["--curve-server", "publisher.key"], "a server's key without our own", id="no pair"),
        pytest.param(
            ["--curve-keys", "consumer.key", "--curve-server", "publisher.key"], "no line `secret-key", id="public"
        ),
        pytest.param(["--curve-keys", "none", "--curve-server", "publisher.key"], "none: No such file", id="no file"),
        pytest.param(
            ["--curve-keys", "/dev/zero", "--curve-server", "publisher.key"], "more than 65536 bytes", id="zeros"
        ),
        pytest.param(["--curve-keys", "mixed", "--curve-server", "publisher.key"], "not of one pair", id="mixed"),
        pytest.param(["--curve-keys", "consumer.key_secret", "--curve-server", "short"], "40 characters", id="short"),
    ],
)
def test_keys_that_are_none_are_refused(
    keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(keys)
    text = (keys / "consumer.key_secret").read_text()
    (keys / "mixed").write_text(
        re.sub(r'public-key = ".*"', f'public-key = "{KeyPair.generate().public.decode()}"', text)
    )
    (keys / "short").write_text('public-key = "0123456789"\n')
    assert cli.run(["check", "zmq:tcp://127.0.0.1:1", *arguments]) == Exit.USAGE
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_secret_in_the_environment_that_is_none_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVWIRE_CURVE_SECRET_KEY", "not-a-key-but-secret-all-the-same")
    assert cli.run(["check", "zmq:tcp://127.0.0.1:1"]) == Exit.USAGE
    err = capsys.readouterr().err
    assert "KVWIRE_CURVE_SECRET_KEY" in err
    assert "but-secret" not in err


def test_an_entry_of_a_wrong_length_is_refused_with_its_line(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (keys / "allowed").open("a") as file:
        file.write("tooshort someone\n")
    with pytest.raises(CurveKeyError, match=r"allowed, line 4: 8 characters, a public key has 40"):
        read_allowed(keys / "allowed")
    serve = ["serve", "--curve-keys", str(keys / "publisher.key_secret"), "--curve-allow", str(keys / "allowed")]
    assert cli.run(serve) == Exit.USAGE
    assert "line 4: 8 characters" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(CurveKeyError, match="1 of the allowed keys"):
        CurveServer(KeyPair.generate(), frozenset({b"x" * 39}))
    with pytest.raises(CurveKeyError, match="1 of the allowed keys"):
        CurveServer(KeyPair.generate(), frozenset({b"%" * 40}))


@pytest.mark.parametrize(
    ("given", "told"),
    [("--curve-keys", "without --curve-allow would let in any key"), ("--curve-allow", "without keys")],
)
def test_serving_takes_keys_and_a_list(keys: Path, capsys: pytest.CaptureFixture[str], given: str, told: str) -> None:
    place = {"--curve-keys": "publisher.key_secret", "--curve-allow": "allowed"}[given]
    assert cli.run(["serve", given, str(keys / place)]) == Exit.USAGE
    assert told in " ".join(capsys.readouterr().err.split())


def test_keys_are_not_shown_by_accident() -> None:
    assert "hidden" not in repr(Curve(server="s", public="p", secret="hidden"))
    assert "hidden" not in repr(KeyPair(b"p", b"hidden"))
