"""From the records of one stream to its incarnations: distinct batches in ascending order, and the gaps between them.

Decision rules of the standard (spec/sequence.md): a live number that does not rise is, without an unused disconnect of
that witness, one of three disjoint things: a *duplicate* (seen before with equal bytes), a *reused* number (seen
before with other bytes) or a *filled* hole (not seen before). Each disconnect excuses one fall, whenever it comes
after it, and the fall begins a new incarnation. Incarnations are computed here and recorded nowhere.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Iterator

import msgspec

from kvwire.dialect import read
from kvwire.events import Event, Reading
from kvwire.trace import LIVE, Record, Source

END_SEQUENCE = b"\xff" * 8
"""The sequence frame of a replay's end marker."""
DISCONNECTED = "DISCONNECTED"
"""The monitor event that excuses one fall."""


class Arrival(enum.Enum):
    """What a live number is, against what was known when it came."""

    FIRST = "first"
    NEXT = "next"
    AHEAD = "ahead"
    DUPLICATE = "duplicate"
    REUSED = "reused"
    FILLED = "filled"
    RESTART = "restart"


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """One live message, classified: ``record`` is its index in the trace, ``previous`` the witness's last number."""

    record: int
    source: str
    number: int
    arrival: Arrival
    incarnation: int
    previous: int | None = None
    other: int | None = None
    """The record that holds the other bytes of a reused number."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One distinct batch of an incarnation.

    ``record`` is the index of the first record that held it, ``live`` that of the first live one (None: seen by replay
    only), ``seen_by`` every source that delivered it.
    """

    number: int
    payload: bytes
    record: int
    live: int | None = None
    seen_by: frozenset[str]
    reading: Reading


class Attribution(enum.StrEnum):
    """Who lost the batches of a gap."""

    PUBLISHER = "publisher"
    TRANSPORT = "transport"
    HARNESS = "harness"
    UNATTRIBUTED = "unattributed"


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers ``first`` to ``last`` of an incarnation that no source delivered, and what is known of their loss.

    ``maybe_restart``: a disconnect lies in the gap, so that what follows may be another incarnation.
    """

    first: int
    last: int
    attribution: Attribution
    why: str
    maybe_restart: bool = False


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """One life of a stream: batches in ascending order, and gaps.

    ``origin_known``: number 0 was seen, so that nothing came before.
    """

    index: int
    batches: tuple[Batch, ...]
    gaps: tuple[Gap, ...]
    origin_known: bool

    def steps(self) -> Iterator[Batch | Gap]:
        """Batches and gaps in the order of their numbers."""
        gaps = iter(self.gaps)
        gap = next(gaps, None)
        for batch in self.batches:
            while gap is not None and gap.last < batch.number:
                yield gap
                gap = next(gaps, None)
            yield batch


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One replay answer: the request's start, the numbers that came, and whether an end marker did.

    ``request`` is the record index of the request; ``newest_live`` the highest live number known when it was made.
    """

    source: str
    request: int
    start: int | None
    numbers: tuple[int, ...]
    ended: bool
    newest_live: int | None
    incarnation: int | None = None


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the judges of one stream need to know of order."""

    incarnations: tuple[Incarnation, ...]
    live: tuple[Live, ...]
    answers: tuple[Answer, ...]


def number_of(frame: bytes) -> int | None:
    """The sequence number of an 8-byte big-endian frame; None when it is not 8 bytes long."""
    return int.from_bytes(frame, "big") if len(frame) == 8 else None


def split_live(frames: tuple[bytes, ...]) -> tuple[int, bytes] | None:
    """Number and payload of a live message of three frames; None when it is malformed."""
    if len(frames) != 3 or (number := number_of(frames[1])) is None:
        return None
    return number, frames[2]


def split_replay(frames: tuple[bytes, ...]) -> tuple[bytes | None, bytes, bytes] | None:
    """Topic, sequence frame and payload of a replay answer as a DEALER reads it.

    The delimiter comes first. Form ``replay-topic`` has four frames; ``replay-bare`` three, and its topic is None.
    None when it is neither.
    """
    if not frames or frames[0] != b"":
        return None
    if len(frames) == 4:
        return frames[1], frames[2], frames[3]
    if len(frames) == 3:
        return None, frames[1], frames[2]
    return None


class _Life:
    """One incarnation while it is built."""

    def __init__(self) -> None:
        self.payloads: dict[int, bytes] = {}
        self.records: dict[int, int] = {}
        self.live: dict[int, int] = {}
        self.seen_by: dict[int, set[str]] = {}
        self.doubtful: set[int] = set()

    def add(self, number: int, payload: bytes, record: int, source: str) -> None:
        if number not in self.payloads:
            self.payloads[number] = payload
            self.records[number] = record
        if source in LIVE:
            self.live.setdefault(number, record)
        self.seen_by.setdefault(number, set()).add(source)


class _Witness:
    def __init__(self) -> None:
        self.life: int | None = None
        self.last = -1
        self.disconnects = 0
        self.used = 0
        self.since_last = 0

    @property
    def excused(self) -> bool:
        return self.disconnects > self.used


class _Answer:
    def __init__(self, request: int, start: int | None, newest_live: int | None) -> None:
        self.request = request
        self.start = start
        self.newest_live = newest_live
        self.numbers: list[int] = []
        self.ended = False
        self.life: int | None = None


class _Builder:
    def __init__(self) -> None:
        self.lives: list[_Life] = []
        self.witnesses = {source: _Witness() for source in LIVE}
        self.live: list[Live] = []
        self.answers: dict[str, _Answer] = {}
        self.stale = False
        """A disconnect was seen and nothing live since: a replay answer may be of a new life."""

    def feed(self, index: int, record: Record) -> None:
        if record.source == Source.MONITOR and record.event == DISCONNECTED:
            witness = self.witnesses.get(Source(record.detail.get("of", Source.LIVE_A)))
            if witness is not None:
                witness.disconnects += 1
                witness.since_last += 1
            self.stale = True
        elif record.is_live and record.frames is not None and (parts := split_live(record.frames)):
            self._live(index, record.source, *parts)
        elif record.source == Source.STIMULUS and record.event == "replay-request":
            start = record.detail.get("start")
            newest = max(self.lives[-1].payloads, default=None) if self.lives else None
            answer = _Answer(index, None if start is None else int(start), newest)
            self.answers[str(record.detail.get("client"))] = answer
        elif record.is_replay and record.frames is not None and (replayed := split_replay(record.frames)):
            self._replayed(index, record.source, replayed[1], replayed[2])

    # live

    def _live(self, index: int, source: str, number: int, payload: bytes) -> None:
        witness = self.witnesses[Source(source)]
        previous = witness.last if witness.life is not None else None
        other: int | None = None
        if witness.life is None:
            arrival, life = Arrival.FIRST, self._home(number, payload)
        elif number > witness.last:
            arrival = Arrival.NEXT if number == witness.last + 1 else Arrival.AHEAD
            life = witness.life
            known = self.lives[life].payloads.get(number)
            if known is not None and known != payload:
                if (later := self._later(life, number, payload)) is not None or witness.excused:
                    arrival = Arrival.RESTART
                    life = self._next_life(life, number, payload) if later is None else later
                    witness.used += witness.excused
                else:
                    arrival, other = Arrival.REUSED, self.lives[life].records[number]
        else:
            arrival, life, other = self._fall(witness, number, payload)
        if arrival is not Arrival.REUSED:
            self.lives[life].add(number, payload, index, source)
        if arrival is Arrival.AHEAD and witness.since_last:
            self.lives[life].doubtful.add(number)
        if arrival not in (Arrival.DUPLICATE, Arrival.REUSED, Arrival.FILLED):
            witness.last = number
            witness.since_last = 0
        elif arrival is Arrival.REUSED and number > witness.last:
            witness.last = number
        witness.life = life
        self.stale = False
        self.live.append(
            Live(
                record=index,
                source=source,
                number=number,
                arrival=arrival,
                incarnation=life,
                previous=previous,
                other=other,
            )
        )

    def _fall(self, witness: _Witness, number: int, payload: bytes) -> tuple[Arrival, int, int | None]:
        assert witness.life is not None
        life = witness.life
        known = self.lives[life].payloads.get(number)
        if known == payload:
            return Arrival.DUPLICATE, life, None
        if witness.excused:
            witness.used += 1
            return Arrival.RESTART, self._next_life(life, number, payload), None
        if known is not None:
            return Arrival.REUSED, life, self.lives[life].records[number]
        return Arrival.FILLED, life, None

    def _home(self, number: int, payload: bytes) -> int:
        """The incarnation of a witness's first message: the newest that does not contradict it."""
        for life in range(len(self.lives) - 1, -1, -1):
            if self.lives[life].payloads.get(number, payload) == payload:
                return life
        self.lives.append(_Life())
        return len(self.lives) - 1

    def _later(self, life: int, number: int, payload: bytes) -> int | None:
        for later in range(life + 1, len(self.lives)):
            if self.lives[later].payloads.get(number) == payload:
                return later
        return None

    def _next_life(self, life: int, number: int, payload: bytes) -> int:
        """The life after ``life``: one that another witness or a replay opened already, or a new one."""
        for later in range(life + 1, len(self.lives)):
            if self.lives[later].payloads.get(number, payload) == payload:
                return later
        self.lives.append(_Life())
        return len(self.lives) - 1

    # replay

    def _replayed(self, index: int, source: str, sequence: bytes, payload: bytes) -> None:
        answer = self.answers.setdefault(source, _Answer(index, None, None))
        if sequence == END_SEQUENCE:
            answer.ended = True
            return
        number = number_of(sequence)
        if number is None:
            return
        answer.numbers.append(number)
        if not self.lives:
            self.lives.append(_Life())
        known = self.lives[-1].payloads.get(number)
        if known is not None and known != payload:
            if not self.stale:
                return
            self.lives.append(_Life())
        self.lives[-1].add(number, payload, index, source)
        answer.life = len(self.lives) - 1

    # the end

    def build(self) -> Timeline:
        answers = tuple(
            Answer(
                source=source,
                request=answer.request,
                start=answer.start,
                numbers=tuple(answer.numbers),
                ended=answer.ended,
                newest_live=answer.newest_live,
                incarnation=answer.life,
            )
            for source, answer in self.answers.items()
        )
        return Timeline(
            incarnations=tuple(
                self._incarnation(index, life, [answer for answer in answers if answer.incarnation == index])
                for index, life in enumerate(self.lives)
            ),
            live=tuple(self.live),
            answers=answers,
        )

    def _incarnation(self, index: int, life: _Life, answers: list[Answer]) -> Incarnation:
        numbers = sorted(life.payloads)
        batches = tuple(
            Batch(
                number=number,
                payload=life.payloads[number],
                record=life.records[number],
                live=life.live.get(number),
                seen_by=frozenset(life.seen_by[number]),
                reading=read(life.payloads[number]),
            )
            for number in numbers
        )
        gaps = tuple(
            _gap(before + 1, after - 1, answers, maybe_restart=after in life.doubtful)
            for before, after in itertools.pairwise(numbers)
            if after > before + 1
        )
        return Incarnation(index=index, batches=batches, gaps=gaps, origin_known=bool(numbers) and numbers[0] == 0)


def _gap(first: int, last: int, answers: Iterable[Answer], *, maybe_restart: bool) -> Gap:
    """A gap with its attribution: the publisher's when a complete answer around it lacks it too."""
    for answer in answers:
        if not answer.ended or answer.start is None or answer.start > first or not answer.numbers:
            continue
        if answer.numbers[0] < first and max(answer.numbers) > last:
            return Gap(
                first=first,
                last=last,
                attribution=Attribution.PUBLISHER,
                why="a replay answer that ended with the marker holds what stands before and after it, and not this",
                maybe_restart=maybe_restart,
            )
    why = "no replay answer and no count of the publisher covers it"
    return Gap(first=first, last=last, attribution=Attribution.UNATTRIBUTED, why=why, maybe_restart=maybe_restart)


def build(records: Iterable[tuple[int, Record]]) -> Timeline:
    """The timeline of one stream, from its records with their indices in the trace."""
    builder = _Builder()
    for index, record in records:
        builder.feed(index, record)
    return builder.build()


def events(timeline: Timeline) -> Iterator[tuple[Incarnation, Batch, Event]]:
    """Every event of a timeline, in order."""
    for incarnation in timeline.incarnations:
        for batch in incarnation.batches:
            for event in batch.reading.events:
                yield incarnation, batch, event
