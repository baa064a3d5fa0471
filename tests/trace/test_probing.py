"""Which probe was at work when a record was made, and that the marks which tell it disturb no judge."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
import pytest
from tests.judges.test_honest_but_ugly import ROWS, Tell
from tests.kit.runs import recorded, replayed
from tests.kit.stories import Story, everything, removed, stored

from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.witness import Recorder
from kvwire.conclusion.conclude import conclude
from kvwire.standard import registry
from kvwire.standard.protocol import Refused
from kvwire.standard.registry import LEVELS
from kvwire.standard.statement import Statement, Stream
from kvwire.trace.levels import lowered
from kvwire.trace.marks import ProbeMark, Trouble
from kvwire.trace.probing import probes
from kvwire.trace.records import Record, Source, Trace


def mark(name: str, phase: Literal["begins", "ends"]) -> Record:
    return Record(t_ns=0, source=Source.HARNESS, detail=ProbeMark(name=name, phase=phase))


def seen() -> Record:
    return Record(t_ns=0, source=Source.LIVE_A, stream="s", frames=(b"", b"", b""))


def test_a_record_belongs_to_the_probe_that_had_begun_and_not_ended() -> None:
    records = [seen(), mark("a", "begins"), seen(), mark("a", "ends"), seen(), mark("b", "begins"), seen()]
    probe_of = probes(records)
    assert [probe_of(index) for index in (0, 2, 4, 6)] == [None, "a", None, "b"]


def test_a_trace_without_marks_tells_of_no_probe() -> None:
    assert probes([seen(), seen()])(1) is None


# the marks and the judges


IN_RECORD = re.compile(r"(.*) in record (\d+)$")


def unmarked(trace: Trace) -> Trace:
    records = [record for record in trace.records if not isinstance(record.detail, ProbeMark)]
    return msgspec.structs.replace(trace, records=tuple(records))


def marked(trace: Trace, every: int) -> Trace:
    """The trace with a probe that begins or ends after every few records, written and read again."""
    records: list[Record] = []
    for index, record in enumerate(trace.records):
        if index % every == 0:
            records.append(mark(f"probe-{index}", "ends" if index % (2 * every) else "begins"))
        records.append(record)
    return replayed(msgspec.structs.replace(trace, records=tuple(records)))


def said(trace: Trace) -> list[Any]:
    """Every line of the result, without the digest; records are counted without marks, and no probe is named."""
    kept = [index for index, record in enumerate(trace.records) if not isinstance(record.detail, ProbeMark)]
    lines = msgspec.to_builtins(list(conclude(trace, registry.load(), everything()).lines()))
    for line in lines:
        line.pop("recording_sha256", None)
        for finding in line.get("findings", ()):
            finding["where"].pop("probe", None)
            if "record" in finding["where"]:
                finding["where"]["record"] = kept.index(finding["where"]["record"])
            if call := IN_RECORD.search(finding["where"].get("before") or ""):
                finding["where"]["before"] = f"{call[1]} in record {kept.index(int(call[2]))}"
    return list(lines)


def broken() -> Story:
    """A story with findings of several areas."""
    story = Story(can=("publish",)).told(4)
    story.publish(stored("a"))
    story.send(stored("a"), removed("b"), stored("c", parent="d"))
    story.live(9, b"\xc1", by="a")
    story.replay(without=[2])
    return story


@pytest.mark.parametrize("tell", [*(tell for tell, _ in ROWS), broken])
@pytest.mark.parametrize("every", [1, 3])
def test_marks_change_no_verdict(tell: Tell, every: int) -> None:
    trace = tell().trace()
    with_marks = marked(trace, every)
    assert len(with_marks.records) > len(trace.records)
    assert said(with_marks) == said(trace)


def test_a_finding_names_the_probe_during_which_its_record_was_made() -> None:
    trace = marked(broken().trace(), 3)
    result = conclude(trace, registry.load(), everything())
    named = [(f.where.record, f.where.probe) for outcome in result.outcomes for f in outcome.findings]
    probe_of = probes(trace.records)
    assert {probe for _, probe in named} > {None}
    assert all(probe == (None if record is None else probe_of(record)) for record, probe in named)


@pytest.mark.network
def test_a_run_is_judged_with_its_marks_as_without_at_every_level() -> None:
    recording = recorded("mutant:evicts-silently", mode="quick")
    begun = [r.detail.name for r in recording.records if isinstance(r.detail, ProbeMark) and r.detail.phase == "begins"]
    assert tuple(begun) == recording.header.probes
    for level in LEVELS:
        lower = lowered(recording, level)
        assert len(unmarked(lower).records) < len(lower.records), "they tell at every level which probe was at work"
        assert said(lower) == said(unmarked(lower))


def test_a_probe_that_is_refused_ends_in_the_trace(recorder: Recorder) -> None:
    def run(session: Session) -> None:
        session.trouble("as it happens")
        raise Refused("no")

    session = Session(recorder=recorder, streams=[Stream(name="s", endpoint="ipc://s")], statement=Statement())
    with pytest.raises(Refused):
        Probe(name="vain", run=run, needs=frozenset())(session)
    begins, trouble, ends = (record.detail for record in recorder.records)
    assert (begins, ends) == (ProbeMark(name="vain", phase="begins"), ProbeMark(name="vain", phase="ends"))
    assert isinstance(trouble, Trouble)
