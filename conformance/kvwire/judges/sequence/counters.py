"""Whether each endpoint has a counter of its own: streams that belong together, held against each other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from kvwire.judges.area import Area, Context, Say, judge
from kvwire.judges.verdict import Where
from kvwire.trace.instances import why_no_ranks
from kvwire.trace.records import Record, Records
from kvwire.wire.framing import split_live

FEW = 3
"""Fewer batches of a stream tell nothing of its counter."""


class Counters(Area):
    """Reads the numbers of the declared streams of a run, and of ranks that the harness started."""

    memory = "O(instances)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.own: list[tuple[int, Record]] = []

    def on_record(self, index: int, record: Record) -> None:
        if record.is_live and self.context.siblings:
            self.own.append((index, record))

    def finish(self) -> None:
        if self.context.siblings:
            self.one_counter({self.context.stream.name: self.own, **self.context.siblings})
        ranks = self.facts.ranks
        if ranks is None:
            return
        if "rank" in self.context.header.sets:
            self.one_counter.open("the rank is handed on with each batch: the publisher does not know its own")
        elif not ranks:
            self.one_counter.open(why_no_ranks(self.context.instances))
        else:
            self.one_counter({name: self.context.instances.get(name, ()) for name in ranks})

    @judge("KVW-SEQ-005")
    def one_counter(self, say: Say, streams: Mapping[str, Records]) -> None:
        """KVW-SEQ-005: A publisher MUST keep one counter per endpoint, shared with no other endpoint.

        A shared counter shows in holes that are filled, all of them, by numbers of the other streams, while no number
        is on two. A step without a hole, with batches on another stream, is an occasion.
        """
        numbers = {name: _numbers(records) for name, records in streams.items()}
        for name in streams if self.facts.ranks else [self.context.stream.name]:
            own = numbers[name]
            others = set[int]().union(*(found for other, found in numbers.items() if other != name))
            if len(own) < FEW or not others:
                continue
            ascending = sorted(own)
            holes = [(low, high) for low, high in itertools.pairwise(ascending) if high > low + 1]
            filled = [hole for hole in holes if others.issuperset(range(hole[0] + 1, min(hole[1], hole[0] + 2**16)))]
            if len(holes) > 1 and filled == holes and not own.keys() & others:
                low, high = holes[0]
                say.broke(
                    f"number {low + 1} after number {low} on {name}",
                    f"number {high}; what lies between, and in each of its {len(holes)} holes, is on other streams",
                    Where(record=own[high], number=str(high)),
                )
            else:
                say.saw(len(ascending) - 1 - len(holes))


def _numbers(records: Records) -> dict[int, int]:
    """The numbers that came live, each with the first record that held it."""
    found: dict[int, int] = {}
    for index, record in records:
        if record.is_live and record.frames is not None and (parts := split_live(record.frames)) is not None:
            found.setdefault(parts[0], index)
    return found
