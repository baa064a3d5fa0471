"""Rank: which cache a stream describes, and that each has a stream and a counter of its own (spec/rank.md).

Ranks that belong together are the declared streams of a run, or the instances that the harness started as ranks of one
deployment, each with tokens of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from kvwire.history import timeline as timelines
from kvwire.history.timeline import Batch
from kvwire.judges.area import Area, Context, at_batch, at_element, judge
from kvwire.judges.verdict import Where
from kvwire.trace.instances import begun, fell_silent
from kvwire.trace.marks import Ranks
from kvwire.trace.records import Record, Records
from kvwire.trace.stimuli import offers, prompts
from kvwire.wire.events import Event, Flaw
from kvwire.wire.framing import split_live

FEW = 3
"""Fewer batches of a stream tell nothing of its counter."""


class Rank(Area):
    """Reads the third element of every distinct batch, and holds streams that belong together against each other."""

    name = "rank"
    memory = "O(instances)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.first: tuple[int, int] | None = None
        self.own: list[tuple[int, Record]] = []
        self.members: Mapping[str, int] | None = None

    def on_record(self, index: int, record: Record) -> None:
        if record.is_live and self.context.siblings:
            self.own.append((index, record))
        elif isinstance(record.detail, Ranks):
            self.members = record.detail.members

    def on_batch(self, batch: Batch) -> None:
        flaws = {flaw.code: flaw for flaw in batch.reading.flaws}
        if flaws.keys() & {"msgpack", "limit", "batch"}:
            return
        self.in_range(batch, flaws.get("rank"))
        if batch.reading.rank is not None:
            self.constant(batch, batch.reading.rank)
            self.declared(batch, batch.reading.rank, self.context.stream.rank)

    def finish(self) -> None:
        if self.context.siblings:
            self.one_counter({self.context.stream.name: self.own, **self.context.siblings})
        if self.members is None:
            return
        if "rank" in self.context.header.sets:
            self.open("KVW-SEQ-005", "the rank is handed on with each batch: the publisher does not know its own")
            return
        members = {name: self.context.instances.get(name, ()) for name in self.members}
        if not members:
            why = self._why_no_ranks()
            self.open("KVW-RNK-004", why)
            self.open("KVW-SEQ-005", why)
            return
        batches = {name: _batches(records) for name, records in members.items()}
        for name, found in batches.items():
            for batch in found:
                if batch.reading.rank is not None:
                    self.declared(batch, batch.reading.rank, self.members[name])
        self.one_counter(members)
        self.one_stream_each(members, batches)
        for said in fell_silent({f"rank {self._rank(name)}": found for name, found in members.items()}).values():
            self.note("KVW-RNK-004", said)

    def _why_no_ranks(self) -> str:
        """Why no ranks could be started: the last refusal."""
        refusals = [
            start.refused
            for name, records in self.context.instances.items()
            for start in begun(name, records)
            if start.refused is not None and start.asked.world > 1
        ]
        return f"no ranks could be started: {refusals[-1]}" if refusals else "no ranks could be started"

    @judge("KVW-RNK-001")
    def in_range(self, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-RNK-001: A publisher MUST send the rank as an integer in 0…2^31−1, never nil."""
        if flaw is None:
            self.saw("KVW-RNK-001")
        else:
            self.broke("KVW-RNK-001", flaw.expected, flaw.seen, at_batch(batch, flaw))

    @judge("KVW-RNK-002")
    def constant(self, batch: Batch, rank: int) -> None:
        """KVW-RNK-002: A publisher MUST send the same rank in every batch of a stream."""
        if self.first is None:
            self.first = (rank, batch.number)
        elif rank == self.first[0]:
            self.saw("KVW-RNK-002")
        else:
            self.broke(
                "KVW-RNK-002",
                f"rank {self.first[0]}, as in number {self.first[1]}",
                f"rank {rank}",
                at_element(batch, 2),
            )

    @judge("KVW-RNK-003")
    def declared(self, batch: Batch, rank: int, declared: int | None) -> None:
        """KVW-RNK-003: A publisher MUST send as rank the rank whose cache the stream describes, as declared for the
        stream.

        Without a declared rank there is no occasion to break it. That of another instance is the one it was started as.
        """
        if declared is None:
            return
        if rank == declared:
            self.saw("KVW-RNK-003")
        else:
            self.broke(
                "KVW-RNK-003",
                f"rank {declared}, as declared for the stream",
                f"rank {rank}",
                at_element(batch, 2),
            )

    @judge("KVW-SEQ-005")
    def one_counter(self, streams: Mapping[str, Records]) -> None:
        """KVW-SEQ-005: A publisher MUST keep one counter per endpoint, shared with no other endpoint.

        A shared counter shows in holes that are filled, all of them, by numbers of the other streams, while no number
        is on two. A step without a hole, with batches on another stream, is an occasion.
        """
        numbers = {name: _numbers(records) for name, records in streams.items()}
        for name in streams if self.members else [self.context.stream.name]:
            own = numbers[name]
            others = set[int]().union(*(found for other, found in numbers.items() if other != name))
            if len(own) < FEW or not others:
                continue
            ascending = sorted(own)
            holes = [(low, high) for low, high in itertools.pairwise(ascending) if high > low + 1]
            filled = [hole for hole in holes if others.issuperset(range(hole[0] + 1, min(hole[1], hole[0] + 2**16)))]
            if len(holes) > 1 and filled == holes and not own.keys() & others:
                low, high = holes[0]
                self.broke(
                    "KVW-SEQ-005",
                    f"number {low + 1} after number {low} on {name}",
                    f"number {high}; what lies between, and in each of its {len(holes)} holes, is on other streams",
                    Where(record=own[high], number=str(high)),
                )
            else:
                self.saw("KVW-SEQ-005", len(ascending) - 1 - len(holes))

    @judge("KVW-RNK-004")
    def one_stream_each(self, members: Mapping[str, Records], batches: Mapping[str, Sequence[Batch]]) -> None:
        """KVW-RNK-004: A publisher for several ranks that have caches of their own MUST use one stream per rank.

        Tokens tell whose block it is, as each rank was offered others. A rank that took work and whose own stream
        carries none of it, while another's carries blocks, has no stream.
        """
        owners = _owners(members)
        shown: set[str] = set()
        for name, found in batches.items():
            for batch, event in ((b, e) for b in found for e in b.reading.events if e.kind == "stored"):
                whose = _whose(event, owners)
                if whose is None:
                    continue
                shown.add(name)
                if whose == name:
                    self.saw("KVW-RNK-004")
                else:
                    self.broke(
                        "KVW-RNK-004",
                        f"blocks of rank {self._rank(name)} on its stream",
                        f"a block of rank {self._rank(whose)}",
                        at_batch(batch, event=event),
                    )
        silent = [name for name in members if name not in shown and name in owners.values()]
        for name in silent:
            if not shown:
                self.open("KVW-RNK-004", "no block of any rank was seen")
            elif not any(reach.done for start in begun(name, members[name]) for reach in start.reached):
                self.open("KVW-RNK-004", f"no handshake with rank {self._rank(name)}")
            else:
                self.broke(
                    "KVW-RNK-004",
                    f"a stream of rank {self._rank(name)}, which took work, with its blocks",
                    "no block on it, while other ranks announce theirs",
                    Where(record=members[name][-1][0]),
                )

    def _rank(self, name: str) -> int:
        return (self.members or {}).get(name, -1)


def _batches(records: Records) -> list[Batch]:
    return [batch for life in timelines.build(records).incarnations for batch in life.batches]


def _numbers(records: Records) -> dict[int, int]:
    """The numbers that came live, each with the first record that held it."""
    found: dict[int, int] = {}
    for index, record in records:
        if record.is_live and record.frames is not None and (parts := split_live(record.frames)) is not None:
            found.setdefault(parts[0], index)
    return found


def _owners(members: Mapping[str, Records]) -> dict[int | bytes, str]:
    """Token → the one instance that was offered it."""
    owners: dict[int | bytes, str] = {}
    shared: set[int | bytes] = set()
    for name, records in members.items():
        prompted = (prompt.tokens for prompt in prompts(records))
        taken = (offer.events for offer in offers(records) if not offer.failed)
        offered = (event.get("token_ids") or () for events in taken for event in events)
        for token in itertools.chain(*prompted, *offered):
            if owners.setdefault(token, name) != name:
                shared.add(token)
    return {token: name for token, name in owners.items() if token not in shared}


def _whose(event: Event, owners: Mapping[int | bytes, str]) -> str | None:
    """Whose block an event announces; None when its tokens do not tell."""
    names = {owners.get(token) if isinstance(token, int) else None for token in event.tokens}
    return names.pop() if len(names) == 1 else None
