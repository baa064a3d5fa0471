"""Findings about a block name the batch that stored it last, where that is known."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.kit.stories import Event, Story, block, cleared, everything, removed, stored

from kvwire.conclusion.conclude import conclude
from kvwire.report.console import render
from kvwire.standard import registry
from kvwire.trace.calls import ResidentCall
from kvwire.trace.marks import Settled


def told(*batches: list[Event]) -> Story:
    """A story of a clear, number 0, and these batches."""
    story = Story(can=("cache", "resident")).begin()
    for events in batches:
        story.send(*events)
    return story


def named(story: Story, requirement: str) -> list[tuple[str | None, str | None]]:
    """Of each finding its number, and that of the batch which last stored the block."""
    return [(f.where.number, f.where.stored) for f in story.outcome(requirement).findings]


@pytest.mark.parametrize(
    ("requirement", "batches", "expected"),
    [
        ("RES-001", [[stored("a")], [stored("b")], [stored("a")]], [("3", "1")]),
        ("RES-001", [[stored("a"), stored("a")]], [("1", "1")]),
        ("RES-002", [[stored("a")], [removed("a")], [removed("a")]], [("3", "1")]),
        ("RES-002", [[stored("a")], [removed("b")]], [("2", None)]),
        ("RES-002", [[stored("a")], [cleared()], [removed("a")]], [("3", "1")]),
        ("CHN-003", [[stored("a")], [removed("a")], [stored("b", parent="a")]], [("3", "1")]),
        ("CHN-003", [[stored("b", parent="a")]], [("1", None)]),
        ("CHN-004", [[stored("a")], [stored("b", parent="a")], [stored("a", parent="b")]], [("3", "1")]),
        ("EVT-017", [[stored("a", group_idx=1)], [removed("a", group_idx=2)]], [("2", "1")]),
    ],
)
def test_the_last_store_before_the_event_is_named(
    requirement: str, batches: list[list[Event]], expected: list[tuple[str | None, str | None]]
) -> None:
    assert named(told(*batches), requirement) == expected


def test_a_hash_for_two_chains_names_where_it_stood_before() -> None:
    story = told([stored("a")], [removed("a")], [stored("a", token_ids=[1, 2, 3, 4])])
    assert named(story, "HSH-008") == [("3", "1")]


def test_numbers_of_an_earlier_life_are_not_named() -> None:
    story = told([stored("a")])
    story.restart()
    story.begin()
    story.send(removed("a"))
    assert named(story, "RES-002") == [("1", None)]


def test_a_block_that_the_engine_lost_names_where_it_was_announced() -> None:
    story = told([stored("a")], [stored("b")])
    story.note(Settled(drained=True, idle=True))
    story.note(ResidentCall(hashes=(str(block("a")),)))
    (finding,) = story.outcome("RES-003").findings
    assert (finding.where.record, finding.where.stored) == (len(story.records) - 1, "2")


def test_the_report_shows_it() -> None:
    story = told([stored("a")], [stored("a")])
    console = Console(width=200, file=io.StringIO(), record=True)
    render(conclude(story.trace(), registry.load(), everything()), console)
    assert "the block last stored in number 1" in console.export_text()
