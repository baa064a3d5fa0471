"""``kvwire list``: of a profile, what it has and from which level on each sentence has to be conclusive."""

from __future__ import annotations

import pytest

from kvwire import cli
from kvwire.standard import registry


def test_a_profile_is_listed_with_all_that_it_has_by_extension(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.run(["list", "--profile", "replay"]) == 0
    rows = {line[:11]: line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("KVW-")}
    assert set(rows) == set(registry.profile("replay").ids)
    assert rows["KVW-ENV-001"][4] == "passive"
    assert rows["KVW-REP-001"][4] == "replayable"
    assert rows["KVW-SEQ-001"][4] == "driven"
    assert rows["KVW-REP-010"][4] == "–"
    assert cli.run(["list", "--binds", "consumer"]) == 0
    assert "conclusive" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [("list", "SEQ-004"), ("mutants", "list", "SEQ-004"), ("honest", "list")])
def test_what_is_piped_is_as_wide_as_a_report(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert cli.run(words) == 0
    assert 80 < max(map(len, capsys.readouterr().out.splitlines())) <= 140
