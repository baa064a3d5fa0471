"""``kvwire list``: of a profile, what it has and from which level on each sentence has to be conclusive."""

from __future__ import annotations

import pytest

from kvwire import cli


def test_a_profile_is_listed_with_all_that_it_has_by_extension(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.run(["list", "--profile", "replay"]) == 0
    rows = {line[:11]: line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("KVW-")}
    assert len(rows) == 107
    assert rows["KVW-ENV-001"][4] == "passive"
    assert rows["KVW-REP-001"][4] == "replayable"
    assert rows["KVW-SEQ-001"][4] == "driven"
    assert rows["KVW-REP-010"][4] == "–"
    assert cli.run(["list", "--binds", "consumer"]) == 0
    assert "conclusive" not in capsys.readouterr().out
