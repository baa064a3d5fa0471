"""Rank: which cache a stream describes, and that each has a stream of its own (spec/rank.md).

Ranks that belong together are the declared streams of a run, or the instances that the harness started as ranks of one
deployment, each with tokens of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from kvwire.history import timeline as timelines
from kvwire.history.timeline import Batch
from kvwire.judges.area import Area, Context, Say, at_batch, at_element, judge, unless
from kvwire.judges.verdict import Where
from kvwire.trace.instances import begun, fell_silent, why_no_ranks
from kvwire.trace.records import Records
from kvwire.trace.stimuli import offers, prompts
from kvwire.wire.events import Event, Flaw


class Rank(Area):
    """Reads the third element of every distinct batch, and holds streams that belong together against each other."""

    memory = "O(instances)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.first: tuple[int, int] | None = None

    def on_batch(self, batch: Batch) -> None:
        flaws = {flaw.code: flaw for flaw in batch.reading.flaws}
        if flaws.keys() & {"msgpack", "limit", "batch"}:
            return
        self.in_range(batch, flaws.get("rank"))
        if batch.reading.rank is not None:
            self.constant(batch, batch.reading.rank)
            self.declared(batch, batch.reading.rank, self.context.stream.rank)

    def finish(self) -> None:
        ranks = self.facts.ranks
        if ranks is None or "rank" in self.context.header.sets:
            return
        if not ranks:
            self.one_stream_each.open(why_no_ranks(self.context.instances))
            return
        members = {name: self.context.instances.get(name, ()) for name in ranks}
        batches = {name: _batches(records) for name, records in members.items()}
        for name, found in batches.items():
            for batch in found:
                if batch.reading.rank is not None:
                    self.declared(batch, batch.reading.rank, ranks[name])
        self.one_stream_each(members, batches)
        for said in fell_silent({f"rank {ranks[name]}": found for name, found in members.items()}).values():
            self.one_stream_each.note(said)

    @judge("KVW-RNK-001", memory="O(1)")
    def in_range(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-RNK-001: A publisher MUST send the rank as an integer in 0…2^31−1, never nil."""
        say.weigh(batch, flaw)

    @judge("KVW-RNK-002", memory="O(1)")
    def constant(self, say: Say, batch: Batch, rank: int) -> None:
        """KVW-RNK-002: A publisher MUST send the same rank in every batch of a stream."""
        if self.first is None:
            self.first = (rank, batch.number)
        elif rank == self.first[0]:
            say.saw()
        else:
            say.broke(
                f"rank {self.first[0]}, as in number {self.first[1]}",
                f"rank {rank}",
                at_element(batch, 2),
            )

    @judge("KVW-RNK-003", unclaimed=unless(lambda stream, _: stream.rank is not None), memory="O(1)")
    def declared(self, say: Say, batch: Batch, rank: int, declared: int | None) -> None:
        """KVW-RNK-003: A publisher MUST send as rank the rank whose cache the stream describes, as declared for the
        stream.

        Without a declared rank there is no occasion to break it. That of another instance is the one it was started as.
        """
        if declared is None:
            return
        if rank == declared:
            say.saw()
        else:
            say.broke(
                f"rank {declared}, as declared for the stream",
                f"rank {rank}",
                at_element(batch, 2),
            )

    @judge("KVW-RNK-004")
    def one_stream_each(self, say: Say, members: Mapping[str, Records], batches: Mapping[str, Sequence[Batch]]) -> None:
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
                    say.saw()
                else:
                    say.broke(
                        f"blocks of rank {self._rank(name)} on its stream",
                        f"a block of rank {self._rank(whose)}",
                        at_batch(batch, event=event),
                    )
        silent = [name for name in members if name not in shown and name in owners.values()]
        for name in silent:
            if not shown:
                say.open("no block of any rank was seen")
            elif not any(reach.done for start in begun(name, members[name]) for reach in start.reached):
                say.open(f"no handshake with rank {self._rank(name)}")
            else:
                say.broke(
                    f"a stream of rank {self._rank(name)}, which took work, with its blocks",
                    "no block on it, while other ranks announce theirs",
                    Where(record=members[name][-1][0]),
                )

    def _rank(self, name: str) -> int:
        return (self.facts.ranks or {}).get(name, -1)


def _batches(records: Records) -> list[Batch]:
    return [batch for life in timelines.build(records).incarnations for batch in life.batches]


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
