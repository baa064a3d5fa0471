"""What stands of a stream while it is watched."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.stories import Story, cleared, removed, stored

from kvwire.conclusion.watching import Watcher
from kvwire.trace.records import Header


def header(story: Story) -> Header:
    return msgspec.structs.replace(story.trace().header, profile="core")


def test_findings_come_as_they_are_made_and_each_once() -> None:
    story = Story(replay=False, can=()).begin()
    story.send(stored("a"))
    watcher, known = Watcher(header(story)), 0
    for record in story.records:
        watcher.take(record)
    assert watcher.findings_since(0) == []
    before = len(story.records)
    story.send(stored("a"))
    story.send(removed("b"))
    for record in story.records[before:]:
        watcher.take(record)
    found = watcher.findings_since(known)
    assert [said.requirement for said in found] == ["KVW-RES-001", "KVW-RES-002"]
    assert {said.stream for said in found} == {"s"}
    assert watcher.findings_since(len(found)) == []
    assert watcher.tallies()["s", "KVW-RES-001"].violations == 1


def test_facts_say_how_a_stream_stands() -> None:
    story = Story(replay=False, can=())
    story.send(cleared())
    for number in range(300):
        story.send(stored([number]))
        if number == 20:
            story.drop(3)
    watcher = Watcher(header(story))
    for record in story.records:
        watcher.take(record)
    facts = watcher.facts["s"]
    assert (facts.batches, facts.waiting, facts.incarnations) == (301, 0, 1)
    assert (facts.gaps, facts.missing) == (1, 3)
    assert facts.events == {"AllBlocksCleared": 1, "BlockStored": 300}
    assert facts.resident == 279
    assert (facts.form, facts.function, facts.last_number) == ("map", None, 303)
    assert facts.last_t_ns == story.records[-1].t_ns


def test_a_run_in_which_something_is_done_to_the_publisher_is_not_watched() -> None:
    driven = msgspec.structs.replace(header(Story(can=())), can=("cache",), level="driven")
    with pytest.raises(ValueError, match="a run that can cache"):
        Watcher(driven)
