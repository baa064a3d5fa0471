"""The adapter of the reference: what it can be started with, and what it says that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvwire.peers.adapter import Adapter, Peer
from kvwire.standard.protocol import Refused

pytestmark = pytest.mark.network

WINDOW = {"idx": 1, "kind": "sliding_window", "window": 8}
HOST = {"medium": "CPU", "capacity": 8}


@pytest.fixture
def adapter() -> Iterator[Adapter]:
    made = Adapter(Peer())
    try:
        yield made
    finally:
        made.close()


def held(adapter: Adapter, **options: Any) -> dict[tuple[str, int], int]:
    """How much is held by medium and group, after three prompts of two blocks in a cache for four."""
    adapter.answer({"verb": "start", "block_size": 4, "capacity": 4, **options})
    for first in (10, 20, 30):
        adapter.answer({"verb": "cache", "tokens": list(range(first, first + 8))})
    answer = adapter.answer({"verb": "resident"})
    places = {(place["medium"], place["group"]): place["hashes"] for place in answer["places"]}
    assert answer["hashes"] == places["GPU", 0]
    return {place: len(hashes) for place, hashes in places.items()}


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({}, {("GPU", 0): 4}),
        ({"groups": [{"idx": 0}, {**WINDOW, "announced": False}]}, {("GPU", 0): 4}),
        ({"groups": [{"idx": 0}, WINDOW]}, {("GPU", 0): 4, ("GPU", 1): 4}),
        ({"tiers": [HOST]}, {("GPU", 0): 4, ("CPU", 0): 2}),
        ({"tiers": [{**HOST, "announced": False}]}, {("GPU", 0): 4}),
        ({"groups": None, "tiers": None, "netting": True}, {("GPU", 0): 4}),
    ],
)
def test_groups_and_tiers_are_served(
    adapter: Adapter, options: dict[str, Any], places: dict[tuple[str, int], int]
) -> None:
    assert held(adapter, **options) == places


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tiers": [HOST, {**HOST, "medium": "DISK"}]}, "one tier behind the device"),
        ({"groups": [{"idx": 0}, {"idx": 0}]}, "these groups are not served"),
        ({"groups": [{"idx": 0, "announced": False}, WINDOW]}, "the one with the largest window is announced"),
        ({"groups": [{"idx": 0, "block_size": 7}]}, "these groups are not served"),
    ],
)
def test_what_is_not_served_is_refused(adapter: Adapter, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        adapter.answer({"verb": "start", "block_size": 4, **options})
