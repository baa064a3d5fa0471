"""An entry limit that is soon reached: what is shed, what becomes of it, and whether removals are."""

from __future__ import annotations

from kvwire.attack.probes.kit.attacked import attacked
from kvwire.attack.probes.kit.drained_prompts import DrainedPrompts
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.standard.protocol import Start

CAP = 5
CAPACITY = 30
"""Blocks in the cache, where the engine takes a number."""
LONG = 3 * CAP
"""Blocks of a prompt of which most are shed, and that evicts more than the limit when the cache is full."""
SMALL = 2
SMALL_ONES = 8
"""Prompts that evict less than the limit, so that what goes missing then is not shed by it."""


def attack(session: Session) -> None:
    """Shed stores and have them announced; go on below them; evict a little at a time, and much at once."""
    drained = DrainedPrompts(session)
    offers = session.offers
    drained.begin()
    first, second = offers.tokens(LONG), offers.tokens(LONG)
    for prompt in (first, first, first, first, first + offers.tokens(SMALL)):
        drained.prompt(prompt)
    drained.ask()
    for prompt in (second, second + offers.tokens(SMALL)):
        drained.prompt(prompt)
    drained.ask(complete=False)
    for _ in range(SMALL_ONES):
        drained.prompt(offers.tokens(SMALL))
        drained.ask(complete=False)
    for _ in range(CAPACITY // CAP):
        drained.prompt(offers.tokens(CAP))
    drained.ask(complete=False)
    for _ in range(2):
        drained.prompt(offers.tokens(LONG))
        drained.ask(complete=False)
    drained.end()


def run(session: Session) -> None:
    """On another instance, if it takes a limit."""
    with attacked(session, "cap", Start(cap=CAP, capacity=CAPACITY), Start(cap=CAP)) as own:
        if own is not None:
            attack(own)


PROBE = Probe(
    name="cap",
    run=run,
    needs=frozenset({"fresh", "cache"}),
    serves="CHN-003 RES-003 RES-007 RES-008 RES-009",
    must_survive=("KVW-RES-007",),
    bounds=f"an entry limit of {CAP}; each prompt's effects are awaited for settle_s",
)
