"""A first pass over a capture: which connections carry what, which of them are one stream, and what cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from kvwire.trace.captures.connections import Connection, Connections, Side, Talk
from kvwire.trace.captures.conversation import Conversation, Desk, Role, Told
from kvwire.trace.captures.layers import Address, Layers, shown
from kvwire.trace.captures.packets import CaptureError, Packets, opened
from kvwire.trace.captures.zmtp import Searching
from kvwire.wire.framing import split_live

COMPARED = 1024
"""How many of the newest batches of an endpoint are compared with those of others."""
SAME = 3
"""How many equal batches show that two endpoints are one publisher's, unless as many differ."""
NAMED = 3
"""How many endpoints a line names at most."""

Key = tuple[Address, bytes, int]
"""A publisher: its endpoint, or where it dials the endpoint, its host, and a count of those that dial at once."""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection is, as the whole capture shows it."""

    role: Role
    publisher: Side
    key: Key


class Ignored:
    """A connection that nobody asked for."""

    def data(self, side: Side, data: bytes, t_ns: int) -> None:
        """Nothing."""

    def hole(self, side: Side, length: int, t_ns: int) -> None:
        """Nothing."""

    def closing(self, side: Side, t_ns: int) -> None:
        """Nothing."""

    def over(self, t_ns: int) -> None:
        """Nothing."""


IGNORED = Ignored()


class Pass:
    """One pass over the packets of a capture."""

    def __init__(self, path: Path, told: Told) -> None:
        self.path = path
        self.told = told
        self.layers = Layers()
        self.damaged = ""
        self.packets = 0
        self.dropped = 0
        self.now = 0

    def run(self, desk: Desk, prepare: Callable[[Conversation], None] | None = None) -> Iterator[None]:
        """Feed everything to a desk; yields after each packet, and once more at the end.

        Raises:
            CaptureError: when the file is no capture, or cannot be read.
        """
        searching = Searching()

        def start(connection: Connection) -> Talk:
            if not self.told.wants(connection.ends):
                return IGNORED
            talk = Conversation(connection, desk, self.told, searching)
            if prepare is not None:
                prepare(talk)
            return talk

        connections = Connections(start)
        try:
            with opened(self.path) as file:
                packets = Packets(file)
                for packet in packets:
                    self.now = max(self.now, packet.t_ns)
                    segment = self.layers.segment(packet)
                    if segment is not None:
                        connections.feed(segment)
                        yield
        except OSError as error:
            raise CaptureError(f"{self.path}: {error.strerror or error}") from None
        except CaptureError as error:
            raise CaptureError(f"{self.path}: {error}") from None
        self.packets, self.damaged, self.dropped = packets.count, packets.damaged, packets.dropped
        connections.finish()
        yield


class _Ended(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A connection that carried something; ``host`` is that of a publisher that dials, empty for others."""

    role: Role
    publisher: Side
    endpoint: Address
    host: bytes
    first_ns: int
    last_ns: int


class Survey:
    """What a first pass finds.

    ``links`` are the connections that carry something, by their number. ``keys`` are the publishers in the order of
    their endpoints, ``same`` maps those that are one to the first. ``notes`` says what could not be read.
    """

    def __init__(self, path: Path, told: Told) -> None:
        self.first_ns: int | None = None
        self._times: dict[int, list[int]] = {}
        self._ended: dict[int, _Ended] = {}
        self._foreign: dict[str, dict[str, None]] = {}
        self._talks = 0
        self._lost: Counter[str] = Counter()
        self._twins = _Twins()
        self._over = Pass(path, told)
        for _ in self._over.run(self):
            if self.first_ns is None:
                self.first_ns = self._over.now
        self.links = self._links()
        self.keys = sorted({link.key for link in self.links.values() if link.role == "live"})
        self.same = self._twins.merged({key[0]: key for key in self.keys if not key[1]})
        self.notes = list(self._notes())

    @property
    def nothing(self) -> str:
        """Why there is nothing to judge, in words."""
        over = self._over
        said = [f"{over.packets:,} packets hold no stream that can be judged", *self.notes]
        if not over.packets:
            said = ["it holds no packet", *self.notes]
        elif any(link.role == "replay" for link in self.links.values()):
            said.append("replay sockets are there, and no PUB socket")
        elif not self._foreign:
            count = f"{self._talks:,} connection{'' if self._talks == 1 else 's'}"
            said.append(
                f"no PUB socket was recognised in {count}: capture the publish port with `tcpdump -s 0`, from before "
                "subscribers connect or for longer, or name the publish port with --port"
            )
        return "; ".join(said)

    # the desk

    def begun(self, talk: Conversation, t_ns: int) -> None:
        """A connection has a role."""
        self._times[talk.connection.number] = [t_ns, t_ns]

    def message(self, talk: Conversation, side: Side, frames: tuple[bytes, ...], t_ns: int) -> None:
        """A message."""
        if (times := self._times.get(talk.connection.number)) is not None:
            times[1] = t_ns
        if talk.role == "live" and side == talk.publisher and not talk.dials and (parts := split_live(frames)):
            self._twins.add(talk.endpoint, parts[0], hash(frames))

    def lost(self, talk: Conversation, side: Side, length: int, t_ns: int, *, exact: bool) -> None:
        """A hole."""
        self._lost[talk.name] += 1

    def foreign(self, talk: Conversation, side: Side, why: str, t_ns: int) -> None:
        """Something else than ZMTP 3 with NULL."""
        if why:
            self._foreign.setdefault(why, {})[talk.name] = None

    def closing(self, talk: Conversation, side: Side, t_ns: int) -> None:
        """An end."""

    def over(self, talk: Conversation, t_ns: int) -> None:
        """The end of both."""
        self._talks += 1
        number = talk.connection.number
        times = self._times.pop(number, None)
        if times is not None and talk.role is not None:
            self._ended[number] = _Ended(
                role=talk.role,
                publisher=talk.publisher,
                endpoint=talk.endpoint,
                host=talk.connection.ends[talk.publisher][0] if talk.dials else b"",
                first_ns=times[0],
                last_ns=times[1],
            )

    # what it comes to

    def _links(self) -> dict[int, Link]:
        links: dict[int, Link] = {}
        dialling: dict[tuple[Address, bytes], list[int]] = {}
        for number, ended in sorted(self._ended.items()):
            at = 0
            if ended.host:
                until = dialling.setdefault((ended.endpoint, ended.host), [])
                at = next((at for at, last in enumerate(until) if last < ended.first_ns), len(until))
                until[at : at + 1] = [ended.last_ns]
            links[number] = Link(role=ended.role, publisher=ended.publisher, key=(ended.endpoint, ended.host, at))
        return links

    def _notes(self) -> Iterator[str]:
        over = self._over
        if over.damaged:
            yield over.damaged
        if over.dropped:
            yield f"the capturing system dropped {over.dropped:,} packets"
        if over.layers.cut:
            yield (
                f"{over.layers.cut:,} packets were kept in part, {over.layers.kept:,} bytes at most: capture with "
                "`tcpdump -s 0`"
            )
        if over.layers.fragments:
            yield f"{over.layers.fragments:,} fragments of IP packets are not read"
        for link, count in sorted(over.layers.links.items()):
            yield f"{count:,} packets of link type {link} are not read: Ethernet, Linux cooked, loopback and raw IP are"
        for why, names in self._foreign.items():
            several = list(names)
            more = f" and {len(several) - NAMED} more" if len(several) > NAMED else ""
            yield f"{', '.join(several[:NAMED])}{more}: {why}"
        holes = self._lost.total()
        if holes:
            where = "in one place" if holes == 1 else f"in {holes:,} places"
            yield f"the capture lacks packets {where}: what they held is nobody's fault"


class _Twins:
    """Finds endpoints that are one publisher under several addresses, by the batches that go over them."""

    def __init__(self) -> None:
        self._newest: dict[Address, dict[int, int]] = {}
        self._equal: Counter[tuple[Address, Address]] = Counter()
        self._differ: Counter[tuple[Address, Address]] = Counter()

    def add(self, endpoint: Address, number: int, digest: int) -> None:
        """A batch that went over an endpoint."""
        mine = self._newest.setdefault(endpoint, {})
        if mine.get(number) == digest:
            return
        mine[number] = digest
        if len(mine) > COMPARED:
            del mine[next(iter(mine))]
        for other, theirs in self._newest.items():
            if other != endpoint and (seen := theirs.get(number)) is not None:
                pair = (endpoint, other) if endpoint < other else (other, endpoint)
                (self._equal if seen == digest else self._differ)[pair] += 1

    def merged(self, keys: dict[Address, Key]) -> dict[Key, Key]:
        """Maps the keys of endpoints that are the same as an earlier one to it."""
        found: dict[Key, Key] = {}
        for (first, second), equal in sorted(self._equal.items()):
            if equal >= SAME and equal > self._differ[first, second] and first in keys and second in keys:
                found[keys[second]] = found.get(keys[first], keys[first])
        return found


def endpoint_of(key: Key) -> str:
    """The endpoint of a publisher."""
    return f"tcp://{shown(key[0])}"
