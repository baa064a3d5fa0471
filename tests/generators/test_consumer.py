"""Scripts of consumers: an end that is not the written one is named, and every duty of a consumer has a test."""

from __future__ import annotations

from typing import Any

import pytest

from kvwire.standard import registry
from kvwire.vectors.model import ConsumerStream
from kvwire_generators.following import consumer_vectors
from kvwire_generators.following.scripts import block, cleared, scenario
from kvwire_generators.making import VectorError

TESTS = [test for file in consumer_vectors.files().values() for test in file.tests]
ELSEWHERE = {
    "KVW-BAT-006": "bounds are a consumer's own",
    "KVW-REP-021": "of the socket, and of a request's frames: vectors/replay/",
    "KVW-REP-025": "its number is beyond what anybody counts to",
}
"""Duties that no script can show, and why."""


def test_every_duty_of_a_consumer_has_a_test() -> None:
    shown = {requirement for test in TESTS for requirement in test.requirements}
    duties = {one.id for kind in ("consumer", "replay-client") for one in registry.load().binding(kind)}
    assert duties - shown == set(ELSEWHERE)
    assert shown <= duties


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"script": "back > 0; replay a0; end > 5"}, "slip: end > 5: the reference asks None"),
        ({"script": "back; replay a0; end"}, "slip: back: the reference asks 0"),
        ({"holds": "a0 a1"}, "slip: the reference ends with ('a0', '0', True)"),
        ({"last": 1}, "slip: the reference ends with"),
        ({"sure": False}, "slip: the reference ends with"),
        ({"found": "1"}, "slip: the reference finds"),
        ({"script": "back > 0; replay zero; end"}, "'zero' is no letter and number"),
        ({"script": "back > 0; end; live a0 a2 a3; end"}, "it asks at a2, in the middle of a step"),
    ],
)
def test_a_script_that_ends_otherwise_than_it_says_is_named(changes: dict[str, Any], told: str) -> None:
    right: dict[str, Any] = {"script": "back > 0; replay a0; end", "holds": "a0", "last": 0}
    assert scenario("slip", "right", **right).expected.steps[-1].sure
    with pytest.raises(VectorError) as error:
        scenario("slip", "wrong", **{**right, **changes})
    assert told in str(error.value)


def test_what_a_test_needs_is_in_its_flags() -> None:
    silent = (ConsumerStream(name="s", replay=False, residency="counted"),)
    test = scenario("flags", "", "back; live a0", "", 0, batches={"a0": [cleared(epoch="one")]}, streams=silent)
    assert test.flags == ("counted", "epoch", "no-replay")
    assert {flag for test in TESTS for flag in test.flags} == set(consumer_vectors.NOTES)


def test_lives_differ_in_every_batch() -> None:
    test = scenario("lives", "", "back > 0; replay a0; end; live b0", "b0", 0)
    assert test.input.batches["a0"] != test.input.batches["b0"]
    assert block("b0") == 2 * block("a0")
