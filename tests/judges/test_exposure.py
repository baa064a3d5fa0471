"""EXP: what is reachable more widely, whoever chose it, and what is bound by default."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.instances import Instance
from tests.kit.stories import Story

from kvwire.conclusion.outcome import NOTHING
from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard.statement import Salt, Statement
from kvwire.trace.marks import EndpointSeen, Witnesses


def seen_at(endpoint: str, event: str = "HANDSHAKE_SUCCEEDED", *, salt: Salt = "none", **shown: Any) -> Story:
    """A stream that was found at an endpoint."""
    story = Story(statement=Statement(salt=salt))
    story.note(EndpointSeen(endpoint=endpoint, **shown))
    story.monitor(event)
    return story


WIDE: list[tuple[str, dict[str, Any]]] = [
    ("tcp://10.0.0.7:5557", {}),
    ("tcp://127.0.0.1:5557", {"listening": ["0.0.0.0"]}),
    ("tcp://[::1]:5557", {"listening": ["::"]}),
    ("tcp://node:5557", {"addresses": ["10.0.0.7"]}),
    ("ipc:///tmp/events", {"private": False}),
]
NEAR: list[tuple[str, dict[str, Any]]] = [
    ("tcp://127.0.0.1:5557", {"listening": ["127.0.0.1"]}),
    ("tcp://127.0.0.1:5557", {"listening": ["10.0.0.7", "127.0.0.1"]}),
    ("tcp://127.0.0.1:5557", {}),
    ("tcp://node:5557", {"addresses": ["127.0.0.1"]}),
    ("ipc:///run/private/events", {"private": True}),
    ("ipc:///gone", {"private": None}),
    ("inproc://10.0.0.7", {}),
]


@pytest.mark.parametrize(("endpoint", "shown"), WIDE)
def test_whoever_comes_from_afar_is_asked_who_he_is(endpoint: str, shown: dict[str, Any]) -> None:
    let_in = seen_at(endpoint, **shown).outcome("EXP-002")
    assert (let_in.verdict, let_in.violations) == (Verdict.WARN, 1)
    turned_away = seen_at(endpoint, "HANDSHAKE_FAILED_AUTH", **shown).outcome("EXP-002")
    assert (turned_away.verdict, turned_away.witnesses) == (Verdict.PASS, 1)


@pytest.mark.parametrize(("endpoint", "shown"), NEAR)
def test_what_is_near_is_nobodys_business(endpoint: str, shown: dict[str, Any]) -> None:
    outcome = seen_at(endpoint, **shown).outcome("EXP-002")
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_APPLICABLE, Reason.NOT_USED)


def test_with_keys_of_ours_nobody_knows_whether_others_are_asked() -> None:
    for endpoint, shown in WIDE:
        story = seen_at(endpoint, **shown)
        story.note(Witnesses(of=("live-a",), rcvhwm=1, maxmsgsize=1, reconnect_ms=1, curve=True))
        outcome = story.outcome("EXP-002")
        assert (outcome.verdict, outcome.witnesses, outcome.violations) == (Verdict.INCONCLUSIVE, 0, 0)


def test_other_instances_count_too() -> None:
    story = Story()
    endpoint = "tcp://127.0.0.1:25557"
    Instance(story).accepts(endpoint).reached(endpoint).place(endpoint, listening=["0.0.0.0"])
    assert story.outcome("EXP-002").verdict is Verdict.WARN


# clear salts


@pytest.mark.parametrize(("endpoint", "shown"), WIDE[:4])
def test_whoever_reads_clear_salts_from_afar_is_asked_who_he_is(endpoint: str, shown: dict[str, Any]) -> None:
    let_in = seen_at(endpoint, salt="clear", **shown).outcome("EXP-003")
    assert (let_in.verdict, let_in.violations) == (Verdict.FAIL, 1)
    turned_away = seen_at(endpoint, "HANDSHAKE_FAILED_AUTH", salt="clear", **shown)
    assert turned_away.verdict("EXP-003") == (Verdict.PASS, 1)
    with_keys = seen_at(endpoint, salt="clear", **shown)
    with_keys.note(Witnesses(of=("live-a",), rcvhwm=1, maxmsgsize=1, reconnect_ms=1, curve=True))
    assert with_keys.outcome("EXP-003").verdict is Verdict.INCONCLUSIVE
    assert "CURVE keys" in with_keys.outcome("EXP-003").reason
    nobody_came = seen_at(endpoint, "CONNECTED", salt="clear", **shown).outcome("EXP-003")
    assert (nobody_came.verdict, nobody_came.reason) == (Verdict.NOT_APPLICABLE, Reason.NOT_USED)
    not_clear = seen_at(endpoint, **shown).outcome("EXP-003")
    assert (not_clear.verdict, not_clear.reason) == (Verdict.NOT_APPLICABLE, Reason.NOT_CLAIMED)


@pytest.mark.parametrize(("endpoint", "shown"), [*NEAR, WIDE[4]])
def test_clear_salts_that_stay_on_their_host_are_nobodys_business(endpoint: str, shown: dict[str, Any]) -> None:
    outcome = seen_at(endpoint, salt="clear", **shown).outcome("EXP-003")
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_APPLICABLE, Reason.NOT_USED)


def test_clear_salts_of_other_instances_count_too() -> None:
    story = Story(statement=Statement(salt="clear"))
    endpoint = "tcp://127.0.0.1:25557"
    Instance(story).accepts(endpoint).reached(endpoint).place(endpoint, listening=["0.0.0.0"])
    assert story.outcome("EXP-003").verdict is Verdict.FAIL


# the default


@pytest.mark.parametrize(
    ("default", "private", "verdict"),
    [
        ("tcp://127.0.0.1:5557", None, Verdict.PASS),
        ("tcp://localhost:5557", None, Verdict.PASS),
        ("inproc://events", None, Verdict.PASS),
        ("tcp://*:5557", None, Verdict.WARN),
        ("tcp://10.0.0.7:5557", None, Verdict.WARN),
        ("ipc:///run/private/events", True, Verdict.PASS),
        ("ipc:///tmp/events", False, Verdict.WARN),
        ("ipc:///not/there", None, Verdict.INCONCLUSIVE),
    ],
)
def test_the_default_is_what_is_declared(default: str, private: bool | None, verdict: Verdict) -> None:
    story = Story(statement=Statement(default_endpoint=default))
    story.note(EndpointSeen(endpoint=default, private=private, default=True))
    story.monitor("HANDSHAKE_SUCCEEDED")
    assert story.outcome("EXP-001").verdict is verdict
    assert story.outcome("EXP-002").reason == Reason.NOT_USED


def test_a_directory_that_nobody_looked_at_leaves_the_default_open() -> None:
    story = Story(statement=Statement(default_endpoint="ipc:///not/there"))
    story.note(EndpointSeen(endpoint="ipc:///not/there", default=True))
    assert story.outcome("EXP-001").reason.startswith("nothing shows who can enter the directory")


@pytest.mark.parametrize("default", [None, "tcp://*:5557"])
def test_where_nothing_was_looked_at_nothing_is_said_of_the_default(default: str | None) -> None:
    outcome = Story(statement=Statement(default_endpoint=default)).outcome("EXP-001")
    assert (outcome.verdict, outcome.reason) == (Verdict.INCONCLUSIVE, NOTHING)


def test_where_the_adapter_bound_says_nothing_of_the_default() -> None:
    outcome = seen_at("tcp://127.0.0.1:5557", listening=["0.0.0.0"]).outcome("EXP-001")
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "default_endpoint" in outcome.reason
