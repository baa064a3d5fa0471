"""EVT: what events tell of cache salts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.stories import T0, Event, Story, cleared, payload, removed, stored

from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard.statement import Statement
from kvwire.trace.calls import CacheCall
from kvwire_reference.hashing import scope_tag

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def salted(used: str, *events: Any, **statement: Any) -> Story:
    """Events after a prompt with a salt."""
    story = Story(statement=Statement(**statement)).begin()
    story.note(CacheCall(tokens=(1, 2, 3, 4), salt=used, cached_tokens=0))
    story.send(*events)
    return story


def test_a_salt_in_clear_text_is_found_where_it_stands() -> None:
    event = stored("b", extra_keys=[["tenant-7f3a"]])
    story = salted("tenant-7f3a", stored("a"), event)
    assert story.verdict("EVT-019") == (FAIL, 2)
    content = payload(stored("a"), event, ts=T0 + 2)
    at = content.index(b"tenant-7f3a")
    assert story.place("EVT-019") == ("1", "payload", at, content[at : at + 24].hex())


def test_a_salt_that_is_kept_and_one_that_is_too_short_to_tell() -> None:
    assert salted("tenant-7f3a", stored("a"), stored("b", "a")).verdict("EVT-019") == (PASS, 2)
    assert salted("tenant-7f3a", removed("a"), cleared()).verdict("EVT-019") == (PASS, 2)
    assert salted("GPU", stored("a")).verdict("EVT-019") == (OPEN, 0)
    assert salted("tenant-7f3a", 7).verdict("EVT-019") == (OPEN, 0)  # no event at all


def test_a_salt_is_not_sought_in_what_came_before_it() -> None:
    story = Story()
    story.send(stored("a", extra_keys=[["tenant-7f3a"]]))
    story.note(CacheCall(tokens=(1, 2, 3, 4), salt="tenant-7f3a", cached_tokens=0))
    assert story.verdict("EVT-019") == (OPEN, 0)


@pytest.mark.parametrize(
    "event",
    [
        removed("a", note="tenant-7f3a"),
        {**cleared(), "epoch": "tenant-7f3a"},
        {"type": "BlockUpdated", "x": {"tenant-7f3a": 1}},
        stored("b", session_id="s/tenant-7f3a"),
        stored("b", medium="x-tenant-7f3a"),
    ],
)
def test_a_salt_is_sought_in_every_event_and_key(event: Event) -> None:
    assert salted("tenant-7f3a", event).outcome("EVT-019").verdict is FAIL


def test_who_declares_clear_salts_may_send_them() -> None:
    story = salted("tenant-7f3a", stored("b", extra_keys=[["tenant-7f3a"]]), salt="clear")
    assert story.outcome("EVT-019").reason == Reason.NOT_CLAIMED
    assert "EVT-019" in salted("tenant-7f3a", stored("b", extra_keys=[["tenant-7f3a"]]), salt="tag").spoken()


# --- scope tags ---------------------------------------------------------------------------------------------------

CHAIN = ((1, 2, 3, 4), (5, 6, 7, 8))


def tagged(*scopes: Any, salts: tuple[str | None, ...] = ("tenant-7f3a",), **statement: Any) -> Story:
    """The blocks of a prompt, each in a store with one of these scopes, after the prompt was run with the salts."""
    story = Story(statement=Statement(salt="tag", **statement)).begin()
    for salt in salts:
        story.note(CacheCall(tokens=(*CHAIN[0], *CHAIN[1]), salt=salt, cached_tokens=0))
    for name, above, tokens, scope in zip("ab", [None, "a"], CHAIN, scopes, strict=True):
        extra = {} if scope is ... else {"scope": scope}
        story.send({**stored(name, above), "token_ids": list(tokens), **extra})
    return story


RIGHT = scope_tag("tenant-7f3a")


def test_the_tag_of_a_salt_is_that_of_the_standard() -> None:
    assert tagged(RIGHT, RIGHT).verdict("EVT-028") == (PASS, 2)


@pytest.mark.parametrize(
    ("scopes", "seen"),
    [
        ((..., RIGHT), "no `scope`"),
        ((RIGHT, ...), "no `scope`"),
        ((RIGHT, None), "no `scope`"),
        ((RIGHT.upper(), RIGHT), repr(RIGHT.upper())),
        ((RIGHT, RIGHT[:15]), repr(RIGHT[:15])),
        ((RIGHT, RIGHT + "\n"), repr(RIGHT + "\n")),
        ((RIGHT, scope_tag("tenant-other")), repr(scope_tag("tenant-other"))),
        ((scope_tag("tenant-7f3a", b"k"), RIGHT), repr(scope_tag("tenant-7f3a", b"k"))),
    ],
)
def test_a_tag_that_is_missing_or_another(scopes: Any, seen: str) -> None:
    story = tagged(*scopes)
    assert (story.outcome("EVT-028").verdict, story.outcome("EVT-028").violations) == (FAIL, 1)
    assert story.outcome("EVT-028").findings[0].seen == seen


def test_chains_that_may_have_no_salt_need_no_tag() -> None:
    assert tagged(..., ..., salts=(None,)).verdict("EVT-028") == (OPEN, 0)
    assert tagged(..., ..., salts=("tenant-7f3a", None)).verdict("EVT-028") == (OPEN, 0)
    assert tagged(RIGHT, RIGHT, salts=("tenant-7f3a", None)).verdict("EVT-028") == (PASS, 2)


def test_a_chain_of_an_adapter_that_no_prompt_of_ours_had_needs_no_tag_of_ours() -> None:
    """Somebody else ran the same tokens."""
    story = tagged(RIGHT, RIGHT)
    story.send({**stored("x"), "token_ids": list(CHAIN[0]), "lora_id": 7, "lora_name": "theirs"})
    assert story.verdict("EVT-028") == (PASS, 2)


def test_a_chain_that_ran_with_several_salts_has_the_tag_of_one() -> None:
    both = ("tenant-7f3a", "tenant-other")
    assert tagged(RIGHT, scope_tag("tenant-other"), salts=both).verdict("EVT-028") == (PASS, 2)
    assert tagged(RIGHT, scope_tag("tenant-third"), salts=both).verdict("EVT-028") == (FAIL, 2)
    assert tagged(RIGHT, ..., salts=both).verdict("EVT-028") == (FAIL, 2)


def test_with_a_deployment_key_a_salt_has_one_tag_and_no_other_has_it() -> None:
    keyed = scope_tag("tenant-7f3a", b"k")
    assert tagged(keyed, keyed, scope_key=True).verdict("EVT-028") == (PASS, 2)
    assert tagged(keyed, RIGHT, scope_key=True).verdict("EVT-028") == (FAIL, 2)
    both = tagged(RIGHT, RIGHT, scope_key=True).outcome("EVT-028")
    assert (both.verdict, both.violations) == (FAIL, 2)
    assert both.findings[0].expected == "the scope tag of the salt 'tenant-7f3a' by the deployment key"
    story = tagged(keyed, keyed, scope_key=True)
    story.note(CacheCall(tokens=(9, 9, 9, 9), salt="tenant-other", cached_tokens=0))
    story.send({**stored("x"), "token_ids": [9, 9, 9, 9], "scope": keyed})
    assert story.verdict("EVT-028") == (FAIL, 3)


@pytest.mark.parametrize(
    ("between", "fine"), [(("restart",), True), (("disconnect", "connect"), True), (("drop",), False)]
)
def test_another_life_may_have_another_deployment_key(between: tuple[str, ...], fine: bool) -> None:
    story = tagged(*[scope_tag("tenant-7f3a", b"k")] * 2, scope_key=True)
    for act in between:
        getattr(story, act)()
    story.send({**stored("c"), "token_ids": list(CHAIN[0]), "scope": scope_tag("tenant-7f3a", b"other")})
    assert story.verdict("EVT-028") == (PASS if fine else FAIL, 3)


@pytest.mark.parametrize("between", ["restart", "disconnect"])
def test_what_a_hash_was_in_another_life_tells_nothing(between: str) -> None:
    story = tagged(RIGHT, RIGHT)
    getattr(story, between)()
    story.send({**stored("b", "a"), "token_ids": list(CHAIN[1])})
    assert story.verdict("EVT-028") == (PASS, 2)


def test_of_chains_that_no_prompt_explains_the_form_is_known() -> None:
    story = Story(statement=Statement(salt="tag")).begin()
    story.send(stored("a", scope=RIGHT), stored("b"))
    assert story.verdict("EVT-028") == (PASS, 1)
    story.send(stored("c", scope="tenant-7f3a"))
    assert story.verdict("EVT-028") == (FAIL, 2)


def test_a_location_update_needs_no_tag_and_one_that_has_it_has_its_form() -> None:
    story = tagged(RIGHT, RIGHT, extensions=("location_updates",))
    update = {**stored("ab", medium="CPU"), "token_ids": [], "block_size": 0}
    story.send(update, {**update, "medium": "DISK", "scope": RIGHT})
    assert story.verdict("EVT-028") == (PASS, 3)
    story.send({**update, "medium": "STORAGE", "scope": RIGHT.upper()})
    assert story.verdict("EVT-028") == (FAIL, 4)
    assert story.spoken().keys() == {"EVT-028"}


@pytest.mark.parametrize(
    ("declared", "scope", "verdict"),
    [
        ("none", RIGHT, FAIL),
        ("clear", RIGHT, FAIL),
        ("tag", RIGHT, PASS),
        ("none", None, Verdict.NOT_APPLICABLE),
        ("tag", None, Verdict.NOT_APPLICABLE),
    ],
)
def test_tags_are_sent_by_who_declares_them(declared: Any, scope: str | None, verdict: Verdict) -> None:
    story = Story(statement=Statement(salt=declared)).begin()
    story.send(stored("a", scope=scope))
    assert story.outcome("EVT-038").verdict == verdict
    if declared != "tag":
        assert story.outcome("EVT-028").reason == Reason.NOT_CLAIMED
    if verdict is FAIL:
        assert story.outcome("EVT-038").findings[0].expected == f'no `scope`, as `salt = "{declared}"` is declared'
