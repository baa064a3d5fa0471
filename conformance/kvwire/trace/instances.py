"""What became of the instances of a publisher that the harness started: read back from the records of a trace.

A ``start`` is followed, on the stream of its instance, by what the harness then looked at, each a stimulus record:
``reach`` {endpoint, socket, outcome: handshake | none, bound_s} for a client of ours; ``looked`` {changed} whether the
private directory of the endpoints was touched; ``ports`` {free} whether the harness could bind the ports itself after a
refusal; ``freed`` {endpoint, outcome: free | held | taken, bound_s} after a stop. ``place`` records, of source
``harness``, say who can come to an endpoint: {endpoint, listening, addresses, private}; ``default`` marks one that is
declared and not bound. ``burst-begins`` marks what is accepted just before a stop, ``ranks`` {members} on the stream
under test which instances are ranks of one deployment, by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kvwire.trace.records import Record, Source
from kvwire.wire.endpoint_rules import Asked, asked

ADAPTER = "adapter:"
"""How a refusal begins that is the adapter's own."""

Records = Sequence[tuple[int, Record]]


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """A client of ours at an endpoint: whether a handshake came about within the bound."""

    record: int
    endpoint: str
    done: bool
    bound_s: float


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """One ``start`` of an instance and what came of it.

    ``bound`` is the answer of an accepted one; ``refused`` or ``error`` the text of another. ``touched``: whether a
    directory that only the endpoints lie in was changed by it, None when it was not looked at. ``free``: whether the
    harness could bind the ports itself after a refusal.
    """

    record: int
    instance: str
    asked: Asked
    bound: Mapping[str, Any] | None
    refused: str | None
    error: str | None
    reached: tuple[Reach, ...]
    touched: bool | None
    free: bool | None

    @property
    def by_adapter(self) -> bool:
        """Whether the refusal is the adapter's own and says nothing of the publisher."""
        return self.refused is not None and self.refused.startswith(ADAPTER)

    def handshake(self, endpoint: str) -> bool | None:
        """Whether a client of ours got to an endpoint; None when none tried."""
        tries = [reach.done for reach in self.reached if reach.endpoint == endpoint]
        return any(tries) if tries else None


def begun(instance: str, records: Records) -> tuple[Begun, ...]:
    """Every ``start`` of one stream, in order."""
    marks = [(index, record) for index, record in records if record.source == Source.STIMULUS]
    at = [position for position, (_, record) in enumerate(marks) if record.event == "start"]
    return tuple(_one(instance, marks[first:after]) for first, after in itertools.pairwise([*at, len(marks)]))


def _one(instance: str, marks: Records) -> Begun:
    index, start = marks[0]
    detail = start.detail
    reached: list[Reach] = []
    touched = free = None
    for record, mark in marks[1:]:
        if mark.event == "reach":
            done = mark.detail["outcome"] == "handshake"
            bound_s = float(mark.detail["bound_s"])
            reached.append(Reach(record=record, endpoint=mark.detail["endpoint"], done=done, bound_s=bound_s))
        elif mark.event == "looked":
            touched = bool(mark.detail["changed"])
        elif mark.event == "ports":
            free = bool(mark.detail["free"])
    bound = detail.get("bound")
    return Begun(
        record=index,
        instance=instance,
        asked=asked(detail),
        bound=bound if isinstance(bound, Mapping) else None,
        refused=detail.get("refused"),
        error=detail.get("error") or detail.get("unsupported"),
        reached=tuple(reached),
        touched=touched,
        free=free,
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


SILENCE = 10
"""How many batches of the others after a stream's last one make it worth a word."""


def fell_silent(streams: Mapping[str, Records]) -> dict[str, str]:
    """Of streams that belong together those that stopped while others went on, and a sentence about each.

    On the wire an idle rank, one that hangs and one that lost its publisher look the same, so that this is no verdict.
    """
    last: dict[str, int] = {}
    live: list[tuple[int, str]] = []
    for name, records in streams.items():
        heard = [index for index, record in records if record.is_live]
        live += [(index, name) for index in heard]
        if heard:
            last[name] = heard[-1]
    said: dict[str, str] = {}
    for name, end in last.items():
        after = [other for index, other in live if index > end and other != name]
        if len(after) >= SILENCE:
            others = ", ".join(sorted(set(after)))
            said[name] = (
                f"{name} stopped (record {end} was its last), while {others} went on: {len(after)} messages more"
            )
    return said
