"""From the records of one stream to its incarnations: distinct batches in ascending order, and the gaps between them.

Decision rules of the standard (spec/sequence.md): a live number that does not rise is, without an unused disconnect of
that witness, one of three disjoint things: a *duplicate* (seen before with equal bytes), a *reused* number (seen before
with other bytes) or a *filled* hole (not seen before). "Seen" is by anybody: what another witness heard in its place,
though its record comes later, or a replay delivered before. Each disconnect excuses one fall, whenever it comes after
it, and the fall begins a new incarnation. Incarnations are computed (``kvwire.history.segments``,
``kvwire.history.incarnations``) and recorded nowhere.
"""

from __future__ import annotations

import bisect
import enum
import functools
import itertools
import weakref
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from kvwire.history.incarnations import Life, grouped
from kvwire.history.segments import DISCONNECTED, AnswerRun, Collected, Run, Sighting
from kvwire.trace.records import Record
from kvwire.wire.dialect import last_read
from kvwire.wire.events import Event, Flaw, Reading
from kvwire.wire.framing import END_SEQUENCE, number_of, split_live, split_replay

__all__ = [
    "DISCONNECTED",
    "END_SEQUENCE",
    "Answer",
    "Arrival",
    "Attribution",
    "Batch",
    "Gap",
    "Incarnation",
    "Live",
    "Timeline",
    "build",
    "events",
    "number_of",
    "split_live",
    "split_replay",
]


READ_BYTES = 64 * 2**20
"""What the readings of batches may take together; older ones are read again when they are looked into."""
EVENT_BYTES, VALUE_BYTES = 1024, 40
"""What an event takes, and each of its tokens and hashes, about."""


class Arrival(enum.Enum):
    """What a live number is, against what was known when it came."""

    FIRST = "first"
    NEXT = "next"
    AHEAD = "ahead"
    DUPLICATE = "duplicate"
    REUSED = "reused"
    FILLED = "filled"
    RESTART = "restart"
    SEAM = "seam"
    """It rises across a disconnect, and nothing tells whether a new incarnation began."""


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


class Batch(msgspec.Struct, frozen=True, kw_only=True, dict=True, weakref=True):
    """One distinct batch of an incarnation.

    ``record`` is the index of the first record that held it, ``live`` that of the first live one (None: seen by replay
    only), ``seen_by`` every source that delivered it. It is read when somebody looks into it, and again where that was
    long ago.
    """

    number: int
    payload: bytes
    record: int
    live: int | None = None
    seen_by: frozenset[str]

    @functools.cached_property
    def reading(self) -> Reading:
        """What the payload says."""
        reading = last_read(self.payload)
        _KEPT.keep(self, reading)
        return reading

    def beyond(self, said: str) -> None:
        """It is not read, for a bound of the harness."""
        flaw = Flaw("limit", "a batch that is read", said, 0, len(self.payload))
        self.__dict__["reading"] = Reading(form="none", flaws=(flaw,))


class _Kept:
    """The readings that batches keep, the newest ones, by what they weigh."""

    def __init__(self) -> None:
        self._of: deque[tuple[weakref.ref[Batch], int]] = deque()
        self._weight = 0

    def keep(self, batch: Batch, reading: Reading) -> None:
        """One more: the oldest are forgotten for it."""
        values = sum(len(event.tokens) + len(event.hashes) for event in reading.events)
        weight = EVENT_BYTES * (1 + len(reading.events)) + VALUE_BYTES * values
        self._of.append((weakref.ref(batch), weight))
        self._weight += weight
        while self._weight > READ_BYTES:
            oldest, weight = self._of.popleft()
            self._weight -= weight
            if (kept := oldest()) is not None:
                kept.__dict__.pop("reading", None)


_KEPT = _Kept()


class Attribution(enum.StrEnum):
    """Who lost the batches of a gap."""

    PUBLISHER = "publisher"
    TRANSPORT = "transport"
    HARNESS = "harness"
    UNATTRIBUTED = "unattributed"


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers ``first`` to ``last`` of an incarnation that no source delivered, and what is known of their loss.

    ``maybe_restart``: a disconnect lies in the gap, so that what follows may be another incarnation. Where no number is
    missing there, ``last`` is one below ``first``.
    """

    first: int
    last: int
    attribution: Attribution
    why: str
    maybe_restart: bool = False


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """One life of a stream: batches in ascending order, and gaps.

    ``origin_known``: number 0 was seen, so that nothing came before. ``seams`` are the numbers before which another
    incarnation may have begun, unseen.
    """

    index: int
    batches: tuple[Batch, ...]
    gaps: tuple[Gap, ...]
    origin_known: bool
    seams: frozenset[int] = frozenset()

    def steps(self) -> Iterator[Batch | Gap]:
        """Batches and gaps in the order of their numbers; a seam without a gap is one of no numbers."""
        gaps = iter(self.gaps)
        gap = next(gaps, None)
        for batch in self.batches:
            if gap is not None and gap.last < batch.number:
                yield gap
                gap = next(gaps, None)
            elif batch.number in self.seams:
                yield Gap(
                    first=batch.number,
                    last=batch.number - 1,
                    attribution=Attribution.UNATTRIBUTED,
                    why="a disconnect, after which another incarnation may have begun",
                    maybe_restart=True,
                )
            yield batch


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One replay answer: the request's start, the numbers that came, and whether an end marker did.

    ``request`` is the record index of the request; ``newest_live`` the highest live number of the answer's incarnation
    that was recorded before it (of the newest incarnation, when nobody knows whose answer it is).
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


def build(records: Iterable[tuple[int, Record]]) -> Timeline:
    """The timeline of one stream, from its records with their indices in the trace."""
    collected = Collected(records)
    lives = grouped(collected)
    return Builder(collected, lives).build()


class _Known:
    """What is known of one life while its live messages are classified in the order of their records."""

    def __init__(self, life: Life, witnesses: Iterable[list[Run]]) -> None:
        self.heard: dict[int, Sighting] = {}
        """The first live sighting of each number so far."""
        self.answered: dict[int, Sighting] = {}
        self.in_place: dict[int, Sighting] = {}
        """What a witness heard in ascending order, whenever."""
        for run in life.runs:
            if isinstance(run, AnswerRun):
                for number, seen in run.payloads.items():
                    held = self.answered.get(number)
                    if held is None or seen.record < held.record:
                        self.answered[number] = seen
        for runs in witnesses:
            last = -1
            for seen in itertools.chain.from_iterable(run.sightings for run in runs):
                if seen.number > last:
                    self.in_place.setdefault(seen.number, seen)
                    last = seen.number

    def before(self, seen: Sighting) -> Sighting | None:
        """An earlier sighting of the number, or one that stood in its place."""
        if (heard := self.heard.get(seen.number)) is not None:
            return heard
        if (placed := self.in_place.get(seen.number)) is not None and placed is not seen:
            return placed
        answered = self.answered.get(seen.number)
        return answered if answered is not None and answered.record < seen.record else None


class Builder:
    """Lays out what was collected of a stream, life by life."""

    def __init__(self, collected: Collected, lives: list[Life]) -> None:
        self.collected = collected
        self.lives = lives
        self.of = {run: index for index, life in enumerate(lives) for run in life.runs}
        self.seams = [life.seams() for life in lives]
        self.known = [
            _Known(life, [[run for run in runs if self.of[run] == index] for runs in collected.live.values()])
            for index, life in enumerate(lives)
        ]
        self.last: dict[str, int] = {}
        self.current: dict[str, int] = {}

    def build(self) -> Timeline:
        """Classify every live message, then lay out every life."""
        sightings = sorted(
            (
                (seen.record, position, run, seen)
                for runs in self.collected.live.values()
                for run in runs
                for position, seen in enumerate(run.sightings)
            ),
            key=lambda item: item[0],
        )
        live = tuple(self._classify(run, seen, first=position == 0) for _, position, run, seen in sightings)
        answers = tuple(self._answer(answer) for answer in self.collected.answers.values())
        incarnations = tuple(
            self._incarnation(index, [answer for answer in answers if answer.incarnation == index])
            for index in range(len(self.lives))
        )
        return Timeline(incarnations=incarnations, live=live, answers=answers)

    # live messages

    def _classify(self, run: Run, seen: Sighting, *, first: bool) -> Live:
        life = self.of[run]
        previous = self.last.get(run.source)
        arrival, other = self._arrival(run, seen, first=first)
        if arrival in (Arrival.FIRST, Arrival.RESTART):
            self.last[run.source] = seen.number
        elif arrival not in (Arrival.DUPLICATE, Arrival.FILLED):
            self.last[run.source] = max(seen.number, self.last[run.source])
        self.current[run.source] = life
        self.known[life].heard.setdefault(seen.number, seen)
        return Live(
            record=seen.record,
            source=run.source,
            number=seen.number,
            arrival=arrival,
            incarnation=life,
            previous=previous,
            other=None if other is None else other.record,
        )

    def _arrival(self, run: Run, seen: Sighting, *, first: bool) -> tuple[Arrival, Sighting | None]:
        life = self.of[run]
        if run.source not in self.current:
            return Arrival.FIRST, None
        if self.current[run.source] != life:
            return Arrival.RESTART, None
        last = self.last[run.source]
        heard = self.known[life].heard.get(seen.number)
        if seen.number > last:
            if heard is not None and heard.payload != seen.payload:
                return Arrival.REUSED, heard
            if first and any(last < seam <= seen.number for seam in self.seams[life]):
                return Arrival.SEAM, None
            return (Arrival.NEXT if seen.number == last + 1 else Arrival.AHEAD), None
        before = self.known[life].before(seen)
        if before is None:
            return Arrival.FILLED, None
        return (Arrival.DUPLICATE, None) if before.payload == seen.payload else (Arrival.REUSED, before)

    # answers

    def _answer(self, answer: AnswerRun) -> Answer:
        life = self.of.get(answer)
        return Answer(
            source=answer.source,
            request=answer.first,
            start=answer.start,
            numbers=tuple(seen.number for seen in answer.sightings),
            ended=answer.ended,
            newest_live=self._newest_live(life, answer.first),
            incarnation=life,
        )

    def _newest_live(self, life: int | None, record: int) -> int | None:
        lives = [life] if life is not None else reversed(range(len(self.lives)))
        for index in lives:
            numbers = [number for number, seen in self.known[index].heard.items() if seen.record < record]
            if numbers:
                return max(numbers)
        return None

    # incarnations

    def _incarnation(self, index: int, answers: list[Answer]) -> Incarnation:
        known = self.known[index]
        payloads = {**known.answered, **known.heard}
        records: dict[int, int] = {}
        seen_by: dict[int, set[str]] = {}
        for run in self.lives[index].runs:
            for number, seen in run.payloads.items():
                if seen.payload == payloads[number].payload:
                    records[number] = min(seen.record, records.get(number, seen.record))
                    seen_by.setdefault(number, set()).add(run.source)
        numbers = sorted(payloads)
        batches = tuple(
            Batch(
                number=number,
                payload=payloads[number].payload,
                record=records[number],
                live=known.heard[number].record if number in known.heard else None,
                seen_by=frozenset(seen_by[number]),
            )
            for number in numbers
        )
        gaps = tuple(
            self._gap(index, batches[at], batches[at + 1], answers)
            for at, (before, after) in enumerate(itertools.pairwise(numbers))
            if after > before + 1
        )
        return Incarnation(
            index=index,
            batches=batches,
            gaps=gaps,
            origin_known=bool(numbers) and numbers[0] == 0,
            seams=self.seams[index],
        )

    def _gap(self, index: int, before: Batch, after: Batch, answers: list[Answer]) -> Gap:
        first, last = before.number + 1, after.number - 1
        attribution, why = Attribution.UNATTRIBUTED, "no replay answer and no count of the publisher covers it"
        if any(_lacks(answer, first, last) for answer in answers):
            attribution = Attribution.PUBLISHER
            why = "a replay answer that ended with the marker holds what stands before and after it, and not this"
        elif any(before.record < record < after.record for record in self.collected.troubles):
            attribution, why = Attribution.HARNESS, "the harness had trouble when it came"
        elif any(before.record < record < after.record for record in self.collected.missed):
            attribution, why = Attribution.TRANSPORT, "the capture lacks packets there"
        elif self._cut_off(index, first):
            attribution, why = Attribution.TRANSPORT, "every witness was disconnected when it came"
        return Gap(
            first=first, last=last, attribution=attribution, why=why, maybe_restart=after.number in self.seams[index]
        )

    def _cut_off(self, index: int, first: int) -> bool:
        """Whether every witness that heard what stands on both sides of a gap was disconnected in it."""
        crossings = 0
        for runs in self.collected.live.values():
            mine = [run for run in runs if self.of[run] == index]
            numbers = sorted(number for run in mine for number in run.payloads)
            at = bisect.bisect_left(numbers, first)
            if not 0 < at < len(numbers):
                continue
            crossings += 1
            if any({numbers[at - 1], numbers[at]} <= run.payloads.keys() for run in mine):
                return False
        return crossings > 0


def _lacks(answer: Answer, first: int, last: int) -> bool:
    """Whether a complete answer covers the numbers from first to last, and holds none of them."""
    if not answer.ended or answer.start is None or answer.start > first or not answer.numbers:
        return False
    return answer.numbers[0] < first and max(answer.numbers) > last


def events(timeline: Timeline) -> Iterator[tuple[Incarnation, Batch, Event]]:
    """Every event of a timeline, in order."""
    for incarnation in timeline.incarnations:
        for batch in incarnation.batches:
            for event in batch.reading.events:
                yield incarnation, batch, event
