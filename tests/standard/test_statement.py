"""What a statement declares of groups and media, and what it may not declare twice."""

from __future__ import annotations

from typing import Any

import pytest

from kvwire.standard.statement import Statement, StatementError, convert

DECLARED: dict[str, Any] = {
    "residency": "set",
    "block_size": 16,
    "groups": [{"idx": 1, "block_size": 64, "residency": "refresh"}, {"idx": 2, "kind": "mamba"}],
    "media": [{"medium": "CPU", "residency": "counted"}],
}


@pytest.mark.parametrize(
    ("medium", "group", "expected"),
    [
        ("GPU", 0, "set"),
        ("GPU", 1, "refresh"),
        ("GPU", 2, "set"),
        ("CPU", 0, "counted"),
        ("CPU", 1, "counted"),
        (None, 1, "refresh"),
        ("cpu", 0, "set"),
    ],
)
def test_the_most_particular_residency_policy_holds(medium: str | None, group: int, expected: str) -> None:
    assert convert(DECLARED, "here").residency_of(medium, group) == expected


@pytest.mark.parametrize(("group", "expected"), [(0, 16), (1, 64), (2, 16), (7, None)])
def test_a_group_without_a_block_size_has_that_of_the_statement(group: int, expected: int | None) -> None:
    assert convert(DECLARED, "here").declared_block_size(group) == expected


def test_a_group_with_a_block_size_declares_nothing_of_others() -> None:
    assert convert({"groups": [{"idx": 1, "block_size": 64}]}, "here").declared_block_size(0) is None


def test_nothing_declared_is_the_default_of_the_standard() -> None:
    assert (Statement().residency_of("GPU", 0), Statement().salt, Statement().declared_block_size(0)) == (
        "set",
        "none",
        None,
    )


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ({"groups": [{"idx": 1}, {"idx": 1}]}, "two groups have one idx"),
        ({"groups": [{}, {"idx": 0}]}, "two groups have one idx"),
        ({"media": [{"medium": "GPU", "residency": "set"}] * 2}, "two media have one name"),
        ({"media": [{"medium": "GPU"}]}, "residency"),
        ({"salt": "yes"}, "salt"),
    ],
)
def test_what_is_declared_twice_or_by_no_name_is_refused(raw: dict[str, Any], complaint: str) -> None:
    with pytest.raises(StatementError, match=complaint):
        convert(raw, "here")
