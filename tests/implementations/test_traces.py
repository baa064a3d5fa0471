"""The stored traces of the judged implementations: what speaks in them is known, explained, and says nothing of us."""

from __future__ import annotations

import gzip
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.packaging.test_tree import FORBIDDEN

from kvwire.judges.verdict import Verdict
from kvwire.trace import files

HOME = Path(__file__).parents[2] / "implementations"
SPOKEN: dict[str, list[str]] = json.loads((HOME / "spoken.json").read_bytes())
LARGEST = 400_000
"""Bytes of one trace; all of them travel with every clone."""


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(HOME))
    return importlib.import_module("traces")


def test_every_implementation_but_the_engine_has_a_trace(traces: Any) -> None:
    assert {*SPOKEN, "vllm-engine"} == set(traces.NAMES)
    assert {path.name.removesuffix(".kvtrace.gz") for path in HOME.glob("*/traces/*")} == set(SPOKEN)


@pytest.mark.parametrize("name", SPOKEN)
def test_what_speaks_is_what_is_stored_and_each_is_explained(traces: Any, name: str) -> None:
    table = importlib.import_module("table")
    seen = traces.judged(files.read(traces.path(name)))
    assert seen.troubles == ()
    assert traces.spoken(seen) == SPOKEN[name], "if it should be so: run `tox -e generate`"
    committed = table.read(name)
    assert (seen.run.implementation, seen.run.profile) == (committed.implementation, committed.profile)
    entries = table.entries(name)
    broken = [one for one in seen.outcomes if one.verdict in (Verdict.FAIL, Verdict.WARN)]
    assert [one for one in broken if not any(entry.matches(one) for entry in entries)] == []
    shown = {one.requirement for one in seen.outcomes if one.verdict is Verdict.PASS}
    assert [key for key in shown if committed.verdicts[key] in ("INCONCLUSIVE", "NOT-APPLICABLE")] == []


@pytest.mark.parametrize("name", SPOKEN)
def test_a_trace_is_small_and_tells_nothing_of_a_machine(traces: Any, name: str) -> None:
    raw = traces.path(name).read_bytes()
    assert len(raw) < LARGEST
    text = gzip.decompress(raw).decode()
    assert [what for what, pattern in FORBIDDEN.items() if re.search(pattern, text)] == []
