"""Replay exchanges as a client saw them, and what an answer should have held."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping

import msgspec

from kvwire.history.segments import Connections
from kvwire.history.timeline import Answer
from kvwire.trace.attempts import Stalls, Wait
from kvwire.trace.marks import WELL_FORMED, ReplayBehind, ReplayDone, ReplayRequest
from kvwire.trace.records import Record, Records
from kvwire.wire.framing import END_SEQUENCE, number_of, split_replay

UNTOLD = {
    "count": "an answer exceeds the bound of the harness",
    "over": "the run ended before an answer did",
}
"""Outcomes of an exchange that say nothing of the publisher."""


SILENT = ("timeout", "unreachable")
"""Outcomes that a time decides."""


class Item(msgspec.Struct, frozen=True):
    """One message of an answer, of either form; ``topic`` is None in form ``replay-bare``."""

    record: int
    frames: tuple[bytes, ...]
    topic: bytes | None
    sequence: bytes
    payload: bytes

    @property
    def is_end(self) -> bool:
        """Whether it is an end marker."""
        return self.sequence == END_SEQUENCE

    @property
    def is_range(self) -> bool:
        """Whether the payload is the msgpack array of two numbers, the oldest and the newest retained."""
        try:
            oldest, newest = msgspec.msgpack.decode(self.payload, type=tuple[int, int])
        except msgspec.MsgspecError:
            return False
        return 0 <= oldest <= newest


class Exchange:
    """One request and all that came back on its socket.

    ``odd`` holds messages of no known form; ``outcome`` is None while nobody said that the exchange is over, ``done``
    the record that did. ``situation`` says under what pressure the request was made, empty for
    none; ``connection`` names the first exchange of the connection.
    """

    def __init__(self, record: int, asked: ReplayRequest) -> None:
        self.client = asked.client
        self.request = record
        self.start = asked.number
        self.kind = asked.kind or WELL_FORMED
        self.situation = asked.situation
        self.connection = asked.connection or asked.client
        self.followed = False
        """Whether another request was sent behind it: an end marker shows that it was read."""
        self.items: list[Item] = []
        self.odd: list[tuple[int, tuple[bytes, ...]]] = []
        self.outcome: str | None = None
        self.done: int | None = None
        self.vain: list[Record] = []
        """Where it had been silent for as long as it was awaited; more than one where it was awaited again."""

    @property
    def about(self) -> Hashable:
        """What was asked, and in which situation: the same in each attempt."""
        return self.situation, self.start

    def waits(self, stalls: Stalls) -> Iterator[Wait]:
        """The silences in which nothing more of it came."""
        for _, _, wait in stalls.waits(enumerate(self.vain), ReplayDone):
            yield wait

    @property
    def well_formed(self) -> bool:
        """Whether the request was."""
        return self.kind == WELL_FORMED

    @property
    def slow(self) -> bool:
        """Whether the client did not read for a while."""
        return self.situation in ("paused", "beyond")

    @property
    def ascends(self) -> bool:
        """Whether its batches rise from its start."""
        floor = self.start or 0
        for item in self.data:
            number = number_of(item.sequence)
            if number is not None:
                if number < floor:
                    return False
                floor = number + 1
        return True

    @property
    def oddities(self) -> str:
        """What to add to a finding about messages of no known form; empty without them."""
        if not self.odd:
            return ""
        return f"; {len(self.odd)} messages of another shape, the first of {len(self.odd[0][1])} frames"

    @property
    def data(self) -> list[Item]:
        """The batches."""
        return [item for item in self.items if not item.is_end]

    @property
    def ends(self) -> list[Item]:
        """The end markers."""
        return [item for item in self.items if item.is_end]


def remade(records: Records) -> frozenset[str]:
    """The clients whose connection was made again while answers to several requests came on it."""
    connections = Connections()
    found: set[str] = set()
    for _, record in records:
        connections.take(record)
        if record.is_replay and record.frames is not None and connections.remade(record.source):
            found.update(connections.beside(record.source))
    return frozenset(found)


def exchanges(records: Records, without: frozenset[str] = frozenset()) -> dict[str, Exchange]:
    """Every exchange of a stream, by its client, ``without`` those of which no message is certain."""
    found: dict[str, Exchange] = {}
    for index, record in records:
        if record.is_replay and record.frames is not None and record.source in found:
            exchange = found[record.source]
            parts = split_replay(record.frames)
            if parts is None:
                exchange.odd.append((index, record.frames))
            else:
                exchange.items.append(Item(index, record.frames, *parts))
        match record.detail:
            case ReplayRequest() as asked:
                found[asked.client] = Exchange(index, asked)
            case ReplayBehind(client=client) if client in found:
                found[client].followed = True
            case ReplayDone(client=client) as done if client in found:
                exchange = found[client]
                exchange.outcome, exchange.done = done.outcome, index
                exchange.vain = [*exchange.vain, record] if done.outcome in SILENT else []
    return {client: exchange for client, exchange in found.items() if client not in without}


def mixed(found: Mapping[str, Exchange]) -> frozenset[str]:
    """The connections on which answers to several requests came mixed: no message of theirs is certainly of one."""
    asked = Counter(exchange.connection for exchange in found.values() if exchange.well_formed)
    return frozenset(
        exchange.connection
        for exchange in found.values()
        if exchange.well_formed and asked[exchange.connection] > 1 and not exchange.ascends
    )


def overfull(found: Mapping[str, Exchange]) -> Mapping[str, tuple[int, int]]:
    """The connections on which more end markers came than requests were sent, by how many of each: behind one too many
    it is not certain to which request a message belongs.
    """
    asked = Counter(exchange.connection for exchange in found.values())
    ends: Counter[str] = Counter()
    for exchange in found.values():
        ends[exchange.connection] += len(exchange.ends)
    return {name: (ends[name], count) for name, count in asked.items() if ends[name] > count > 1}


class Hole(msgspec.Struct, frozen=True):
    """Batches in a row that an answer lacks although they had been sent when it was asked for.

    ``evicted`` of them the ring had lost when a later answer was given; ``retained`` are those that it held.
    ``end`` is the batch of the answer that follows, None if none does.
    """

    first: int
    evicted: int
    retained: tuple[int, ...]
    end: int | None

    @property
    def at_end(self) -> bool:
        """Whether no batch of the answer follows."""
        return self.end is None


def holes(answer: Answer, sent: Mapping[int, int], later: Iterable[Answer]) -> tuple[Hole, ...] | None:
    """The holes of an answer, beginning with its start; None when no later answer tells what was retained.

    ``sent`` maps the numbers of the incarnation to their first live records. ``later`` are answers that were asked for
    when this one was over: what they hold was retained all the time, and what lies below their first batch was evicted.
    """
    start = answer.start or 0
    telling = [other for other in later if other.ended and other.numbers and (other.start or 0) <= start]
    if not telling:
        return None
    oldest = min(other.numbers[0] for other in telling)
    retained = frozenset[int]().union(*(other.numbers for other in telling))
    present = {*answer.numbers}
    held = sorted(present)
    missing = sorted(
        number
        for number, record in sent.items()
        if number >= start and record < answer.request and number not in present
    )
    found: list[Hole] = []
    for at, group in itertools.groupby(missing, lambda number: bisect.bisect_left(held, number)):
        numbers = tuple(group)
        kept = tuple(number for number in numbers if number in retained)
        gone = sum(number < oldest for number in numbers)
        found.append(Hole(numbers[0], gone, kept, held[at] if at < len(held) else None))
    return tuple(found)


class Sent:
    """What an answer should hold: the batches of its incarnation that were heard before it was asked for.

    ``floor`` to ``newest`` are the numbers that it should hold, as far as they were sent; ``asked`` those that were
    heard, ``missing`` those of them that it lacks.

    ``sent`` maps the numbers of that incarnation to their first live records. What stands before a seam may be of
    another one.
    """

    def __init__(
        self, sent: Mapping[int, int], answer: Answer, done: int, ring: int | None, seams: frozenset[int]
    ) -> None:
        assert answer.newest_live is not None
        self.answer = answer
        self.done = done
        self.newest = answer.newest_live
        start = answer.start or 0
        reached = max([*sent, *answer.numbers])
        self._room = None if ring is None else reached - ring
        """The highest number that a full ring can have evicted by the end of the trace."""
        oldest = answer.numbers[0] if answer.numbers else self.newest
        known = oldest if self._room is None else max(start, min(oldest, self._room + 1))
        self.floor = max([known, *(seam for seam in seams if seam <= oldest)])
        self.asked = sorted(
            number for number, record in sent.items() if self.floor <= number <= self.newest and record < answer.request
        )
        held = set(answer.numbers)
        self.missing = [number for number in self.asked if number not in held]
        during = (number for number, record in sent.items() if answer.request < record < done)
        self._quiet = max([*during, *answer.numbers], default=0) <= self.newest

    def unevicted(self, number: int) -> bool:
        """Whether a batch cannot have been evicted before the answer came to it.

        The declared ring has room for it; or nothing was published meanwhile, and the answer holds an older one or
        nothing at all, not even the newest.
        """
        if self._room is not None and number > self._room:
            return True
        return self._quiet and number >= self.floor
