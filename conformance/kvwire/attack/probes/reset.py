"""A reset of the cache while the engine is idle: it must show by itself."""

from __future__ import annotations

import time

from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.workload import few_prompts
from kvwire.trace.marks import ResetDone
from kvwire.wire.dialect import read
from kvwire.wire.framing import split_live


class _Announced:
    """What stands announced on the driven stream, as one witness saw it: only to know when to stop waiting."""

    def __init__(self, session: Session) -> None:
        self._records = session.recorder.records
        self._stream = session.driven.name
        self._source = session.recorder.witnesses(self._stream)[0]
        self._read = 0
        self._held: set[tuple[str | None, int, int]] = set()
        self.emptied = 0
        """How often it became empty."""

    def follow(self) -> int:
        """Read what is new; return how often everything was gone so far."""
        for record in self._records[self._read :]:
            if record.source == self._source and record.stream == self._stream and record.frames is not None:
                parts = split_live(record.frames)
                if parts is not None:
                    self._apply(parts[1])
        self._read = len(self._records)
        return self.emptied

    def _apply(self, payload: bytes) -> None:
        for event in read(payload).events:
            keys = {(event.medium, event.group, value) for value in event.hashes}
            if event.kind == "stored":
                self._held |= keys
            elif event.kind == "cleared":
                self._held.clear()
                self.emptied += 1
            elif event.kind == "removed" and self._held:
                self._held -= keys
                self.emptied += not self._held


def run(session: Session) -> None:
    """Fill, wait until idle, reset, and wait for it to show or for the declared bound."""
    driver = session.driver
    assert driver is not None
    few_prompts(session)
    session.settle()
    announced = _Announced(session)
    before = announced.follow()
    driver.reset()
    bound = session.statement.bounds.reset_visible_s
    began = time.monotonic()
    seen = session.wait(lambda: announced.follow() > before, bound)
    after = round(time.monotonic() - began, 3)
    session.mark(ResetDone(outcome="seen" if seen else "bound", after_s=after, bound_s=bound), session.driven.name)
    few_prompts(session)
    session.settle()


PROBE = Probe(
    name="reset",
    run=run,
    needs=frozenset({"cache", "reset"}),
    serves="RES-005 RES-006",
    must_survive=("KVW-RES-006",),
    bounds="the reset is awaited for the declared reset_visible_s",
)
