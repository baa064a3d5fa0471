"""What the two peers of a connection say to each other, and which of them publishes."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from kvwire.trace.captures.connections import SIDES, Connection, Side
from kvwire.trace.captures.layers import Address, shown
from kvwire.trace.captures.zmtp import ROW, Command, Foreign, Kv, Lost, Message, Reader, Said, Searching

Role = Literal["live", "replay"]
"""What a connection is for: batches as they are published, or requests for earlier ones and their answers."""
_PUBLISHES: dict[str, tuple[Role, bool]] = {
    "PUB": ("live", True),
    "XPUB": ("live", True),
    "SUB": ("live", False),
    "XSUB": ("live", False),
    "ROUTER": ("replay", True),
    "DEALER": ("replay", False),
    "REQ": ("replay", False),
}
"""By socket type: the role of the connection, and whether the peer with this type is the publisher."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says of a capture: ``ports`` maps publish ports to their replay ports; none given: every port.

    ``topic`` is the topic that the publisher declares.
    """

    ports: dict[int, int | None] = {}
    topic: str | None = None

    def role_at(self, port: int) -> Role | None:
        """What is spoken at a port, as far as it was said."""
        if port in self.ports:
            return "live"
        return "replay" if port in self.ports.values() else None

    def wants(self, ends: tuple[Address, Address]) -> bool:
        """Whether a connection is to be read."""
        return not self.ports or any(self.role_at(port) is not None for _, port in ends)


class Desk(Protocol):
    """Where conversations are reported."""

    def begun(self, talk: Conversation, t_ns: int) -> None:
        """The role of a connection is known, and its publisher is there."""

    def message(self, talk: Conversation, side: Side, frames: tuple[bytes, ...], t_ns: int) -> None:
        """A peer of a connection whose role is known sent a message."""

    def lost(self, talk: Conversation, side: Side, length: int, t_ns: int, *, exact: bool) -> None:
        """The capture lacks bytes of a peer; ``exact``: of one message."""

    def foreign(self, talk: Conversation, side: Side, why: str, t_ns: int) -> None:
        """The rest of what a peer says cannot be read."""

    def closing(self, talk: Conversation, side: Side, t_ns: int) -> None:
        """A peer, the first of the two, says nothing more."""

    def over(self, talk: Conversation, t_ns: int) -> None:
        """Nothing more comes."""


class Conversation:
    """The two directions of one connection.

    ``role`` and ``publisher``, the side that publishes, follow from the types of the sockets in READY, from the ports
    that the user named, or from the shape of messages; None as long as nothing told.
    """

    def __init__(self, connection: Connection, desk: Desk, told: Told, searching: Searching) -> None:
        self.connection = connection
        self.role: Role | None = None
        self.publisher: Side = 0
        self.types: list[str] = ["", ""]
        self.begun_ns: int | None = None
        """When its publisher said first what it is."""
        self.heard_ns = 0
        """When the publisher sent something last."""
        self._came = [0, 0]
        """When the last bytes of each side came."""
        self._clock = 0
        """Times of a connection never fall: what comes behind a repeated packet is as late as it."""
        self._desk = desk
        self._told = told
        self._searching = searching
        self._readers: list[Reader | None] = [None, None]

    @property
    def endpoint(self) -> Address:
        """Where the connection was accepted: at the publisher's, unless another side was seen to be dialled."""
        dialled = self.connection.dialled
        return self.connection.ends[self.publisher if dialled is None else 1 - dialled]

    @property
    def dials(self) -> bool:
        """Whether the publisher was seen to connect."""
        return self.connection.dialled == self.publisher

    @property
    def name(self) -> str:
        """Its endpoint, for readers."""
        if self.role is None and self.connection.dialled is None:
            return " and ".join(f"tcp://{shown(end)}" for end in self.connection.ends)
        return f"tcp://{shown(self.endpoint)}"

    def assume(self, role: Role, publisher: Side) -> None:
        """Its role is known beforehand."""
        self.role, self.publisher = role, publisher

    # what the connection brings

    def data(self, side: Side, data: bytes, t_ns: int) -> None:
        """Bytes of a side."""
        t_ns = self._came[side] = self._at(t_ns)
        if side == self.publisher:
            self.heard_ns = t_ns
        for said in self._reader(side).feed(data):
            self._said(side, said, t_ns)

    def hole(self, side: Side, length: int, t_ns: int) -> None:
        """Bytes of a side are missing."""
        for said in self._reader(side).lost(length):
            if isinstance(said, Lost):
                self._desk.lost(self, side, length, self._at(t_ns), exact=said.exact)

    def closing(self, side: Side, t_ns: int) -> None:
        """A side ends."""
        self._desk.closing(self, side, self._at(t_ns))

    def over(self, t_ns: int) -> None:
        """Both have ended, or the capture has."""
        for side in SIDES:
            for said in self._reader(side).close():  # found at last, and as old as what it was found in
                self._said(side, said, self._came[side])
        self._desk.over(self, self._at(t_ns))

    def _at(self, t_ns: int) -> int:
        self._clock = max(self._clock, t_ns)
        return self._clock

    def _reader(self, side: Side) -> Reader:
        reader = self._readers[side]
        if reader is None:
            topic = None if self._told.topic is None else self._told.topic.encode()
            sure = topic is not None or any(self._told.role_at(port) for _, port in self.connection.ends)
            reader = self._readers[side] = Reader(
                start=self.connection.flows[side].whole,
                searching=self._searching,
                known=Kv(topic=topic, row=1 if sure else ROW),
            )
        return reader

    # what the peers say

    def _said(self, side: Side, said: Said, t_ns: int) -> None:
        match said:
            case Command(name="READY"):
                self._ready(side, said.properties.get("socket-type", b"").decode("ascii", "replace"))
                self._begin(side, t_ns)
            case Message(frames=frames):
                if self.role is None:
                    self._guess(side, frames)
                if self.role is not None:
                    self._begin(side, t_ns)
                    self._desk.message(self, side, frames, t_ns)
            case Foreign(why=why):
                self._desk.foreign(self, side, why, t_ns)

    def _begin(self, side: Side, t_ns: int) -> None:
        if self.begun_ns is None and self.role is not None and side == self.publisher:
            self.begun_ns = t_ns
            self._desk.begun(self, t_ns)

    def _ready(self, side: Side, kind: str) -> None:
        self.types[side] = kind
        if kind not in _PUBLISHES or self.types[0] == self.types[1]:
            self.role = None
            return
        other = self.types[1 - side]
        role, publishes = _PUBLISHES[kind]
        if other and (other not in _PUBLISHES or _PUBLISHES[other][0] != role):
            self.role = None
            return
        self.assume(role, side if publishes else _other(side))

    def _guess(self, side: Side, frames: tuple[bytes, ...]) -> None:
        """The role of a connection whose READY was not seen, from a message."""
        if any(self.types):
            return
        for end, (_, port) in zip(SIDES, self.connection.ends, strict=True):
            if (role := self._told.role_at(port)) is not None:
                self.assume(role, end)
                return
        if len(frames) == 2 and frames[0] == b"" and len(frames[1]) == 8:
            self.assume("replay", _other(side))
        elif len(frames) == 4 and frames[0] == b"" and len(frames[2]) == 8:
            self.assume("replay", side)
        elif len(frames) == 3 and len(frames[1]) == 8:
            self.assume("live", side)


def _other(side: Side) -> Side:
    return 1 if side == 0 else 0
