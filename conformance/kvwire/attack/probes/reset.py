"""A reset of the cache while the engine is idle: it must show by itself."""

from __future__ import annotations

import time

from kvwire.attack.probes.kit.announced import Announced
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.workload import few_prompts
from kvwire.trace.marks import ResetDone


def run(session: Session) -> None:
    """Fill, wait until idle, reset, and wait for it to show or for the declared bound; again where it does not."""
    for _ in session.attempts():
        if _reset(session):
            break
    few_prompts(session)
    session.settle()


def _reset(session: Session) -> bool:
    driver = session.driver
    assert driver is not None
    few_prompts(session)
    session.settle()
    announced = Announced(session)
    before = announced.follow().emptied
    driver.reset()
    bound = session.statement.bounds.reset_visible_s
    began = time.monotonic()
    seen = session.wait(lambda: announced.follow().emptied > before, bound)
    after = round(time.monotonic() - began, 3)
    session.mark(ResetDone(outcome="seen" if seen else "bound", after_s=after, bound_s=bound), session.driven.name)
    return seen


PROBE = Probe(
    name="reset",
    run=run,
    needs=frozenset({"cache", "reset"}),
    serves="RES-005 RES-006",
    must_survive=("KVW-RES-006",),
    bounds="the reset is awaited for the declared reset_visible_s",
)
