"""What became of the instances of a publisher that the harness started: read back from the records of a trace.

A ``start`` is followed, on the stream of its instance, by what the harness then looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import msgspec

from kvwire.trace.attempts import NEVER, Stalls, Wait, sure
from kvwire.trace.calls import BoundAt, StartCall, StopCall
from kvwire.trace.marks import Looked, Ports, ProcessExit, Reach
from kvwire.trace.records import Records
from kvwire.wire.endpoint_rules import Asked

ADAPTER = "adapter:"
"""How a refusal begins that is the adapter's own."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """One ``start`` of an instance and what came of it.

    ``bound`` is the answer of an accepted one; ``refused`` or ``error`` the text of another. ``touched``: whether a
    directory that only the endpoints lie in was changed by it, None when it was not looked at. ``free``: whether the
    harness could bind the ports itself after a refusal. ``ended`` is the record of the stop or death after it.
    """

    record: int
    instance: str
    asked: Asked
    bound: BoundAt | None
    refused: str | None
    error: str | None
    reached: tuple[tuple[Reach, Wait], ...]
    touched: bool | None
    free: bool | None
    ended: int | None = None

    @property
    def by_adapter(self) -> bool:
        """Whether the refusal is the adapter's own and says nothing of the publisher."""
        return self.refused is not None and self.refused.startswith(ADAPTER)

    def handshake(self, endpoint: str) -> bool | None:
        """Whether a client of ours got to an endpoint; None when none tried, or too few times to be sure."""
        mine = [(reach, wait) for reach, wait in self.reached if reach.endpoint == endpoint]
        if any(reach.done for reach, _ in mine):
            return True
        return False if sure(wait for _, wait in mine) else None


def begun(instance: str, records: Records, stalls: Stalls = NEVER) -> tuple[Begun, ...]:
    """Every ``start`` of one stream, in order; ``stalls`` are those of the harness."""
    stalls = stalls.beside(Stalls(records))
    at = [position for position, (_, record) in enumerate(records) if isinstance(record.detail, StartCall)]
    spans = itertools.pairwise([*at, len(records)])
    return tuple(_one(instance, records[first:after], stalls) for first, after in spans)


def _one(instance: str, records: Records, stalls: Stalls) -> Begun:
    index, start = records[0][0], records[0][1].detail
    assert isinstance(start, StartCall)
    reached: list[tuple[Reach, Wait]] = []
    touched = free = None
    ended: int | None = None
    for at, record in records[1:]:
        match record.detail:
            case StopCall() | ProcessExit() if ended is None:
                ended = at
            case Reach() as reach:
                reached.append((reach, stalls.wait(record, reach.bound_s)))
            case Looked() as looked:
                touched = looked.changed
            case Ports() as ports:
                free = ports.free
    return Begun(
        record=index,
        instance=instance,
        asked=start.asked,
        bound=start.bound,
        refused=start.refused,
        error=start.error or start.unsupported,
        reached=tuple(reached),
        touched=touched,
        free=free,
        ended=ended,
    )


def why_no_ranks(instances: Mapping[str, Records]) -> str:
    """Why no ranks of one deployment could be started: the last refusal."""
    refusals = [
        start.refused
        for name, records in instances.items()
        for start in begun(name, records)
        if start.refused is not None and start.asked.world > 1
    ]
    return f"no ranks could be started: {refusals[-1]}" if refusals else "no ranks could be started"
