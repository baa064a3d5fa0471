"""One direction of a TCP connection: its bytes in order, whatever the order, copies and losses of its segments.

A hole is what the capture lacks for certain: the receiver has acknowledged it, or nothing filled it for long, or what
came behind it is more than is held.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import NamedTuple

from kvwire.trace.captures.layers import FIN, RST, SYN, Segment

SETTLE_NS = 1_000_000_000
"""For how long the order of packets in a capture may differ from that on the wire."""
PATIENCE_NS = 60_000_000_000
"""For how long a repetition is awaited where no acknowledgement is seen."""
HELD_BYTES = 4 << 20
"""How much is held behind a hole of one direction …"""
ALL_HELD_BYTES = 64 << 20
"""… and of all of them together, before the hole is taken for one."""
SEGMENT_COST = 128
"""What a held segment takes beside its bytes, roughly."""
_HALF, _WHOLE = 1 << 31, 1 << 32


class Part(NamedTuple):
    """The bytes of a segment, when it was captured, and what its sender had of the other direction, if it said so."""

    data: bytes
    t_ns: int
    ack: int | None


class Piece(NamedTuple):
    """Bytes in order, or the length of a hole before what was captured at ``t_ns``, or neither."""

    t_ns: int
    data: bytes = b""
    hole: int = 0


class Held:
    """How much is held in all directions of a capture."""

    def __init__(self, bound: int = ALL_HELD_BYTES) -> None:
        self.bound = bound
        self.bytes = 0


class Flow:
    """One direction. Positions are unbounded: the sequence numbers of TCP, which wrap, are counted on.

    ``first`` is the position of its first byte, None until it is known: from its SYN or, where that was not seen, once
    what came first has settled. ``whole``: it was seen from its SYN on. ``begun``: bytes were handed on. ``end`` is
    where it ends, once that was said, and ``over`` whether it has come to it.
    """

    def __init__(self, held: Held) -> None:
        self.isn: int | None = None
        self.begun = False
        self.end: int | None = None
        self._end_ack: int | None = None
        self.over = False
        self._conceded = self._conceded_ns = 0
        """Up to here it was acknowledged, and awaited in vain."""
        self.absent = False
        """It was awaited in vain: the capture lacks it, or it is silent."""
        self.last_ns = 0
        self._next: int | None = None
        self._near = 0
        """A position near which sequence numbers are taken to be."""
        self._seen = False
        self._starts: list[int] = []
        self._parts: list[Part] = []
        self._own = 0
        self._held = held
        self._waits_since: int | None = None
        self._acked: int | None = None
        self._acked_at: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it was seen from its beginning."""
        return self.isn is not None

    @property
    def waits(self) -> bool:
        """Whether bytes are held back."""
        return bool(self._starts)

    def follows(self, isn: int) -> bool:
        """Whether a SYN with this number can be that of this direction."""
        if self.isn is not None:
            return self.isn == isn
        if not self._seen:
            return True
        if self.begun:
            return False
        return not self._starts or 0 <= self._starts[0] - self._position(isn + 1) <= HELD_BYTES

    def put(self, segment: Segment) -> None:
        """Take a segment."""
        self.last_ns = max(self.last_ns, segment.t_ns)
        seq = segment.seq
        if segment.flags & SYN:
            seq = (seq + 1) % _WHOLE
            if self.isn is None:
                self.isn = segment.seq
                self._near = self._next = self._position(seq) if self._seen else seq
                self._seen = True
        elif not self._seen:
            self._near, self._seen = seq, True
        at = self._position(seq)
        if segment.flags & (FIN | RST):
            end = at + segment.length
            self.end = end if self.end is None else min(self.end, end)
            self._end_ack = segment.ack
        if segment.payload:
            self._hold(at, Part(segment.payload, segment.t_ns, segment.ack))
            if self._waits_since is None:
                self._waits_since = segment.t_ns

    def acknowledged(self, number: int, t_ns: int) -> None:
        """Its receiver has everything below this number."""
        if not self._seen:
            return
        at = self._position(number)
        if self._acked is None or at > self._acked:
            self._acked = at
        if self._next is not None and self._acked_at is None and self._acked > self._next:
            self._acked_at = t_ns

    def lacks(self, ack: int | None) -> bool:
        """Whether something that was acknowledged has not been handed on."""
        known = self._starts[0] if self._next is None and self._starts else self._next
        if ack is None or known is None:
            return ack is not None and not self.absent and self._next is None
        at = self._position(ack)
        return (at if self.end is None else min(at, self.end)) > known  # a FIN takes a number of its own

    def concede(self, part: Part) -> bool:
        """What was acknowledged and awaited in vain is missing; whether that is to be said yet."""
        if part.ack is None or self._next is None:
            self.absent = True
            return False
        if self._starts:
            return False
        at = self._position(part.ack)
        self._conceded_ns = part.t_ns
        self._conceded = at if self.end is None else min(at, self.end)
        return self._conceded > self._next

    def _position(self, seq: int) -> int:
        return self._near + (seq - self._near + _HALF) % _WHOLE - _HALF

    def _hold(self, at: int, part: Part) -> None:
        if self._next is not None and at + len(part.data) <= self._next:
            return
        index = bisect.bisect_left(self._starts, at)
        if index < len(self._starts) and self._starts[index] == at:
            if len(self._parts[index].data) >= len(part.data):
                return
            self._remove(index)
        self._starts.insert(index, at)
        self._parts.insert(index, part)
        self._count(len(part.data) + SEGMENT_COST)

    def _remove(self, index: int) -> None:
        self._count(-len(self._parts[index].data) - SEGMENT_COST)
        del self._starts[index], self._parts[index]

    def _count(self, size: int) -> None:
        self._own += size
        self._held.bytes += size

    def take(self, now: int, other: Flow, *, last: bool = False, heedless: bool = False) -> Iterator[Piece]:
        """What is in order by now; ``last``: nothing more will come.

        What was sent after something of the ``other`` direction had arrived comes after it, unless ``heedless``.
        """
        if self._next is None:
            settled = self._waits_since is not None and now - self._waits_since >= SETTLE_NS
            if not self._starts or not (last or settled or self._full):
                return
            self._next = self._starts[0]
        moved = False
        if not self._starts and self._conceded > self._next:
            yield Piece(self._conceded_ns, hole=self._conceded - self._next)
            self._next = self._conceded
        while self._starts:
            at = self._starts[0]
            if at > self._next:
                if not (last or self._full or self._certain(now)):
                    break
                yield Piece(self._parts[0].t_ns, hole=at - self._next)
                self._next = at
            if other.lacks(self._parts[0].ack):
                if not (heedless or self._full or self._stands(now)):
                    break
                if other.concede(self._parts[0]):
                    yield Piece(self._parts[0].t_ns)  # the other direction says first what it lacks
                    break
            part = self._parts[0]
            self._remove(0)
            data = part.data[self._next - at :]
            if data:
                self._next += len(data)
                self._near = self._next
                self.begun = moved = True
                yield Piece(part.t_ns, data)
        if moved:
            self._waits_since = now if self._starts else None
            self._acked_at = now if self._acked is not None and self._acked > self._next else None
        ended = self.end is not None and self._next >= self.end
        self.over = ended and (heedless or not other.lacks(self._end_ack))

    @property
    def _full(self) -> bool:
        return self._own > HELD_BYTES or self._held.bytes > self._held.bound

    def answers_end(self, other: Flow) -> bool:
        """Whether its end was said after that of the other direction had arrived."""
        return self._end_ack is not None and other.end is not None and other._position(self._end_ack) > other.end

    def _stands(self, now: int) -> bool:
        """Whether the other direction was awaited long enough."""
        return self._waits_since is not None and now - self._waits_since >= 2 * SETTLE_NS

    def _certain(self, now: int) -> bool:
        """Whether the hole that comes next is one."""
        if self._acked_at is not None and now - self._acked_at >= SETTLE_NS:
            return True
        return self._waits_since is not None and now - self._waits_since >= PATIENCE_NS

    def drop(self) -> None:
        """Hold nothing any more."""
        self._count(-self._own)
        self._starts.clear()
        self._parts.clear()
