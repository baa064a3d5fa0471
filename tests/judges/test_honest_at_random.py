"""Honest worlds at random: no judge may ever speak of one."""

from __future__ import annotations

import random

import pytest
from tests.kit.honest_world import GROUPS, MEDIA, SCOPES, Parts, lived
from tests.kit.stories import payload

SEEDS = range(100)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_judge_speaks(seed: int) -> None:
    world = lived(seed, 150)
    assert world.story.spoken() == {}, world.parts


def test_every_part_is_drawn() -> None:
    drawn = [Parts.drawn(random.Random(seed)) for seed in SEEDS]
    assert {parts.groups for parts in drawn} == set(GROUPS)
    assert {parts.media for parts in drawn} == set(MEDIA)
    assert {len(parts.scopes) for parts in drawn} == {len(scopes) for scopes in SCOPES}
    assert {parts.residency for parts in drawn} == {"set", "refresh", "counted"}
    for name in ("late", "keeps", "tick_s", "lost"):
        assert len({getattr(parts, name) for parts in drawn}) > 1, name


def test_and_it_shows_what_it_should() -> None:
    """Most sentences that a listener with replay can see have witnesses in a world without much loss."""
    story = lived(1, 300, loss=0.01, parts=Parts()).story
    names = ("SEQ-003", "SEQ-004", "CHN-003", "CHN-004", "RES-001", "RES-002", "REP-001", "REP-008", "REP-013")
    assert set(names) <= story.witnessed()


SHOWN: dict[str, tuple[Parts, str]] = {
    "windows": (Parts(groups=GROUPS[1]), "CHN-002 EVT-017 EVT-036"),
    "sizes": (Parts(groups=GROUPS[4]), "CHN-002 EVT-014 EVT-036 HSH-008"),
    "copies": (Parts(residency="counted"), "RES-004"),
    "adapters": (Parts(scopes=SCOPES[2]), "CHN-006 HSH-014"),
    "tags": (Parts(scopes=SCOPES[3]), "CHN-006 EVT-028"),
    "epochs": (Parts(tick_s=60.0), "SEQ-019 SEQ-020"),
    "survivors": (Parts(keeps=True), "SEQ-008 RES-001"),
    "answers": (Parts(media=MEDIA[2]), "RES-003 RES-012"),
}


@pytest.mark.parametrize(("parts", "names"), SHOWN.values(), ids=SHOWN)
def test_and_each_part_shows_what_it_is_there_for(parts: Parts, names: str) -> None:
    shown = set[str]().union(*(lived(seed, 300, loss=0.01, parts=parts).story.witnessed() for seed in range(3)))
    assert set(names.split()) <= shown


def test_a_payload_of_another_is_no_story_of_ours() -> None:
    """The worlds above are honest because of what they hold, not because nobody looks: one foreign batch is heard."""
    world = lived(2, 60, loss=0.0, parts=Parts())
    number = max(world.story.retained)
    world.story.live(number, payload(ts=1.0), by="a")
    assert "SEQ-004" in world.story.spoken() or world.story.arrivals()[-1][1] == "restart"
