"""All attacks, in the order of the page."""

from __future__ import annotations

from kvwire.selftest.hostile.bench import Attack
from kvwire.selftest.hostile.rows import adapters, files, publishers, replays

ATTACKS: tuple[Attack, ...] = (*publishers.ATTACKS, *replays.ATTACKS, *adapters.ATTACKS, *files.ATTACKS)
