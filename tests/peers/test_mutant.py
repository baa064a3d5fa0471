"""What is said of a mutant is complete, or it is not loaded."""

from __future__ import annotations

from typing import Any

import pytest

from kvwire.peers.mutant import LISTENED, Announcing, MutantError, Serving, Session, declared, mutant
from kvwire.peers.mutants import MUTANTS, peer_of
from kvwire.standard import registry
from kvwire_reference.cache import CacheConfig
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher

WHOLE: dict[str, Any] = {"breaks": "ENV-001", "change": "nothing", "session": LISTENED}

FAULTY: dict[str, tuple[dict[str, Any], str]] = {
    "no sentence": ({"breaks": ""}, "breaks is missing"),
    "no change": ({"change": ""}, "change is missing"),
    "no session": ({"session": ""}, "session is missing, and so is the reason why there is none"),
    "a level that is none": ({"levels": ("active",)}, "there is no level 'active'"),
    "a session at no level": ({"session": Session(level="active")}, "there is no level 'active'"),  # type: ignore[arg-type]
    "a misspelt part": ({"resaon": "because"}, "a mutant sets no 'resaon'"),
    "two faults": ({"breaks": "", "change": ""}, "breaks is missing; change is missing"),
}


@pytest.mark.parametrize(("parts", "fault"), FAULTY.values(), ids=FAULTY)
def test_what_is_missing_or_misspelt_is_named(parts: dict[str, Any], fault: str) -> None:
    with pytest.raises(MutantError) as said:
        mutant("half-said", **{**WHOLE, **parts})(ZmqPublisher)
    assert str(said.value) == f"mutant 'half-said': {fault}"
    assert "half-said" not in declared


def test_no_two_mutants_have_one_name() -> None:
    with pytest.raises(MutantError, match=r"mutant 'two-frames': kvwire.peers.frame_faults has one of that name"):
        mutant("two-frames", **WHOLE)(ZmqPublisher)


def test_a_class_that_serves_two_mutants_bears_two_marks() -> None:
    one, other = MUTANTS["announces-other-width"], MUTANTS["eight-byte-tokens"]
    assert one.peer["make_publisher"] is other.peer["make_publisher"]
    assert (one.primary, other.primary) == ("KVW-HSH-002", "KVW-HSH-007")
    assert other.peer["algorithm"] == "v2_sha256_64/u64"


def test_the_part_that_is_changed_stands_in_the_place_of_the_reference() -> None:
    server = peer_of("replay-twice").make_publisher(PublisherConfig(endpoint="ipc:///tmp/nobody"))
    assert isinstance(server, Serving)
    engine = peer_of("resets-silently").make_engine(server, CacheConfig())
    assert isinstance(engine, Announcing)
    assert type(engine.announcer).__name__ == "ResetsSilently"


def test_what_a_mutant_sets_prevails() -> None:
    assert peer_of("no-wrap", algorithm="v2_sha256_64/u32").algorithm == "v1_block_key"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_claims_a_profile_that_has_the_sentence_it_breaks(name: str) -> None:
    claimed = peer_of(name).declare()["profile"]
    assert MUTANTS[name].primary in registry.profile(claimed).ids
