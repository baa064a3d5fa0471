"""Expected failures on the command line: a file is written from a run, filled in, and held against the next one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.standard import resources


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """The stored session of a mutant, as a trace file."""
    raw = json.loads((resources.vectors() / "session" / "mutant-integer-ts.json").read_bytes())
    told = raw["groups"][0]["tests"][0]["input"]["trace"]
    path = tmp_path / "run.kvtrace"
    path.write_text(
        "".join(
            json.dumps(line, separators=(",", ":")) + "\n" for line in (told["header"], *told["records"], told["end"])
        ),
        encoding="utf-8",
    )
    return str(path)


def test_a_baseline_is_written_filled_in_and_held(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, told = tmp_path / "expected.toml", tmp_path / "result.ndjson"
    judge = ["judge", trace, "--allow-inconclusive", "--json", str(told)]
    assert cli.run(judge) == Exit.NOT_CONFORMANT
    assert cli.run(["baseline", "update", str(file), str(told)]) == Exit.CONFORMANT
    assert "KVW-BAT-002 FAIL: say why" in capsys.readouterr().out
    expecting = [*judge, "--expected-failures", str(file)]
    assert cli.run(expecting) == Exit.NOT_CONFORMANT
    assert "not as expected KVW-BAT-002: its entry gives no reason" in capsys.readouterr().out
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('reason = ""', 'reason = "whole seconds"'), encoding="utf-8")
    assert cli.run(expecting) == Exit.CONFORMANT
    out = capsys.readouterr().out
    assert "expected FAIL KVW-BAT-002: whole seconds" in out
    assert "occasions" not in out, "what is expected is not told at length"
    assert cli.run(["baseline", "update", str(file), str(told)]) == Exit.CONFORMANT
    assert "0 new" in capsys.readouterr().out

    file.write_text(file.read_text(encoding="utf-8") + "expires = 2020-01-01\n", encoding="utf-8")
    assert cli.run(expecting) == Exit.NOT_CONFORMANT
    assert "its entry expired on 2020-01-01" in capsys.readouterr().out


def test_a_restricted_result_is_refused(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = tmp_path / "result.ndjson"
    cli.run(["judge", trace, "--only", "BAT", "--json", str(told), "--quiet"])
    assert cli.run(["baseline", "update", str(tmp_path / "expected.toml"), str(told)]) == Exit.USAGE
    assert "--only" in capsys.readouterr().err
    assert not (tmp_path / "expected.toml").exists()


def test_a_file_that_is_none_is_a_matter_of_usage(trace: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[[expected]]\nid = 'BAT-002'\n", encoding="utf-8")
    assert cli.run(["judge", trace, "--expected-failures", str(tmp_path / "x.toml")]) == Exit.USAGE
    assert cli.run(["judge", trace, "--expected-failures", str(tmp_path / "none.toml")]) == Exit.USAGE
