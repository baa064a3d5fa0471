"""The adapters in C++ and Go are whole: they build as their first lines say, run, restart, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.kit.checked import kvwire
from tests.kit.needs import needs_program

ADAPTERS = Path(__file__).parents[2] / "examples" / "adapters"

if not ADAPTERS.is_dir():
    pytest.skip("needs a checkout", allow_module_level=True)


def build(language: str, folder: Path) -> Path:
    program = folder / "adapter"
    environment = {"GOCACHE": str(folder / "cache"), **os.environ, "GO111MODULE": "off"}
    if "HOME" in os.environ and "GOCACHE" not in os.environ:
        del environment["GOCACHE"]  # what was built before is kept there
    if language == "go":
        command = [needs_program("go"), "build", "-o", str(program), str(ADAPTERS / "adapter.go")]
    else:
        compiler = needs_program("g++")
        for header in ("zmq.h", "nlohmann/json.hpp"):
            needs_header(compiler, header)
        command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", str(ADAPTERS / "adapter.cpp")]
        command += ["-lzmq", "-o", str(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return program


def needs_header(compiler: str, header: str) -> None:
    """As ``needs_program``."""
    asked = f"#include <{header}>\n".encode()
    command = [compiler, "-E", "-x", "c++", "-o", os.devnull, "-"]
    if subprocess.run(command, input=asked, capture_output=True, timeout=60, check=False).returncode == 0:
        return
    if os.environ.get("CI"):
        pytest.fail(f"the header {header} is missing: add its package to .ci/run", pytrace=False)
    pytest.skip(f"the header {header} is not installed")


@pytest.fixture(scope="module", params=["cpp", "go"])
def adapter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(request.param, tmp_path_factory.mktemp(request.param))


@pytest.mark.network
@pytest.mark.slow
def test_nothing_wrong_is_found_in_a_quick_run(adapter: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    done = kvwire("check", f"exec:{adapter}", "--quick", "--json", str(result))
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in result.read_bytes().splitlines()]
    assert [line["text"] for line in lines if line["kind"] == "trouble"] == []
    verdicts = {line["requirement"]: line["verdict"] for line in lines if line["kind"] == "outcome"}
    assert {"FAIL", "WARN"}.isdisjoint(verdicts.values())
    assert {name for name, verdict in verdicts.items() if verdict == "PASS"} >= {
        "KVW-ENV-001", "KVW-SEQ-002", "KVW-BAT-001", "KVW-BAT-002", "KVW-EVT-001", "KVW-LIV-005",
    }  # fmt: skip


@pytest.mark.network
@pytest.mark.slow
def test_a_restart_begins_at_0(adapter: Path) -> None:
    done = kvwire("check", f"exec:{adapter}", "--only", "SEQ-007", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "KVW-SEQ-007" in done.stdout
    assert "PASS" in done.stdout


@pytest.mark.network
@pytest.mark.parametrize("ending", ["end of input", "SIGTERM"])
def test_nothing_is_left_behind(adapter: Path, ending: str, tmp_path: Path) -> None:
    running = subprocess.Popen(
        [adapter], env={**os.environ, "TMPDIR": str(tmp_path)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        for number, verb in enumerate(("hello", "start"), 1):
            running.stdin.write(json.dumps({"id": number, "verb": verb}) + "\n")
            running.stdin.flush()
            assert "ok" in json.loads(running.stdout.readline())
        assert len(list(tmp_path.iterdir())) == 1
        if ending == "SIGTERM":
            running.send_signal(signal.SIGTERM)
        else:
            running.stdin.close()
        assert running.wait(timeout=30) == 0
    finally:
        running.kill()
        running.wait()
        running.stdin.close()
        running.stdout.close()
    assert list(tmp_path.iterdir()) == []
