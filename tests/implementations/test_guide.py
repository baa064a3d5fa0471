"""The guide to adapters: its adapter is whole and runs, its lines are as the schema says, and it names everything."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests.kit.adapter_lines import Lines
from tests.kit.checked import kvwire

from kvwire.standard.protocol import MINOR, PROTOCOL, SETS, VERBS, Start
from kvwire.trace import files
from kvwire.trace.calls import Call

GUIDE = (Path(__file__).parents[2] / "implementations" / "README.md").read_text(encoding="utf-8")


def fence(language: str) -> str:
    """The one block of code in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.network
def test_its_adapter_runs_as_it_stands(tmp_path: Path) -> None:
    adapter, result = tmp_path / "adapter.py", tmp_path / "result.json"
    adapter.write_text(fence("python"), encoding="utf-8")
    done = kvwire("check", f"exec:{sys.executable} {adapter}", "--quick", "--json", str(result))
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in result.read_bytes().splitlines()]
    assert [line["text"] for line in lines if line["kind"] == "trouble"] == []
    verdicts = {line["requirement"]: line["verdict"] for line in lines if line["kind"] == "outcome"}
    assert {"FAIL", "WARN"}.isdisjoint(verdicts.values())
    assert {name for name, verdict in verdicts.items() if verdict == "PASS"} >= {
        "KVW-ENV-001",
        "KVW-SEQ-002",
        "KVW-BAT-001",
        "KVW-EVT-001",
        "KVW-LIV-005",
    }


@pytest.mark.network
def test_its_adapter_restarts_refuses_and_leaves_nothing(tmp_path: Path) -> None:
    adapter, recording = tmp_path / "adapter.py", tmp_path / "run.kvtrace"
    adapter.write_text(fence("python"), encoding="utf-8")
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = f"env TMPDIR={folder} {sys.executable} {adapter}"
    done = kvwire("check", f"exec:{command}", "--only", "SEQ-007", "--record", str(recording))
    assert done.returncode == 0, done.stdout + done.stderr
    calls = [record.detail for record in files.read(recording).records if isinstance(record.detail, Call)]
    assert {call.event for call in calls if call.succeeded} == {"hello", "start", "publish", "restart", "stop"}
    assert list(folder.iterdir()) == []


def test_its_lines_are_valid() -> None:
    (shown,) = (block for block in re.findall(r"^```\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL) if "→" in block)
    lines = Lines()
    verbs: dict[int, str] = {}
    for sign, text in re.findall(r"^([→←]) (.*?)(?=^[→←]|\Z)", shown, re.MULTILINE | re.DOTALL):
        line = json.loads(text)
        if sign == "→":
            verbs[line["id"]] = line["verb"]
            lines.request(line)
        else:
            lines.answer(verbs[line["id"]], line)
    assert lines.wrong == []
    assert verbs[1] == "hello"
    assert verbs[2].startswith("x-")
    assert {sort for _, sort in lines.answered} == {"ok", "unsupported", "refused"}


def test_it_describes_every_verb_option_and_version() -> None:
    rows = re.findall(r"^\| (`.*?) \|", GUIDE, re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert described >= {*VERBS, *Start.__struct_fields__, f"{PROTOCOL}.{MINOR}"}
    assert f"`{' '.join(SETS)}`" in GUIDE
