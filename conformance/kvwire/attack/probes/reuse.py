"""Prompts one at a time, each when the one before has been heard of: does what is announced match what is reused?

For `kvwire doctor`, which holds the answers against the stream; no verdict rests on it, and no check runs it.
"""

from __future__ import annotations

from kvwire.attack.probes.kit.session import Probe, Session

BLOCKS = 4


def run(session: Session) -> None:
    """A prompt, again, its first half, one that goes on from it and again, one that leaves it half way, another."""
    driver, offers = session.driver, session.offers
    assert driver is not None
    first = offers.tokens(BLOCKS)
    half, longer = first[: len(first) // 2], first + offers.tokens(2, 1)
    session.settle()
    for prompt in (first, first, half, longer, longer, half + offers.tokens(2), offers.tokens(2), first):
        if session.left() <= 0:
            return
        driver.cache(prompt)
        session.settle()


PROBE = Probe(
    name="reuse",
    mode="quick",
    run=run,
    needs=frozenset({"cache"}),
    bounds="eight prompts, the longest of six blocks and a token; what each causes is awaited for settle_s",
)
