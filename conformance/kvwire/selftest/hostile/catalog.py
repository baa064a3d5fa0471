"""All attacks, in the order of the page."""

from __future__ import annotations

from kvwire.selftest.hostile.bench import Attack
from kvwire.selftest.hostile.rows import adapters, clients, files, others, publishers, replays

MODULES = (publishers, replays, adapters, files, others, clients)
ATTACKS: tuple[Attack, ...] = tuple(attack for module in MODULES for attack in module.ATTACKS)
