"""How long a run may take, by its options."""

from __future__ import annotations

import pytest

from kvwire.attack.probes.kit.session import Mode
from kvwire.attack.run import DEADLINE_S
from kvwire.cli.check import settings


@pytest.mark.parametrize(
    ("mode", "seconds", "listens", "ends"),
    [
        ("plain", None, 10.0, 10.0 + DEADLINE_S),
        ("quick", None, 4.0, 12.0),
        ("plain", 4.0, 4.0, 9.0),
        ("plain", 60.0, 60.0, 120.0),
        ("plain", 600.0, 600.0, 600.0 + DEADLINE_S),
        ("quick", 2.0, 2.0, 7.0),
        ("quick", 60.0, 60.0, 68.0),
    ],
)
def test_what_is_listened_for_bounds_the_rest(mode: Mode, seconds: float | None, listens: float, ends: float) -> None:
    made = settings(None, mode, None, seconds)
    assert made.limits.listen_s == listens
    assert listens + made.deadline_s == ends
    assert made.mode == mode


@pytest.mark.parametrize(("seconds", "bound"), [(0.1, 2.0), (4.0, 4.0), (60.0, 5.0), (None, 5.0)])
def test_a_handshake_is_not_awaited_longer_than_was_asked_for(seconds: float | None, bound: float) -> None:
    assert settings(None, "plain", None, seconds).limits.handshake_s == bound
