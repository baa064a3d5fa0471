"""``kvwire mutants``: the list, the museum of public reports, and the matrix from real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvwire.cli.root import main
from kvwire.judges.verdict import Exit
from kvwire.peers import mutants
from kvwire.peers.mutants import MUTANTS
from kvwire.selftest import matrix
from kvwire.standard import drift


def test_reports_lead_to_the_mutants_that_reproduce_them() -> None:
    done = CliRunner().invoke(main, ["mutants", "list", "--reports", "--json"])
    by_report = {line["report"]: line["mutants"] for line in map(json.loads, done.stdout.splitlines())}
    assert by_report["vllm#45174"] == ["replay-without-topic"]
    assert sorted({name for names in by_report.values() for name in names}) == sorted(
        name for name, mutant in MUTANTS.items() if mutant.reports
    )
    assert "vllm#45174" in CliRunner().invoke(main, ["mutants", "list", "--reports"]).stdout


def test_mutants_are_listed_by_what_they_break() -> None:
    done = CliRunner().invoke(main, ["mutants", "list", "env-1", "BAT", "--json"])
    primary = [json.loads(line)["primary"] for line in done.stdout.splitlines()]
    assert primary == [m.primary for m in MUTANTS.values() if m.primary == "KVW-ENV-001" or "-BAT-" in m.primary]
    reports = CliRunner().invoke(main, ["mutants", "list", "REP-1", "--reports", "--json"])
    assert '"vllm#45174"' in reports.stdout
    assert "replay-without-end" not in reports.stdout


@pytest.mark.network
@pytest.mark.slow
def test_the_matrix_is_printed_and_stored(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["mutants", "matrix", "wrong-rank", "--json", str(tmp_path / "m.json")])
    assert done.exit_code == 0, done.output
    assert "1 of 1 mutants" in done.stdout
    stored = json.loads((tmp_path / "m.json").read_bytes())
    (row,) = stored["rows"]
    assert row["cells"]["passive"] == {"KVW-RNK-003": "killed"}
    assert stored["without"] == []


def test_no_mutant_is_loaded_before_it_is_asked_for() -> None:
    code = "import sys, kvwire.cli; sys.exit('kvwire.peers.mutants' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_mutant_that_there_is_not_is_named() -> None:
    done = CliRunner().invoke(main, ["mutants", "matrix", "two-frames", "nothing"])
    assert done.exit_code == 2
    assert "there is no mutant 'nothing', and no honest peer of that name; `kvwire mutants list` and" in done.output


def test_a_judged_sentence_without_a_mutant_fails_the_check_of_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = {name: mutant for name, mutant in MUTANTS.items() if mutant.primary != "KVW-ENV-001"}
    monkeypatch.setattr(mutants, "MUTANTS", rest)
    monkeypatch.setattr(drift, "checkout", lambda: Path(__file__).parents[2] / "spec")  # from a wheel there is none
    done = CliRunner().invoke(main, ["spec", "check"])
    assert done.exit_code == 1
    assert "KVW-ENV-001: it is judged, and no mutant breaks it: mark one with `@mutant(…, breaks='ENV-001')`" in (
        done.stdout
    )


def test_the_matrix_can_be_of_those_that_no_small_run_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measured(names: tuple[str, ...], *_: object) -> tuple[list[matrix.Row], bool]:
        asked.extend(names)
        return [], True

    monkeypatch.setattr(matrix, "measured", measured)
    chosen = ["two-frames", "replay-hoards"]
    assert CliRunner().invoke(main, ["mutants", "matrix", "--without-session", *chosen]).exit_code == 0
    assert asked == ["replay-hoards"]


def test_an_interrupted_matrix_tells_what_was_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = matrix.Row(
        mutant="two-frames", primary="KVW-ENV-001", cells={"driven": {}}, troubles=[], amiss=[], seconds=1.0
    )
    monkeypatch.setattr(matrix, "measured", lambda *_: ([row], False))
    stored = tmp_path / "cells.json"
    done = CliRunner().invoke(
        main, ["mutants", "matrix", "--json", str(stored), "two-frames", "any-scheme", "block-of-one"]
    )
    assert done.exit_code == Exit.INTERRUPTED
    assert "interrupted: 1 of 3 were run" in done.stdout
    assert [one["mutant"] for one in json.loads(stored.read_bytes())["rows"]] == ["two-frames"]
