"""The judges say of every session what stands there, and the sessions are what they say they are."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from kvwire import vectors as golden
from kvwire.cli.vectors import vectors
from kvwire.standard import resources
from kvwire.trace import files
from kvwire.vectors import sessions
from kvwire.vectors.layout import write_file
from kvwire.vectors.model import SessionExpected, SessionFile
from kvwire_generators.sessions import index, plans, records
from kvwire_generators.sessions.stories import FLEET, UGLY, stories

FOLDER = resources.vectors()
DATA = (FOLDER / sessions.PATH).read_bytes()
GROUPS = msgspec.json.decode(DATA, type=SessionFile).groups
TOLD = {
    test.id.removeprefix("session-"): (
        test,
        SessionExpected(exit=test.expected.exit, verdicts=sessions.verdicts(group, test)),
    )
    for group in GROUPS
    for test in group.tests
}
MOST_BYTES = 6 * 1024 * 1024


@pytest.mark.parametrize("name", TOLD)
def test_the_judges_say_what_is_expected(name: str) -> None:
    session, expected = TOLD[name]
    recording = sessions.trace_of(FOLDER, name)
    assert sessions.expected_of(sessions.judged(recording)) == expected
    assert session.input.trace == sessions.path_of(name)
    assert (session.input.level, session.input.profile) == (recording.header.level, recording.header.profile)


@pytest.mark.parametrize("name", TOLD)
def test_who_speaks(name: str) -> None:
    session, expected = TOLD[name]
    found = index.spoken(expected)
    what = plans.mutant_of(name)
    if what is None:
        assert ("honest" in session.flags) == (not found)
        assert not found or (name.startswith(FLEET) and set(session.requirements) == found)
        return
    assert session.requirements[0] == what.primary
    assert set(session.requirements) == found
    assert what.primary in found
    assert found <= what.expected[session.input.level]
    assert "mutant" in session.flags


def test_every_plan_and_every_story_has_a_session_and_nothing_else_has() -> None:
    assert plans.problems([sessions.path_of(name) for name in TOLD]) == []
    told = {story.name: story for story in stories()}
    assert set(TOLD) == {*plans.plans(), *told}
    for name, story in told.items():
        assert name.startswith((UGLY, FLEET))
        assert story.recording == sessions.trace_of(FOLDER, name)


def test_a_session_names_only_what_its_group_does_not_say() -> None:
    for group in GROUPS:
        for test in group.tests:
            for said in test.expected.verdicts.values():
                assert not said.items() & group.otherwise.items(), test.id
                assert said.keys() <= group.otherwise.keys()


def test_a_session_that_is_missing_is_named_with_the_way_out() -> None:
    (missing,) = plans.problems([sessions.path_of(name) for name in TOLD if name != "mutant-two-frames"])
    assert missing == (
        "vectors/session/mutant-two-frames.kvtrace: the session is missing: "
        "run `python -m kvwire_generators record mutant-two-frames`"
    )


def test_sessions_are_small_and_tell_nothing_of_the_machine() -> None:
    data = {name: (FOLDER / sessions.path_of(name)).read_text() for name in TOLD}
    assert sum(map(len, data.values())) + len(DATA) < MOST_BYTES
    for name, text in data.items():
        for word in re.findall(r"/(?:tmp|home|root|work|usr|var)/[^\"]*|\d+\.\d+\.\d+\.\d+|\"(?:pid|host)\":", text):
            assert word in ("127.0.0.1", "0.0.0.0"), (name, word)


def test_a_verdict_that_differs_is_named() -> None:
    line = next(line for line in DATA.splitlines() if b'"session-mutant-two-frames"' in line)
    changed = line.replace(b'"KVW-ENV-001":"FAIL"', b'"KVW-ENV-001":9').replace(b'"exit":1', b'"exit":0')
    assert index.disagreements(DATA, DATA.replace(line, changed)) == [
        f"{sessions.PATH}: session-mutant-two-frames: expected exit 0, got 1",
        f"{sessions.PATH}: session-mutant-two-frames: rank-0: KVW-ENV-001: expected PASS ×9, got FAIL",
    ]
    assert index.disagreements(DATA, DATA) == []
    (damaged,) = index.disagreements(DATA, DATA[:-9])
    assert damaged.startswith(f"{sessions.PATH}: ")


def test_a_trace_that_is_not_what_its_plan_asks_for_is_named(tmp_path: Path) -> None:
    (tmp_path / sessions.KIND).mkdir()
    for name, other in {"clear": "gap", "restart": "mutant-skips-numbers", "mutant-two-frames": "clear"}.items():
        shutil.copy(FOLDER / sessions.path_of(other), tmp_path / sessions.path_of(name))
    cut = (FOLDER / sessions.path_of("gap")).read_bytes().rpartition(b'{"end"')[0]
    (tmp_path / sessions.path_of("gap")).write_bytes(cut)
    found, problems = index.recorded(tmp_path)
    assert found == []
    said = {problem.split(": ")[0]: problem for problem in problems}
    assert "planned is driven and replay, the trace is passive and replay" in said["session/clear.kvtrace"]
    assert "planned is passive and replay" in said["session/mutant-two-frames.kvtrace"]
    assert "spoke" in said["session/restart.kvtrace"]
    assert "the end line is missing" in said["session/gap.kvtrace"]
    assert all(problem.endswith("`") and "kvwire_generators record " in problem for problem in problems)


def test_a_mutant_that_nobody_hears_is_no_session() -> None:
    plan = msgspec.structs.replace(plans.plans()["mutant-two-frames"], level="driven")
    with pytest.raises(sessions.SessionError, match=r"mutant-two-frames: spoke \[\], of .*'KVW-ENV-001'.* with KVW-"):
        index.planned("mutant-two-frames", plan, sessions.trace_of(FOLDER, "clear"))


def test_sessions_of_one_profile_and_level_share_what_most_of_them_say() -> None:
    found, problems = index.recorded(FOLDER)
    assert problems == []
    file = index.file([*found, *stories()])
    assert write_file(file) == DATA
    assert [group.name for group in file.groups] == sorted({group.name for group in file.groups}, key=_by_level)


def _by_level(name: str) -> tuple[str, int]:
    profile, level = name.split(", ")
    return profile, ("passive", "replayable", "driven").index(level)


# --- access -------------------------------------------------------------------------------------------------------


def run(*arguments: str) -> Result:
    return CliRunner().invoke(vectors, arguments)


def test_sessions_are_typed_tests_like_all_others() -> None:
    file = golden.load("session/sessions")
    assert file.count == len(file.tests) == len(TOLD)


def test_the_trace_is_written_for_judge(tmp_path: Path) -> None:
    place = tmp_path / "x.kvtrace"
    assert run("session", "mutant-two-frames", "-o", str(place)).exit_code == 0
    assert place.read_bytes() == (FOLDER / sessions.path_of("mutant-two-frames")).read_bytes()
    assert files.read(place) == sessions.trace_of(FOLDER, "mutant-two-frames")
    result = run("session", "nothing", "-o", str(place))
    assert result.exit_code == 2
    assert "no session 'nothing'; `kvwire vectors list session` shows them all" in result.stderr


def test_a_damaged_trace_is_not_written(tmp_path: Path) -> None:
    (tmp_path / sessions.KIND).mkdir()
    (tmp_path / sessions.path_of("gap")).write_text("{}\n")
    result = run("session", "gap", "-o", str(tmp_path / "x"), "--vectors", str(tmp_path))
    assert result.exit_code == 4
    assert "no trace header" in result.stderr
    assert not (tmp_path / "x").exists()


def test_an_exported_session_comes_with_what_is_said_of_it(tmp_path: Path) -> None:
    assert run("export", str(tmp_path / "copy"), "--only", "session/gap").exit_code == 0
    there = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy" / "session").iterdir()}
    assert there == {"session/gap.kvtrace", sessions.PATH}
    assert "session-gap " in run("list", "session", "--ids", "--vectors", str(tmp_path / "copy")).stdout


@pytest.mark.network
@pytest.mark.slow
def test_a_recording_tells_nothing_of_the_machine_and_shows_what_it_is_for() -> None:
    plan = plans.plans()["mutant-two-frames"]
    session = records.record("mutant-two-frames", plan)
    assert index.spoken(session.expected) == {"KVW-ENV-001"}
    text = b"".join(files.lines(session.recording)).decode()
    assert '"t_ns":0,' in text
    assert str(Path(sys.executable).parent) not in text
    with pytest.raises(sessions.SessionError, match="nothing did not run"):
        records.record("mutant-two-frames", msgspec.structs.replace(plan, probes=("live", "nothing")))
    with pytest.raises(sessions.SessionError, match=r"spoke \[\], of"):
        records.record("mutant-two-frames", msgspec.structs.replace(plan, target="reference:"))
