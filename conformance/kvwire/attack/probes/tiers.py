"""Engines with several cache groups and host memory: what is announced of them, and what is not."""

from __future__ import annotations

from kvwire.attack.probes import residency
from kvwire.attack.probes.kit.attacked import attacked
from kvwire.attack.probes.kit.drained_prompts import DrainedPrompts
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.standard.protocol import EngineGroup, EngineTier, Start

CAPACITY = 32
"""Blocks in the cache."""
HOST = 24
"""Blocks in host memory: fewer than are demoted, so that some leave it too."""
HOST_MEDIUM = "CPU"


def unseen(size: int) -> Start:
    """A window and host memory of which no event speaks: a prompt can reuse less, or more, than is announced."""
    return Start(
        capacity=CAPACITY,
        groups=(EngineGroup(idx=0), EngineGroup(idx=1, window=size + 1, announced=False)),
        tiers=(EngineTier(medium=HOST_MEDIUM, capacity=HOST, announced=False),),
    )


def shown(size: int, *, cut: int = 1) -> Start:
    """Both announced. ``cut``: into how many blocks of the first group one of the window is cut."""
    window = EngineGroup(idx=1, kind="sliding_window", window=2 * size, block_size=None if cut == 1 else cut * size)
    return Start(
        capacity=CAPACITY,
        groups=(EngineGroup(idx=0, kind="full_attention"), window),
        tiers=(EngineTier(medium=HOST_MEDIUM, capacity=HOST),),
    )


def attack(session: Session) -> None:
    """Prompts that share a beginning, that evict each other, and that come back."""
    drained = DrainedPrompts(session)
    drained.begin()
    prompt = session.offers.tokens(residency.PROMPT)
    residency.shared(drained, prompt)
    residency.evicted(drained, prompt)
    drained.end()


def run(session: Session) -> None:
    """On three more instances, where they take groups and tiers; groups of one block size are all that some have."""
    size = session.block_size
    for name, start in (("unseen", unseen(size)), ("tiers", shown(size)), ("coarse", shown(size, cut=2))):
        if session.left() > 0:
            with attacked(session, name, start) as own:
                if own is not None:
                    attack(own)


PROBE = Probe(
    name="tiers",
    run=run,
    needs=frozenset({"fresh", "cache", "resident"}),
    serves="CHN-002 CHN-003 EVT-017 RES-002 RES-003 RES-012 RES-013",
    must_survive=("KVW-RES-003",),
    bounds=f"prompts for a cache of {CAPACITY} blocks and {HOST} behind it; each is awaited for settle_s",
)
