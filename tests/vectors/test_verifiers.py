"""The independent verifiers: they pass, they name what is wrong, and stay short and independent."""

from __future__ import annotations

import json
import random
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.needs import needs_program

VECTORS = Path(__file__).parents[2] / "vectors"
VERIFIERS = VECTORS / "verifiers"
SOURCES = [
    path for path in sorted(VERIFIERS.rglob("*")) if path.suffix in {".py", ".go", ".rs", ".hpp", ".cpp", ".mjs"}
]
LONGEST = 300

Verify = Callable[[Path], "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["python", "javascript"])
def verify(request: pytest.FixtureRequest) -> Verify:
    """One of the two verifiers that need no build; Python without what is installed beside it."""
    command = [sys.executable, "-ESB", str(VERIFIERS / "python" / "verify.py")]
    if request.param == "javascript":
        command = [needs_program("node"), str(VERIFIERS / "javascript" / "verify.mjs")]

    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, str(folder)], check=False, capture_output=True, text=True, timeout=100)

    return run


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return shutil.copytree(VECTORS, tmp_path / "vectors", ignore=shutil.ignore_patterns("verifiers"))


def test_every_test_is_accounted_for(verify: Verify) -> None:
    ended = verify(VECTORS)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = dict(line.split(": ", 1) for line in ended.stdout.splitlines())
    listed = {file["path"]: file["count"] for file in json.loads((VECTORS / "MANIFEST.json").read_bytes())["files"]}
    assert {
        path: sum(map(int, re.findall(r"(\d+) (?:passed|failed|skipped)", line))) for path, line in lines.items()
    } == (listed)
    assert all(" 0 failed" in line for line in lines.values())


def test_a_wrong_digest_is_named(verify: Verify, copy: Path) -> None:
    path = copy / "hash" / "salt_id.json"
    path.write_bytes(path.read_bytes() + b"\n")
    ended = verify(copy)
    assert ended.returncode == 1
    assert re.search(
        r"^FAIL hash/salt_id.json sha256: expected [0-9a-f]{64}, got [0-9a-f]{64}$", ended.stdout, re.MULTILINE
    )


def test_what_is_expected_and_what_is_got_are_named(verify: Verify, tmp_path: Path) -> None:
    """One digit of a test, with a manifest that fits."""
    corruption = runpy.run_path(str(VERIFIERS / "corruption.py"))
    done = corruption["corrupt"](VECTORS, "hash/salt_id.json", tmp_path, random.Random(3))
    ended = verify(tmp_path)
    assert ended.returncode == 1
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("FAIL ")]
    assert line.startswith(f"FAIL hash/salt_id.json {done.test}: expected ")
    assert ", got " in line


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(VERIFIERS)))
def test_a_verifier_is_short_and_stands_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST
    assert max(map(len, text.expandtabs(4).splitlines())) <= 124
    assert "kvwire_reference" not in text
    assert not re.search(r"^\s*(import|from) (kvwire|msgspec|msgpack|cbor2|xxhash)", text, re.MULTILINE)
