"""What a report says of adapters: how they died, and what is not judged on their word."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.kit.stories import Story, everything

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Result
from kvwire.report.console import render
from kvwire.standard import registry
from kvwire.trace.calls import CacheCall, ResetCall
from kvwire.trace.marks import ProcessExit


def result(story: Story) -> Result:
    return conclude(story.trace(), registry.load(), everything())


def shown(told: Result) -> str:
    screen = io.StringIO()
    render(told, Console(file=screen, width=4000))
    return screen.getvalue()


def ended(*said: str) -> ProcessExit:
    return ProcessExit(code=1, how="exit code 1", expected=False, stderr=said)


def test_a_death_is_told_with_the_request_in_flight_and_the_end_of_standard_error() -> None:
    story = Story().told()
    story.note(CacheCall(tokens=(1,) * 79, lora="7", salt="x" * 80, error="it ended"))
    story.note(ended("a", "Traceback", "  line 3", "KeyError: 7"))
    (trouble,) = result(story).troubles
    assert trouble.text == (
        "the adapter's process ended by itself after 0 s (exit code 1) when asked for "
        f"`cache` (tokens of 79, lora '7', salt '{'x' * 58}…); "
        "its standard error ends: Traceback |   line 3 | KeyError: 7"
    )


@pytest.mark.parametrize(
    ("answered", "said"),
    [(True, ", after it had answered `reset`"), (False, " when asked for `reset`")],
)
def test_a_death_between_the_requests_names_the_last_one(answered: bool, said: str) -> None:
    story = Story().told()
    story.note(ResetCall() if answered else ResetCall(error="it ended"))
    story.note(ended())
    (trouble,) = result(story).troubles
    assert trouble.text == f"the adapter's process ended by itself after 0 s (exit code 1){said}"


def test_what_an_adapter_keeps_from_being_judged_stands_in_the_headline_and_in_one_line() -> None:
    told = result(Story(sets=("envelope", "encoder", "ts")).told())
    ours = sorted({o.requirement for o in told.outcomes if o.reason == "decided by us"})
    assert len(ours) > 40
    said = "; on the adapter's word (envelope, encoder, ts are not the publisher's)"
    assert told.summary.headline.endswith(f"{said} {len(ours)} sentences were not judged")
    (line,) = (line for line in shown(told).splitlines() if "as the adapter says" in line)
    assert line.startswith(
        "not judged, as the adapter says that the harness or itself decides it (envelope, encoder, ts):"
    )
    assert all(name.removeprefix("KVW-") in line for name in ours)


def test_what_an_honest_adapter_sets_is_no_matter_for_the_headline() -> None:
    told = result(Story(sets=("engine",)).begin())
    assert "on the adapter's word" not in told.summary.headline
    assert "as the adapter says that the harness or itself decides it (engine): " in shown(told)
    assert "as the adapter says" not in shown(result(Story().told()))
