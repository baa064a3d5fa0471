"""Rank: which cache a stream describes (spec/rank.md)."""

from __future__ import annotations

from kvwire.events import Flaw
from kvwire.judges.area import Area, Context, at_batch, at_element, judge
from kvwire.timeline import Batch


class Rank(Area):
    """Reads the third element of every distinct batch."""

    name = "rank"

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
            self.declared(batch, batch.reading.rank)

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
    def declared(self, batch: Batch, rank: int) -> None:
        """KVW-RNK-003: A publisher MUST send as rank the rank whose cache the stream describes, as declared for the
        stream.

        Without a declared rank there is no occasion to break it.
        """
        declared = self.context.stream.rank
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
