"""One result stream, many faces: what strangers wrote is shown, not obeyed, and all agree with the exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from tests.conclusion.test_notices import trace
from tests.conclusion.test_summary import LOST, TIME, told
from tests.kit.stories import Story, cleared, everything, stored

from kvwire.conclusion import expected_failures, result
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.expected_failures import Entry
from kvwire.conclusion.result import Notice, Result
from kvwire.conclusion.summary import Wanted
from kvwire.conclusion.untried import Why
from kvwire.judges.verdict import Exit, Verdict
from kvwire.report.course import COURSE
from kvwire.report.evidence import AROUND, Mismatch, look
from kvwire.report.faces import FORMATS, FaceError, Format, face
from kvwire.report.grouping import opened
from kvwire.report.standing import RUN, Standing, cases
from kvwire.report.visible import ascii_json, safe, visible
from kvwire.standard import registry
from kvwire.standard.resources import vectors
from kvwire.trace import files
from kvwire.trace.records import Trace

KNOWN = registry.load()


def broken() -> Story:
    story = Story().told(3)
    story.send(stored("a"))
    story.send(stored("a"))
    return story


def concluded(made: Trace, **wanted: Any) -> Result:
    return conclude(made, KNOWN, everything(), Wanted(**wanted))


def held(entry: Entry) -> Result:
    return expected_failures.held(concluded(told(broken())), (entry,), "2026-11-30", Wanted())


KNOWN_FAULT = Entry(id="KVW-RES-001", reason="told twice")
WRONG = Entry(id="KVW-RES-002", reason="is not so")
RESULTS = {
    "conformant": concluded(told()),
    "broken": concluded(told(broken())),
    "quick": concluded(told(mode="quick")),
    "out of time": concluded(told(plan=(TIME,))),
    "allowed": concluded(trace(LOST), allow_inconclusive=True),
    "lost": concluded(trace(LOST)),
    "silent": concluded(trace([(0.0, "s", "up")], end=3.0)),
    "interrupted": concluded(told(interrupted=True)),
    "strict": concluded(told(Story().told(3)), strict=True),
    "as expected": held(KNOWN_FAULT),
    "not as expected": held(WRONG),
}

FORGED = "\r\nKVW-ENV-001 PASS <script>alert(1)</script>"
HOSTILE = f"\x1b]52;c;QQ==\x07\x9b31m{FORGED} | `*_[x](y) \u202e\u2028\u200b & %0A ::error::"
OBEYED = [chr(c) for c in (*range(0x20), 0x7F, *range(0x80, 0xA0), 0x200B, 0x202E, 0x2028, 0xFEFF)]


@pytest.mark.parametrize("name", RESULTS)
def test_a_build_fails_exactly_when_the_exit_code_is_not_0(name: str) -> None:
    report = RESULTS[name]
    failing = [case for case in cases(report) if case.standing in (Standing.FAILED, Standing.ERROR)]
    assert bool(failing) == (report.summary.exit != Exit.CONFORMANT), report.summary.headline

    suites = ET.fromstring(face([report], "junit"))
    assert bool(suites.findall(".//failure") + suites.findall(".//error")) == bool(failing)
    suite = suites.find("testsuite")
    assert suite is not None
    assert int(suite.get("errors", 0)) + int(suite.get("failures", 0)) == len(failing)
    assert len(suites.findall(".//testcase")) == len(list(cases(report)))

    assert ("::error " in face([report], "github").decode()) == bool(failing)
    shown = json.loads(face([report], "badge"))
    assert (shown["color"] in ("green", "yellowgreen")) == (
        not failing and not report.summary.no_claim and str(report.summary.verdict) != "INCONCLUSIVE"
    )
    assert ("✅" in face([report], "markdown").decode().splitlines()[0]) == (shown["color"] in ("green", "yellowgreen"))
    page = face([report], "html").decode()
    assert ('class="banner good"' in page) == (shown["color"] in ("green", "yellowgreen"))


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_result_gives_the_same_bytes_and_shows_what_broke(kind: Format) -> None:
    report = RESULTS["broken"]
    first = face([report], kind)
    assert first == face([result.parse(result.dump(report))], kind)
    assert (b"RES-001" if kind != "badge" else b"1 broken") in first


def _texts(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The place of every text that is free: those of closed lists are refused when they are read."""
    match value:
        case str():
            yield at
        case dict():
            for key, item in value.items():
                yield from _texts(item, (*at, key))
        case list() | tuple():
            for place, item in enumerate(value):
                yield from _texts(item, (*at, place))


CLOSED = {"verdict", "why", "level", "what", "no_claim", "not_run", "kind"}


def _with(built: Any, at: tuple[str | int, ...]) -> Result | None:
    changed = msgspec.json.decode(msgspec.json.encode(built))
    place = changed
    for part in at[:-1]:
        place = place[part]
    place[at[-1]] = HOSTILE
    try:
        return msgspec.convert(changed, Result)
    except msgspec.ValidationError:
        return None


def hostile() -> list[Any]:
    """The broken result once for each kind of text in it, which is hostile there."""
    report = msgspec.structs.replace(
        RESULTS["broken"],
        notices=(Notice(what="died", text="it died", streams=["s"]),),
        troubles=(result.Trouble(text="trouble"),),
    )
    built = msgspec.to_builtins(report)
    seen: dict[tuple[str | int, ...], Result] = {}
    for at in _texts(built):
        kind = tuple(part for part in at if isinstance(part, str))
        if kind not in seen and (made := _with(built, at)) is not None:
            seen[kind] = made
    return [pytest.param(made, id=".".join(map(str, kind))) for kind, made in seen.items()]


@pytest.mark.parametrize("report", hostile())
def test_nothing_that_a_stranger_wrote_is_obeyed_by_a_face(report: Result) -> None:
    for kind in FORMATS:
        shown = face([report], kind).decode()
        assert not [c for c in OBEYED if c in shown and c != "\n"], kind
        assert "KVW-ENV-001 PASS <script>" not in [line.strip() for line in shown.splitlines()]
        assert not [line for line in shown.splitlines() if line.startswith(("KVW-ENV-001 PASS <", "::error::"))], kind
        if kind == "html":
            assert "<script>alert" not in shown
            assert shown.count("<script>") == 1
        if kind == "junit":
            ET.fromstring(shown.encode())
        if kind == "markdown":
            assert "<script>" not in shown.partition("```console")[0], "what stands in a fence is shown as it is"


def test_the_hostile_results_reach_findings_headers_streams_and_the_summary() -> None:
    names = {param.id for param in hostile()}
    assert {"run.target", "run.implementation", "outcomes.findings.seen", "streams.name", "summary.headline"} <= names
    assert len(names) > 25


def test_controls_are_written_as_python_would_and_other_signs_stay() -> None:
    assert visible("a\x1b[31m\n\u202e\x9b\ud800\U000e0041é…✓") == r"a\x1b[31m\n\u202e\x9b\ud800\U000e0041é…✓"
    assert visible("::error title=x::y tcp://[::1]:5557") == r":\x3aerror title=x::y tcp://[::1]:5557"
    assert safe(Notice(what="died", text="\x07", streams=["\x00"])).streams == [r"\x00"]


def test_json_keeps_its_values_and_holds_nothing_that_a_terminal_obeys() -> None:
    text = "\x9b\u202e\U000e0041é\n"
    raw = ascii_json(msgspec.json.encode({"a": text}))
    assert json.loads(raw) == {"a": text}
    assert not [c for c in OBEYED if c in raw.decode()]


def test_several_results_make_a_matrix_whose_cells_open_their_evidence() -> None:
    page = face([RESULTS["broken"], RESULTS["conformant"]], "html").decode()
    assert 'href="#r1-KVW-RES-001" class="v fail"' in page
    assert 'href="#r2-KVW-RES-001" class="v pass' in page or 'href="#r2-KVW-RES-001" class="v inconclusive' in page
    assert 'id="r1-KVW-RES-001"' in page
    assert face([RESULTS["broken"], RESULTS["conformant"]], "markdown").decode().count("### ") == 2
    assert len(ET.fromstring(face([RESULTS["broken"]] * 3, "junit")).findall("testsuite")) == 3


@pytest.mark.parametrize("kind", ["json", "badge"])
def test_what_is_of_one_result_refuses_several(kind: Format) -> None:
    with pytest.raises(FaceError, match="give one at a time"):
        face([RESULTS["broken"]] * 2, kind)


def test_a_recording_shows_the_bytes_the_events_and_the_course() -> None:
    made = told(broken())
    report = concluded(made)
    page = face([report], "html", [look(report, made.header, made.records)]).decode()
    assert "<mark>" in page
    assert "BlockStored; hashes " in page
    assert "<polyline" in page
    assert 'class="here" aria-current="true"' in page


def test_a_recording_of_another_run_is_refused() -> None:
    other = told(target="zmq:tcp://127.0.0.1:5557")
    with pytest.raises(Mismatch, match=r"its target is 'zmq:tcp://127\.0\.0\.1:5557'"):
        look(concluded(told()), other.header, other.records)


def test_around_a_finding_are_the_records_of_its_stream_and_those_of_none() -> None:
    made = told(broken())
    report = concluded(made)
    shown = look(report, made.header, made.records)
    for (at, number), seen in shown.at.items():
        here = report.outcomes[at].findings[number].where.record
        assert here is not None
        steps = [step.record for step in seen.steps]
        assert [step.record for step in seen.steps if step.here] == [here]
        assert steps == list(range(max(0, here - AROUND), min(here + AROUND + 1, len(made.records))))
    assert shown.at, "a finding that points at nothing shows nothing"


@pytest.mark.parametrize("batches", [1, COURSE, COURSE + 1, 3 * COURSE])
def test_a_long_course_is_drawn_by_as_many_points_as_a_short_one(batches: int) -> None:
    story = Story()
    for number in range(batches):
        story.send(stored([number + 1]))
    made = told(story)
    (course,) = look(concluded(told()), made.header, made.records).courses
    assert (course.points[0].number, course.points[-1].number) == (0, batches - 1)
    assert min(batches, COURSE // 2) <= len(course.points) <= COURSE + 1
    assert course.points[-1].resident == batches


def test_lives_are_lines_of_their_own_also_where_a_first_batch_is_no_point() -> None:
    story = Story()
    for number in range(COURSE + 1):
        story.send(stored([number + 1]))
    story.restart()
    story.send(cleared())
    for number in range(2):
        story.send(stored([number + 1]))
    made = told(story)
    report = concluded(told())
    shown = look(report, made.header, made.records)
    (course,) = shown.courses
    assert len(course.restarts) == 1
    assert [(life, sum(point.life == life for point in course.points) > 1) for life in (0, 1)] == [(0, True), (1, True)]
    assert [point.after_s for point in course.points] == sorted(point.after_s for point in course.points)
    assert face([report], "html", [shown]).decode().count("<polyline") == 2 * 2


def test_a_restart_and_a_gap_are_in_the_course() -> None:
    made = files.read(vectors() / "session" / "ugly-two-lives-interleaved.kvtrace")
    (course,) = look(conclude(made, KNOWN, everything()), made.header, made.records).courses
    assert course.restarts == (0.017,)


def test_a_page_loads_nothing_and_says_so_to_the_browser() -> None:
    page = face([RESULTS["broken"]], "html").decode()
    assert "default-src 'none'" in page
    for loads in ("src=", "<link", "@import", "url("):
        assert loads not in page.replace("default-src='", "")


def test_what_is_said_of_the_run_as_a_whole_comes_first() -> None:
    first = next(cases(RESULTS["lost"]))
    assert first.name == RUN
    assert "connection to s lost" in first.message


@pytest.mark.parametrize(
    ("kind", "head", "under"),
    [
        ("markdown", r"\n\| \*\*FAIL\*\* ", r"\n\| ↳ \*\*FAIL\*\* "),
        ("html", r'<ul class="brief">\n<li><a [^>]*>FAIL', r'<ul aria-label="Broken with it"><li><a [^>]*>FAIL'),
    ],
)
def test_failures_are_grouped_alike_in_each_face(kind: Format, head: str, under: str) -> None:
    story = Story().begin()
    story.send(stored("ab", lora_id=1))
    story.send(stored("b", parent="a", lora_id=2))
    report = concluded(told(story))
    assert [one for one in report.outcomes if one.follows]
    shown = face([report], kind).decode()
    assert re.search(head, shown)
    assert re.search(under, shown)
    assert "to close it: " in shown.lower()


def test_what_is_open_for_one_reason_is_told_once_in_each_face() -> None:
    report = concluded(broken().trace())
    shown = [one for one in report.outcomes if one.verdict is Verdict.INCONCLUSIVE and one.why is not Why.PROFILE]
    left = {
        one.requirement: msgspec.structs.replace(one, why=Why.MODE, reason=f"left out: probe {number}")
        for number, one in enumerate(shown)
    }
    assert len(left) > 2
    outcomes = tuple(left.get(one.requirement, one) for one in report.outcomes)
    (group,) = opened(msgspec.structs.replace(report, outcomes=outcomes))
    assert list(group.outcomes) == list(left)
    kinds: tuple[Format, ...] = ("html", "markdown", "console")
    for kind in kinds:
        said = face([msgspec.structs.replace(report, outcomes=outcomes)], kind).decode()
        assert 1 <= said.count(group.reason) <= 2  # the page tells those apart that the profile wants
