"""The judges say of every session what stands there, and the sessions are what they say they are."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.generators.stories import PREFIX as UGLY
from tests.generators.stories import stories

from kvwire.cli.vectors import vectors
from kvwire.standard import resources
from kvwire.trace import files
from kvwire.vectors import sessions
from kvwire_generators.sessions import plans, records

FOLDER = resources.vectors()
FILES = {path.stem: sessions.read(path.read_bytes()) for path in sorted((FOLDER / sessions.KIND).glob("*.json"))}
SPOKEN = ("FAIL", "WARN")
MOST_BYTES = 4 * 1024 * 1024


def spoken(session: sessions.Session) -> set[str]:
    return {
        name
        for verdicts in session.expected.verdicts.values()
        for name, said in verdicts.items()
        if said.verdict in SPOKEN
    }


@pytest.mark.parametrize("name", FILES)
def test_the_judges_say_what_is_expected(name: str) -> None:
    stored = sessions.write(FILES[name])
    assert sessions.disagreements(sessions.path_of(name), sessions.write(sessions.refreshed(FILES[name])), stored) == []
    assert stored == (FOLDER / sessions.path_of(name)).read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_who_speaks(name: str) -> None:
    (session,) = FILES[name].tests
    found = spoken(session)
    what = plans.mutant_of(name)
    if what is None:
        assert "honest" in session.flags
        assert found == set()
        return
    assert session.requirements[0] == what.primary
    assert set(session.requirements) == found
    assert what.primary in found
    assert found <= what.expected[session.input.level]
    assert "mutant" in session.flags


def test_every_plan_has_a_session() -> None:
    assert plans.problems([sessions.path_of(name) for name in FILES]) == []


def test_every_recording_is_planned_and_every_story_is_told_as_it_is_stored() -> None:
    told = dict(stories())
    assert set(FILES) == set(plans.plans()) | set(told)
    for name, file in told.items():
        assert name.startswith(UGLY)
        assert sessions.write(file) == (FOLDER / sessions.path_of(name)).read_bytes(), (
            f"{name}: run `python -m tests.generators.stories`, then `tox -e generate`"
        )


def test_sessions_are_small_and_tell_nothing_of_the_machine() -> None:
    data = {name: (FOLDER / sessions.path_of(name)).read_text() for name in FILES}
    assert sum(map(len, data.values())) < MOST_BYTES
    for name, text in data.items():
        for word in re.findall(r"/(?:tmp|home|root|work|usr|var)/[^\"]*|\d+\.\d+\.\d+\.\d+|\"(?:pid|host)\":", text):
            assert word in ("127.0.0.1", "0.0.0.0"), (name, word)


def test_a_verdict_that_differs_is_named() -> None:
    (file,) = (file for name, file in FILES.items() if name == "mutant-two-frames")
    data = sessions.write(file)
    changed = data.replace(b'"KVW-ENV-001":{"verdict":"FAIL"}', b'"KVW-ENV-001":{"verdict":"PASS","witnesses":9}')
    path = sessions.path_of("mutant-two-frames")
    assert sessions.disagreements(path, data, changed) == [
        f"{path}: session-mutant-two-frames: rank-0: KVW-ENV-001: expected PASS ×9, got FAIL"
    ]


def test_a_trace_that_contradicts_its_session_is_named(tmp_path: Path) -> None:
    place = tmp_path / sessions.KIND
    place.mkdir()
    data = sessions.write(FILES["clear"])
    (place / "clear.json").write_bytes(data.replace(b'"input":{"level":"driven"', b'"input":{"level":"passive"'))
    (place / "cut.json").write_bytes(data[:-100])
    (place / "flag.json").write_bytes(data.replace(b'"flags":["recorded"', b'"flags":["unheard"'))
    (place / "short.json").write_bytes(data.replace(b'"end":{"end":', b'"end":{"end":1'))
    found, problems = sessions.files(tmp_path)
    assert found == {}
    assert [problem.split(": ")[0] for problem in problems] == [
        f"session/{name}.json" for name in ("clear", "cut", "flag", "short")
    ]


def test_the_trace_of_a_session_is_a_file(tmp_path: Path) -> None:
    (session,) = FILES["clear"].tests
    recording = sessions.trace_of(session)
    files.write(recording, tmp_path / "clear.kvtrace")
    assert sessions.expected_of(files.read(tmp_path / "clear.kvtrace")) == session.expected


# --- commands -----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> Result:
    return CliRunner().invoke(vectors, arguments)


def test_the_trace_is_written_for_judge(tmp_path: Path) -> None:
    place = tmp_path / "x.kvtrace"
    assert run("session", "mutant-two-frames", "-o", str(place)).exit_code == 0
    (session,) = FILES["mutant-two-frames"].tests
    assert sessions.expected_of(files.read(place)) == session.expected
    result = run("session", "nothing", "-o", str(place))
    assert result.exit_code == 2
    assert "no session 'nothing'; `kvwire vectors list session` shows them all" in result.stderr


@pytest.mark.network
def test_a_recording_tells_nothing_of_the_machine_and_shows_what_it_is_for() -> None:
    plan = plans.plans()["mutant-two-frames"]
    (session,) = records.record("mutant-two-frames", plan).tests
    assert spoken(session) == {"KVW-ENV-001"}
    assert {record["t_ns"] for record in session.input.trace.records} >= {0}
    assert str(Path(sys.executable).parent) not in str(session.input.trace)
    with pytest.raises(sessions.SessionError, match="nothing did not run"):
        records.record("mutant-two-frames", msgspec.structs.replace(plan, probes=("live", "nothing")))
    with pytest.raises(sessions.SessionError, match=r"spoke \[\], of"):
        records.record("mutant-two-frames", msgspec.structs.replace(plan, target="reference:"))
