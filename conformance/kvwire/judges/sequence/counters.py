"""Whether each endpoint has a counter of its own: streams that belong together, held against each other."""

from __future__ import annotations

from collections.abc import Mapping

from kvwire.history.ranges import Ranges
from kvwire.judges.area import Area, Say, judge
from kvwire.judges.verdict import Where
from kvwire.trace.instances import why_no_ranks

FEW = 3
"""Fewer batches of a stream tell nothing of its counter."""


class Counters(Area):
    """Reads the numbers of the declared streams of a run, and of ranks that the harness started."""

    memory = "O(instances)"

    def finish(self) -> None:
        if self.context.numbers:
            self.one_counter(self.context.numbers)
        ranks = self.facts.ranks
        if ranks is None:
            return
        if "rank" in self.context.header.sets:
            self.one_counter.open("the rank is handed on with each batch: the publisher does not know its own")
        elif not ranks:
            self.one_counter.open(why_no_ranks(self.context.instances))
        else:
            self.one_counter({name: Ranges.of(self.context.instances.get(name, ())) for name in ranks})

    @judge("KVW-SEQ-005")
    def one_counter(self, say: Say, streams: Mapping[str, Ranges]) -> None:
        """KVW-SEQ-005: A publisher MUST keep one counter per endpoint, shared with no other endpoint.

        A shared counter shows in holes that are filled, all of them, by numbers of the other streams, while no number
        is on two. A step without a hole, with batches on another stream, is an occasion.
        """
        for name in streams if self.facts.ranks else [self.context.stream.name]:
            own = streams[name]
            others = Ranges.union(ranges for other, ranges in streams.items() if other != name)
            if len(own) < FEW or not len(others):
                continue
            holes = own.holes
            filled = [hole for hole in holes if others.hold(hole[0] + 1, min(hole[1], hole[0] + 2**16) - 1)]
            if len(holes) > 1 and filled == holes and not own.meet(others):
                low, high = holes[0]
                say.broke(
                    f"number {low + 1} after number {low} on {name}",
                    f"number {high}; what lies between, and in each of its {len(holes)} holes, is on other streams",
                    Where(record=own.record_of(high), number=str(high)),
                )
            else:
                say.saw(len(own) - 1 - len(holes))
