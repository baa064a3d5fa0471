"""Rooms for publishers that are killed."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def room_of_the_killed(room: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A peer that is killed leaves its private directory behind: in a room that is removed."""
    monkeypatch.setenv("TMPDIR", str(room))
    return room
