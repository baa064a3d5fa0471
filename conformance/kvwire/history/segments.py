"""What each source of a stream delivered, cut into runs: stretches that are certainly of one life of the publisher.

A live witness's messages are cut where a new life may begin: at the first message after a disconnect, and, while a
disconnect has not been used as an excuse, after the next handshake and at each number that does not follow the last
one. Each disconnect excuses one fall, whenever it comes after it. A replay answer is one run: it comes over one
connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kvwire.trace.calls import REPLACING
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import CaptureGap, ReplayRequest, Trouble
from kvwire.trace.records import LIVE, Record
from kvwire.wire.framing import END_NUMBER, END_SEQUENCE, number_of, split_live, split_replay

DISCONNECTED = "DISCONNECTED"
"""The monitor event that excuses one fall."""
HANDSHAKE = "HANDSHAKE_SUCCEEDED"
"""Stimuli after which connections end because the harness wanted it."""


class Sighting(NamedTuple):
    """One numbered batch as one source delivered it; ``record`` is its index in the trace."""

    record: int
    number: int
    payload: bytes


class Run:
    """One run of a live witness.

    ``fell``: it begins with a fall that a disconnect excuses. ``again``: it begins, behind a disconnect, with a batch
    that the witness had heard before, which only a life that sends the same bytes once more does. ``open``: a
    disconnect stands before it that no fall has used, so that it may be of another life than the run before.
    ``breaks`` counts the disconnects after it, ``broken`` is the record of the first, ``back`` says whether the witness
    was connected again after that.
    """

    def __init__(
        self, source: str, first: int, *, fell: bool = False, again: bool = False, is_open: bool = False
    ) -> None:
        self.source = source
        self.first = first
        self.last = first
        self.fell = fell
        self.again = again
        self.open = is_open
        self.broken: int | None = None
        self.breaks = 0
        self.back = False
        self.sightings: list[Sighting] = []
        self.payloads: dict[int, Sighting] = {}
        """The first sighting of each number."""

    def add(self, sighting: Sighting) -> None:
        """Add what was delivered next."""
        self.sightings.append(sighting)
        self.payloads.setdefault(sighting.number, sighting)
        self.last = sighting.record

    def differs(self, other: Run) -> bool:
        """Whether a number stands in both with different bytes."""
        few, many = sorted((self.payloads, other.payloads), key=len)
        return any(number in many and many[number].payload != seen.payload for number, seen in few.items())


class AnswerRun(Run):
    """One replay answer; ``first`` is the record of its request, ``start`` the number asked for."""

    def __init__(self, source: str, first: int, start: int | None) -> None:
        super().__init__(source, first)
        self.start = start
        self.ended = False
        self.short = False
        """It ends below a number that was live before the request, or shares nothing with it: another life's."""


class Witness:
    """One live witness while its messages are cut."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.runs: list[Run] = []
        self.last = -1
        self.count = 0
        """How many numbered messages it delivered."""
        self.own: dict[int, bytes] = {}
        self._disconnects = 0
        self._handshakes = 0
        self._noticed = 0
        self.excuses = 0
        self.fresh = False

    def monitor(self, index: int, event: str) -> int | None:
        """Follow the monitor; the index when a connection ended or another one joined it."""
        self._disconnects += event == DISCONNECTED
        self._handshakes += event == HANDSHAKE
        if event == HANDSHAKE and self.excuses:
            self.fresh = True  # what the new connection brings comes after it, and mostly at once
        if event == HANDSHAKE and self.runs and self.runs[-1].broken is not None:
            self.runs[-1].back = True
        # Where the harness binds, a new publisher may connect before the old one's connection ends.
        ended = max(self._disconnects, self._handshakes - 1)
        if ended <= self._noticed:
            return None
        self.excuses += ended - self._noticed
        self._noticed = ended
        self.fresh = True
        if self.runs:
            self.runs[-1].breaks += 1
            if self.runs[-1].broken is None:
                self.runs[-1].broken = index
        return index

    def message(self, seen: Sighting) -> None:
        """Take the next message."""
        self.count += 1
        fresh, self.fresh = self.fresh, False
        number = seen.number
        fell = again = False
        if not self.runs:
            cut = True
        elif not self.excuses:
            cut = False
        elif number <= self.last and self.own.get(number) != seen.payload:
            cut = fell = True
            self.excuses -= 1
            self.own.clear()
            self.last = -1
        else:
            again = number <= self.last and not self.runs[-1].again
            cut = fresh or again or number > self.last + 1
        if cut:
            self.runs.append(Run(self.source, seen.record, fell=fell, again=again, is_open=bool(self.excuses)))
        self.runs[-1].add(seen)
        self.own.setdefault(number, seen.payload)
        self.last = max(self.last, number)


class Connections:
    """The connections of replay clients, each named after the first of its requests."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        """Client → connection."""
        self._asked: dict[str, list[str]] = {}
        self._made: Counter[str] = Counter()

    def take(self, record: Record) -> None:
        """Take what tells of them."""
        match record.detail:
            case SocketEvent() as said if said.event == HANDSHAKE and said.of.startswith("replay-"):
                self._made[said.of] += 1
            case ReplayRequest() as asked:
                connection = self._of[asked.client] = asked.connection or asked.client
                self._asked.setdefault(connection, []).append(asked.client)

    def beside(self, client: str) -> list[str]:
        """The clients that share a connection."""
        return self._asked.get(self._of.get(client, client), [client])

    def remade(self, client: str) -> bool:
        """Whether a message is not certainly of the request that it is taken for: of several requests on a connection
        that was lost and made again some are lost with it, and others are sent to whoever answers then.
        """
        return self._made[self._of.get(client, client)] > 1 and len(self.beside(client)) > 1


class Collected:
    """Every run of a stream, and the records at which connections ended, were replaced, the harness had trouble, or the
    capture lacks packets (``missed``).
    """

    def __init__(self, records: Iterable[tuple[int, Record]] = ()) -> None:
        self.answers: dict[str, AnswerRun] = {}
        self.connections = Connections()
        """Those of replay clients."""
        self.breaks: list[int] = []
        self.replacing: list[int] = []
        self.troubles: list[int] = []
        self.common: set[bytes] = set()
        """Payloads that stand under several numbers, as empty ones do where the clock stands still: they tell no life
        from another.
        """
        self._number: dict[bytes, int] = {}
        self.missed: list[int] = []
        self.witnesses = {str(source): Witness(source) for source in LIVE}
        for index, record in records:
            self.take(index, record)

    def forget_numbers(self) -> None:
        """Forget which payload stood under which number."""
        self._number.clear()
        self.common.clear()

    @property
    def live(self) -> dict[str, list[Run]]:
        """The runs of each live witness, in order."""
        return {source: witness.runs for source, witness in self.witnesses.items()}

    def broke_before(self, record: int) -> bool:
        """Whether a witness's connection ended before a record."""
        return bool(self.breaks) and self.breaks[0] < record

    def replaced_within(self, first: int, last: int) -> bool:
        """Whether the harness started, restarted or stopped the publisher between two records."""
        return any(first <= index <= last for index in self.replacing)

    def take(self, index: int, record: Record) -> None:
        """Take the next record."""
        match record.detail:
            case SocketEvent() as said:
                self.connections.take(record)
                witness = self.witnesses.get(said.of)
                ended = None if witness is None else witness.monitor(index, said.event)
                if ended is not None:
                    self.breaks.append(ended)
            case Trouble():
                self.troubles.append(index)
            case CaptureGap():
                self.missed.append(index)
            case ReplayRequest() as asked:
                self.connections.take(record)
                self.answers[asked.client] = AnswerRun(asked.client, index, asked.number)
            case detail if isinstance(detail, REPLACING):
                self.replacing.append(index)
        if record.frames is None:
            return
        if record.is_live and (parts := split_live(record.frames)) and parts[0] != END_NUMBER:
            self.witnesses[record.source].message(self.seen(Sighting(index, *parts)))
        elif record.is_replay and (replayed := split_replay(record.frames)):
            self._replayed(index, record.source, replayed[1], replayed[2])

    def _replayed(self, index: int, source: str, sequence: bytes, payload: bytes) -> None:
        if self.connections.remade(source):
            for client in self.connections.beside(source):
                self.answers.pop(client, None)
            return
        if source not in self.answers:
            self.answers[source] = AnswerRun(source, index, None)
        answer = self.answers[source]
        number = number_of(sequence)
        if sequence == END_SEQUENCE:
            answer.ended = True
            answer.last = index
        elif number is not None:
            answer.add(self.seen(Sighting(index, number, payload)))

    def seen(self, sighting: Sighting) -> Sighting:
        """Note what a source delivered under which number."""
        if self._number.setdefault(sighting.payload, sighting.number) != sighting.number:
            self.common.add(sighting.payload)
        return sighting
