"""TCP connections, told apart and followed from their segments."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, Protocol

from kvwire.trace.captures.flow import SETTLE_NS, Flow, Held
from kvwire.trace.captures.layers import ACK, RST, SYN, Address, Segment

CONNECTIONS = 4096
"""How many are followed at once; beyond that the one that was silent for longest is let go."""

Side = Literal[0, 1]
"""An end of a connection."""


class Talk(Protocol):
    """What is done with what the two ends of a connection send."""

    def data(self, side: Side, data: bytes, t_ns: int) -> None:
        """A side sent these bytes next."""

    def hole(self, side: Side, length: int, t_ns: int) -> None:
        """The capture lacks so many bytes that a side sent next."""

    def closing(self, side: Side, t_ns: int) -> None:
        """A side sends nothing more: the first of the two that does so."""

    def over(self, t_ns: int) -> None:
        """Nothing more comes."""


class Connection:
    """One connection: ``ends`` are its addresses, ``dialled`` is the side that connected, where its SYN was seen.

    ``number`` counts the connections of a capture, so that two passes over it find the same.
    """

    def __init__(self, number: int, ends: tuple[Address, Address], held: Held, first_ns: int) -> None:
        self.number = number
        self.ends = ends
        self.flows = (Flow(held), Flow(held))
        self.dialled: Side | None = None
        self.talk: Talk | None = None
        self.closed = False
        self.closing_at: int | None = None
        self.reset = False
        self.first_ns = first_ns
        self.last_ns = 0

    def side_of(self, address: Address) -> Side:
        """The side with this address."""
        return 0 if address == self.ends[0] else 1


class Connections:
    """Feeds the segments of a capture to its connections; ``start`` makes what listens to a new one.

    A connection that was seen twice, before and after its addresses were translated, is one: its two ends have the same
    initial sequence numbers.
    """

    def __init__(self, start: Callable[[Connection], Talk]) -> None:
        self.count = 0
        self._start = start
        self._held = Held()
        self._open: OrderedDict[tuple[Address, Address], Connection] = OrderedDict()
        self._copies: dict[tuple[Address, Address], tuple[Connection, bool]] = {}
        self._by_isn: dict[tuple[int, int], Connection] = {}
        self._waiting: dict[int, Connection] = {}
        """Those that hold bytes back, or are about to end."""
        self._now = 0
        self._looked = 0

    def feed(self, segment: Segment) -> None:
        """Take the next segment of the capture."""
        self._now = max(self._now, segment.t_ns)
        if self._now - self._looked >= SETTLE_NS // 4:
            self._looked = self._now
            for connection in list(self._waiting.values()):
                self._go_on(connection)
        ends = (segment.source, segment.target)
        key = ends if ends[0] <= ends[1] else (ends[1], ends[0])
        if key in self._copies:
            connection, crossed = self._copies[key]
            side: Side = 0 if (segment.source == key[0]) is not crossed else 1
            if not (segment.flags & SYN) or connection.flows[side].follows(segment.seq):
                self._take(connection, side, segment)
                return
            del self._copies[key]
        found = self._open.get(key)
        if (
            found is not None
            and segment.flags & SYN
            and not found.flows[found.side_of(segment.source)].follows(segment.seq)
        ):
            self._let_go(key)
            found = None
        if found is None:
            if segment.flags & RST or (segment.length == 0 and not segment.flags & SYN):
                return  # the rest of a connection of which nothing can be read
            found = self._new(key)
        self._open.move_to_end(key)
        side = found.side_of(segment.source)
        if segment.flags & SYN and self._copied(key, found, side, segment):
            return
        self._take(found, side, segment)

    def finish(self) -> None:
        """The capture ends."""
        while self._open:
            self._let_go(next(iter(self._open)))

    def _new(self, key: tuple[Address, Address]) -> Connection:
        if len(self._open) >= CONNECTIONS:
            self._let_go(next(iter(self._open)))
        connection = Connection(self.count, key, self._held, self._now)
        self.count += 1
        connection.talk = self._start(connection)
        self._open[key] = connection
        return connection

    def _copied(self, key: tuple[Address, Address], found: Connection, side: Side, segment: Segment) -> bool:
        """Whether a SYN shows that a connection is another one under other addresses; it is forgotten then."""
        if not segment.flags & ACK:
            found.dialled = side
        else:
            found.dialled = 1 if side == 0 else 0
        isns = [flow.isn for flow in found.flows]
        isns[side] = segment.seq
        dialler, listener = isns[found.dialled], isns[1 - found.dialled]
        if dialler is None or listener is None:
            return False
        first = self._by_isn.setdefault((dialler, listener), found)
        if first is found or first.closed or first.dialled is None or segment.t_ns - first.last_ns > SETTLE_NS:
            return False
        self._copies[key] = (first, first.dialled != found.dialled)
        del self._open[key]
        found.closed = True
        self._waiting.pop(found.number, None)
        for flow in found.flows:
            flow.drop()
        return True

    def _take(self, connection: Connection, side: Side, segment: Segment) -> None:
        if connection.closed:
            return
        flow, other = connection.flows[side], connection.flows[1 - side]
        connection.last_ns = max(connection.last_ns, segment.t_ns)
        flow.put(segment)
        connection.reset = connection.reset or bool(segment.flags & RST)
        if segment.ack is not None:
            other.acknowledged(segment.ack, segment.t_ns)
        self._go_on(connection)

    def _go_on(self, connection: Connection) -> None:
        """Hand on what time has made certain."""
        self._hand_on(connection, last=False)
        if connection.closing_at is None:
            if any(flow.waits for flow in connection.flows):
                self._waiting[connection.number] = connection
            else:
                self._waiting.pop(connection.number, None)
            return
        self._waiting[connection.number] = connection
        both = all(flow.over for flow in connection.flows)
        if both or connection.reset or self._now - connection.closing_at >= SETTLE_NS:
            self._end(connection)

    def _hand_on(self, connection: Connection, *, last: bool) -> None:
        talk = connection.talk
        assert talk is not None
        moved, heedless = True, False
        while moved or (last and not heedless):
            heedless = last and not moved
            moved = False
            for side in SIDES:
                flow, other = connection.flows[side], connection.flows[1 - side]
                for piece in flow.take(self._now, other, last=last, heedless=heedless):
                    moved = True
                    if piece.hole:
                        talk.hole(side, piece.hole, piece.t_ns)
                    elif piece.data:
                        talk.data(side, piece.data, piece.t_ns)
            for side in SIDES:
                flow, other = connection.flows[side], connection.flows[1 - side]
                if flow.over and connection.closing_at is None and not flow.answers_end(other):
                    connection.closing_at = self._now
                    talk.closing(side, flow.last_ns)

    def _end(self, connection: Connection) -> None:
        """Hand on what is left; what comes later is a repetition."""
        assert connection.talk is not None
        self._hand_on(connection, last=True)
        for flow in connection.flows:
            flow.drop()
        connection.closed = True
        self._waiting.pop(connection.number, None)
        connection.talk.over(self._now)

    def _let_go(self, key: tuple[Address, Address]) -> None:
        connection = self._open.pop(key)
        isns = [flow.isn for flow in connection.flows]
        if connection.dialled is not None and None not in isns:
            self._by_isn.pop((isns[connection.dialled] or 0, isns[1 - connection.dialled] or 0), None)
        for copy in [copy for copy, (of, _) in self._copies.items() if of is connection]:
            del self._copies[copy]
        if not connection.closed:
            self._end(connection)


SIDES: tuple[Side, Side] = (0, 1)
