"""From records to outcomes: every judge on every stream, and what becomes of its tallies.

A stream that nobody drives is judged while it passes (``Passing``): what is settled is shown to the judges and
forgotten. Where the harness did something to the publisher, what it did is held against the whole trace (``show``). A
function of the records and the registry only, so that a live run and its recording get the same verdicts to the byte.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import islice

import msgspec

from kvwire.cache.chains import Strand
from kvwire.cache.deferred import Deferred, Waiting
from kvwire.cache.parity import Place as Sized
from kvwire.conclusion.description import Appearance, remarks
from kvwire.conclusion.extra_instances import attacked, count
from kvwire.conclusion.hearing import of_stream
from kvwire.conclusion.muting import Muting
from kvwire.conclusion.outcome import outcome
from kvwire.history.follower import HORIZON, Entry, Follower, Horizon
from kvwire.history.losses import Loss, losses
from kvwire.history.progress import END, Place
from kvwire.history.ranges import Ranges
from kvwire.history.senders import Senders
from kvwire.history.timeline import Arrival, Attribution, Batch, Gap, Incarnation, Live
from kvwire.judges import AREAS, JUDGES
from kvwire.judges.area import ABSURD, Area, Context
from kvwire.judges.hashing import Hashing
from kvwire.judges.quick import Quick
from kvwire.judges.step import Step
from kvwire.judges.verdict import Outcome, Tally
from kvwire.standard.registry import Profile, Registry
from kvwire.trace.marks import ReplayBehind, ReplayDone, ReplayRequest
from kvwire.trace.records import Header, Record, Records, StreamInfo, Trace
from kvwire.wire.events import Event, Form
from kvwire.wire.framing import number_of
from kvwire.wire.plain import Read, Reader, read_quickly


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One stream, judged. ``senders``: what other counters it has, and since when (``t_ns``). ``kept`` are the messages
    in which findings were made, by record.
    """

    stream: StreamInfo
    appearance: Appearance
    incarnations: int
    gaps: tuple[tuple[int, Gap], ...]
    losses: tuple[Loss, ...]
    senders: tuple[Senders, int] | None
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    kept: Mapping[int, Record]

    @property
    def form(self) -> Form:
        """The form of its events."""
        return self.appearance.form

    @property
    def events(self) -> dict[str, int]:
        """How many events of each type there are."""
        return self.appearance.events


def records_of(trace: Trace, stream: str) -> Records:
    """The records of one stream, with their indices in the trace."""
    return of_stream(enumerate(trace.records), stream)


def _others(trace: Trace, stream: str) -> tuple[dict[str, Ranges], dict[str, Records]]:
    """The numbers of declared streams, where there are several, and the records of others: of other instances."""
    declared = {info.name for info in trace.header.streams}
    found: dict[str, list[tuple[int, Record]]] = {}
    for index, record in enumerate(trace.records):
        if record.stream:
            found.setdefault(record.stream, []).append((index, record))
    several = found.keys() & declared - {stream}
    return (
        {name: Ranges.of(found.get(name, ())) for name in sorted(declared)} if several else {},
        {name: records for name, records in found.items() if name not in declared},
    )


def show(context: Context, records: Records, areas: Iterable[Area]) -> Showing:
    """Show everything to the judges, in the documented order.

    What could not be read is a gap for those who follow the stream: a batch as a whole, or an event in its place.
    """
    showing = Showing(context, areas)
    for index, record in records:
        showing.allowance.at(record.t_ns)
        if record.frames is not None:
            showing.record(index, record)
    for incarnation in context.timeline.incarnations:
        showing.begins(incarnation)
        for step in incarnation.steps():
            if isinstance(step, Gap):
                showing.gap(step)
            else:
                showing.batch(step)
    for live in context.timeline.live:
        if live.record not in context.facts.copies:
            showing.live(live)
    showing.finish()
    return showing


class Allowance:
    """How many events of a stream are shown one by one: so many at once, and more for each second of the recording.

    Beyond that a batch with faults is not read. A batch counts as its events, and for the time that reading it takes.
    """

    def __init__(self) -> None:
        self.beyond = 0
        """Batches that were not read."""
        self._left = EVENTS
        self._at: int | None = None

    def at(self, t_ns: int) -> None:
        """The recording has come so far."""
        if self._at is None:
            self._at = t_ns
        elif (more := (t_ns - self._at) * EVENTS_A_SECOND // 10**9) > 0:
            self._left, self._at = min(EVENTS, self._left + more), t_ns

    def read(self, batch: Batch, first: int = 0) -> None:
        """Read a batch, of which the events from ``first`` on are to be shown, or see to it that it is not."""
        if self._left <= 0 and (first or read_quickly(batch.payload) is None):
            self.beyond += 1
            batch.beyond(SHOWN_ALL)
        else:
            self._left -= len(batch.reading.events) - first + len(batch.payload) // 64


class Showing:
    """Facts and judges that go along one stream, the facts first."""

    def __init__(self, context: Context, areas: Iterable[Area]) -> None:
        self.areas = tuple(areas)
        self.facts = context.facts
        self.muting = Muting(self.facts.offers, context.header.sets)
        self.appearance = Appearance()
        self.allowance = Allowance()
        self.forgotten = 0
        """How often what is resident was forgotten, for there was too much of it."""
        self._unlooked = 0
        self._moments = deque(self.facts.moments)
        self._life = -1

    def record(self, index: int, record: Record) -> None:
        """A message, as received."""
        for area in self.areas:
            area.on_record(index, record)

    def _mute(self, muted: frozenset[str]) -> None:
        for area in self.areas:
            area.muted = muted

    def _reach(self, place: Place) -> None:
        """What was done when the stream had not come to this place yet."""
        self._mute(frozenset())
        while self._moments and self._moments[0].place < place:
            moment = self._moments.popleft()
            for area in self.areas:
                area.on_stimulus(moment)

    def begins(self, incarnation: Incarnation) -> None:
        """An incarnation."""
        self._life = incarnation.index
        self._reach((incarnation.index, -1))
        self.facts.on_incarnation(incarnation)
        for area in self.areas:
            area.on_incarnation(incarnation)

    def gap(self, gap: Gap) -> None:
        """The next gap."""
        self._reach((self._life, gap.first))
        self._gap(gap)

    def _gap(self, gap: Gap) -> None:
        self._mute(frozenset())
        self.facts.on_gap()
        for area in self.areas:
            area.on_gap(gap)

    def _hidden(self, batch: Batch) -> None:
        number = batch.number
        self._gap(Gap(first=number, last=number, attribution=Attribution.PUBLISHER, why="it cannot be read"))

    def batch(self, batch: Batch) -> None:
        """The next batch."""
        self._reach((self._life, batch.number))
        if self.full(len(batch.payload)):
            self.forget(batch.number)
        self.allowance.read(batch)
        self.appearance.add(batch.reading)
        stamped = self.muting.batch(batch)
        self._mute(stamped)
        for area in self.areas:
            area.on_batch(batch)
        if batch.reading.opaque:
            self._hidden(batch)
        self._events(batch, batch.reading.events, stamped)

    def full(self, size: int) -> bool:
        """Whether more is known to be resident than is followed, before a batch of so many bytes."""
        self._unlooked += size
        if self._unlooked <= LOOKED_BYTES:
            return False
        self._unlooked = 0
        return self.facts.ledger.known > RESIDENT

    def forget(self, number: int) -> None:
        """Nothing is known any more of what is resident before a batch."""
        self._gap(Gap(first=number, last=number - 1, attribution=Attribution.HARNESS, why=TOO_MANY))
        self.forgotten += 1

    @property
    def bounds(self) -> tuple[str, ...]:
        """What this harness left out for its own bounds."""
        beyond, forgotten = self.allowance.beyond, self.forgotten
        return (
            *([f"{beyond} batches with faults were not read: {SHOWN_ALL}"] if beyond else ()),
            *([f"what is resident was forgotten {forgotten} times: {TOO_MANY}"] if forgotten else ()),
        )

    def rest(self, batch: Batch, first: int) -> None:
        """The events of a batch from one on; those before it, and the batch itself, were taken another way."""
        self.allowance.read(batch, first)
        if batch.reading.opaque:
            self._hidden(batch)
        self.appearance.rest(batch.reading, first)
        self._events(batch, batch.reading.events[first:], frozenset())

    def _events(self, batch: Batch, events: Iterable[Event], stamped: frozenset[str]) -> None:
        for event in events:
            if event.opaque:
                self._hidden(batch)
            self.facts.on_event(event)
            self._mute(stamped | self.muting.event(batch, event))
            for area in self.areas:
                area.on_event(batch, event)
            self.facts.after_event(batch, event)

    def live(self, live: Live) -> None:
        """A live message, classified."""
        for area in self.areas:
            area.on_live(live)

    def finish(self) -> None:
        """The end of the trace."""
        self._reach(END)
        for area in self.areas:
            area.finish()

    @property
    def tallies(self) -> dict[str, Tally]:
        """What was counted so far, by requirement."""
        return {requirement: tally for area in self.areas for requirement, tally in area.tallies.items()}


def stated(header: Header, profile: Profile) -> Header:
    """The header under the form of a profile that has one."""
    if profile.form is None:
        return header
    return msgspec.structs.replace(header, statement=msgspec.structs.replace(header.statement, form=profile.form))


# --- streams that pass -------------------------------------------------------------------------------------------


def passes(header: Header) -> bool:
    """Whether nothing is done to the publisher of a run, so that its streams are judged while they pass."""
    return not header.can


EVENTS, EVENTS_A_SECOND = 300_000, 2_000
"""How many events are shown one by one."""
SHOWN_ALL = "more events with faults than this harness shows one by one"
RESIDENT = 750_000
"""How many blocks of one stream are followed."""
LOOKED_BYTES = 2**21
"""After so many bytes of payloads it is counted how many there are."""
TOO_MANY = f"more than {RESIDENT} blocks of a stream are not followed"
STRETCH = 1024
"""After so many batches without a fault the areas are told."""
REUSED = 1024
"""How many batches under numbers that another had are looked into."""
AHEAD = 64
"""So many messages that wait are kept as they were read."""
ZERO = bytes(8)
HIGHEST = (ABSURD - 1).to_bytes(8, "big")
"""The highest number that a counter reaches."""


class Passing:
    """One stream that nobody drives, judged while it passes."""

    def __init__(
        self,
        header: Header,
        stream: StreamInfo,
        registry: Registry,
        profile: Profile,
        *,
        numbers: Mapping[str, Ranges] | None = None,
        replays: bool | None = None,
        horizon: Horizon = HORIZON,
    ) -> None:
        self.stream = stream
        self.registry = registry
        self.profile = profile
        self.header = stated(header, profile)
        self._numbers = {} if numbers is None else numbers
        context = Context.passing(self.header, stream, registry, numbers=self._numbers)
        self.facts = context.facts
        self.showing = Showing(context, [area(context) for area in AREAS])
        self._listeners = [area for area in self.showing.areas if type(area).on_record is not Area.on_record]
        self.follower = Follower(
            self, replay=stream.replay is not None if replays is None else replays, horizon=horizon
        )
        self._reader = Reader()
        self._deferred = Deferred(self._matched, self._case)
        self.quick = Quick(self.facts, context.statement, stream.rank, self._later)
        self._entry: tuple[int, Entry] | None = None
        """The batch that is taken the quick way, or was last."""
        self._reads: dict[int, Read] = {}
        """What was read of messages that wait, by record."""
        self._topic: bytes | None = None
        """The topic of messages that have no fault."""
        self._horizon = horizon
        self._followed = 0
        """Messages without a fault that came one after the other, from the only witness."""
        self.last: Record | None = None
        """The last live message."""
        self._records: list[tuple[int, Record]] = []
        """What is told beside messages, and the messages of replays."""
        self._bytes = 0

    def take(self, index: int, record: Record) -> None:
        """Take the next record of the stream."""
        self.showing.allowance.at(record.t_ns)
        frames = record.frames
        if frames is None:
            self._records.append((index, record))
            self.follower.take(index, record)
            return
        if len(frames) == 3 and frames[0] == self._topic and len(frames[1]) == 8:
            topic, sequence, payload = frames
            number = int.from_bytes(sequence, "big")
            entry = self.follower.follow(index, record.source, number, payload, topic)
            if entry is not None:
                self._follows(index, record, number, entry)
                return
        self._take(index, record, frames)

    def _follows(self, index: int, record: Record, number: int, entry: Entry) -> None:
        """The next message from the only witness."""
        self.last = record
        recent = self.facts.recent
        recent[index] = record
        self._bytes += len(entry.payload)
        read = self._reader.read(entry.payload)
        if read is None or number >= ABSURD or self._bytes > self._horizon.bytes:
            self.quick.step.in_order += 1
            self._copied(copy=False)
            self._show(index, record)
        else:
            self._followed += 1
            if len(recent) > 2 * self._horizon.batches:
                self._forget()
        self._settled(number, entry, read)

    def _copied(self, index: int = -1, *, copy: bool) -> None:
        copies = self.facts.copies
        assert isinstance(copies, set)
        copies.clear()
        if copy:
            copies.add(index)

    def _take(self, index: int, record: Record, frames: tuple[bytes, ...]) -> None:
        facts = self.facts
        self._copied(copy=False)
        if not record.is_live:
            if record.is_replay:
                self._records.append((index, record))
            facts.recent[index] = record
            self.follower.take(index, record)
            self._show(index, record)
            return
        self.last = record
        facts.recent[index] = record
        if self.follower.is_copy(index, record):
            self._copied(index, copy=True)
            self.follower.take(index, record)
            self._show(index, record)
            return
        read = self._reader.read(frames[2]) if len(frames) == 3 else None
        if read is not None:
            self._reads[index] = read
            if len(self._reads) > AHEAD:
                self._reads.clear()
        self.follower.take(index, record)
        if read is None or frames[0] != self._topic or not self._numbered(frames[1]):
            self._show(index, record)
            self._topic = self._good_topic()
        elif len(facts.recent) > 2 * self._horizon.batches:
            self._forget()

    def _numbered(self, frame: bytes) -> bool:
        """Count a message like those before; False when its number has to be looked at."""
        if len(frame) != 8 or frame > HIGHEST:
            return False
        self.quick.step.messages += 1
        if frame != ZERO:
            self.quick.step.numbered += 1
        return True

    def _good_topic(self) -> bytes | None:
        """The first topic of the stream, where it is as declared and valid; None when each message is looked at."""
        topic, declared = self.facts.topic, self.stream.topic
        if topic is None or (declared is not None and topic != declared.encode()):
            return None
        try:
            topic.decode()
        except UnicodeDecodeError:
            return None
        return topic

    def _show(self, index: int, record: Record) -> None:
        self._bytes += len(record.frames[-1]) if record.frames else 0
        if self._bytes > self._horizon.bytes or len(self.facts.recent) > 2 * self._horizon.batches:
            self._forget()
        for area in self._listeners:
            area.on_record(index, record)

    def _forget(self) -> None:
        """Forget the oldest half of the messages, and of replays what is older than the rest."""
        recent = self.facts.recent
        for index in list(islice(recent, len(recent) - len(recent) // 2)):
            del recent[index]
        self._bytes = sum(len(record.frames[-1]) for record in recent.values() if record.frames)
        self._forget_exchanges()

    def _forget_exchanges(self) -> None:
        """Forget the oldest exchanges of replay, whole ones, beyond the horizon."""
        sizes: Counter[str] = Counter()
        for _, record in self._records:
            if record.frames is not None:
                sizes[record.source] += len(record.frames[-1])
        size = sizes.total()
        gone = set[str]()
        for client in sizes:
            if size <= self._horizon.bytes:
                break
            size -= sizes[client]
            gone.add(client)
        if gone:
            self._records = [(index, record) for index, record in self._records if _client(record) not in gone]
            self.follower.beyond["replay answers, not judged"] += len(gone)

    @property
    def last_number(self) -> int | None:
        """The number of the last live message."""
        frames = () if self.last is None else self.last.frames or ()
        return number_of(frames[1]) if len(frames) > 1 else None

    @property
    def function(self) -> str | None:
        """The hash function that enough blocks show."""
        hashing = next(area for area in self.showing.areas if isinstance(area, Hashing))
        main = hashing.parity.main
        return None if main is None else main.name

    # what is settled

    def begins(self, incarnation: Incarnation) -> None:
        """An incarnation."""
        self._one_by_one()
        self.showing.begins(incarnation)

    def entry(self, number: int, entry: Entry) -> None:
        """The next batch, which came live and ascending."""
        read = self._reads.pop(entry.first, None)
        self._settled(number, entry, self._reader.read(entry.payload) if read is None else read)

    def _settled(self, number: int, entry: Entry, read: Read | None) -> None:
        taken = None
        if self.showing.full(len(entry.payload)):
            self._one_by_one()
            self.showing.forget(number)
        if read is not None:
            self._entry = number, entry
            taken = self.quick.take(read, number)
            if taken == len(read[2]):
                if self.quick.step.batches >= STRETCH:
                    self.flush()
                return
        batch = _batch(number, entry)
        self._one_by_one()
        if taken is None:
            self.showing.batch(batch)
        else:
            self.showing.rest(batch, taken)

    def batch(self, batch: Batch) -> None:
        """The next batch."""
        self._one_by_one()
        self.showing.batch(batch)

    def gap(self, gap: Gap) -> None:
        """The next gap."""
        self._one_by_one()
        self.showing.gap(gap)

    def in_order(self) -> None:
        """A live message under a number that rises."""
        self.quick.step.in_order += 1

    def live(self, live: Live) -> None:
        """A live message that was classified."""
        reused = self.facts.reused
        if live.arrival is Arrival.REUSED and isinstance(reused, list) and len(reused) < REUSED:
            reused.append(self.facts.batch_of(live))
        self.showing.live(live)

    # what was taken the quick way

    def _one_by_one(self) -> None:
        """Something is shown to the areas one by one: what waits comes first."""
        self._deferred.flush()
        self.quick.doubt()

    def _later(self, strand: Strand, place: Sized, index: int) -> None:
        assert self._entry is not None
        number, entry = self._entry
        self._deferred.add(Waiting(strand, place, number, entry.first, entry.payload, index))

    def _matched(self, place: Sized, blocks: int, roots: int) -> None:
        self.facts.parity.match(place, blocks, roots, told=self.quick.told)

    def _case(self, waiting: Waiting) -> None:
        """Blocks among which one is not as its function says: each is decided by itself."""
        facts = self.facts
        batch = Batch(
            number=waiting.number,
            payload=waiting.payload,
            record=waiting.record,
            live=waiting.record,
            seen_by=frozenset(),
        )
        event = batch.reading.events[waiting.index]
        links = [facts.identity.chains.link(waiting.strand, value) for value in waiting.strand.hashes]
        facts.parity.stored(batch, event, links, facts.label(event.hash_algo))
        self.quick.doubt()

    def flush(self) -> None:
        """Tell the areas what was counted."""
        self._deferred.flush()
        self.quick.add_up()
        step, self.quick.step = self.quick.step, Step()
        step.in_order += self._followed
        step.messages += self._followed
        step.numbered += self._followed
        self._followed = 0
        if step.batches and self._entry is not None:
            step.last = _batch(*self._entry)
            self.showing.appearance.count(step)
            assert self.facts.first_rank is not None
            self.showing.appearance.ranks.add(self.facts.first_rank[0])
        for area in self.showing.areas:
            area.on_step(step)

    # the end

    def judged(self, only: frozenset[str] | None = None) -> Judged:
        """The stream is over."""
        timeline = self.follower.finish()
        self.flush()
        beside = self.follower.senders.found
        self.facts.senders = None if beside is None else beside[0]
        self.facts.complete(self._records, timeline, self.follower.copied)
        self.showing.finish()
        lived = self.follower.lived
        return Judged(
            stream=self.stream,
            appearance=self.showing.appearance,
            incarnations=len(lived),
            gaps=tuple((one.index, gap) for one in lived for gap in one.gaps),
            losses=tuple(self.follower.losses),
            senders=beside,
            outcomes=self.outcomes(only),
            notes=(
                *remarks(self.showing.appearance, self.showing.muting, self._records),
                *self.showing.bounds,
                *self.follower.notes(),
            ),
            kept=self.facts.kept,
        )

    def outcomes(self, only: frozenset[str] | None = None) -> tuple[Outcome, ...]:
        """The outcomes of what was judged so far."""
        self.flush()
        return _outcomes(
            self.stream,
            self.showing.tallies,
            self.header,
            self.showing.appearance.form,
            self.registry,
            self.profile,
            only,
        )


def _client(record: Record) -> str | None:
    """The client of the exchange that a record is of."""
    match record.detail:
        case ReplayRequest(client=client) | ReplayBehind(client=client) | ReplayDone(client=client):
            return client
    return record.source if record.is_replay else None


def _batch(number: int, entry: Entry) -> Batch:
    return Batch(number=number, payload=entry.payload, record=entry.first, live=entry.first, seen_by=entry.seen_by)


def _outcomes(
    stream: StreamInfo,
    tallies: Mapping[str, Tally],
    header: Header,
    form: Form,
    registry: Registry,
    profile: Profile,
    only: frozenset[str] | None,
) -> tuple[Outcome, ...]:
    return tuple(
        outcome(requirement, stream, tallies.get(requirement.id, Tally()), header, form, profile)
        for requirement in registry.binding("publisher")
        if requirement.id in JUDGES and (only is None or requirement.id in only)
    )


# --- streams that were driven ------------------------------------------------------------------------------------


def judge_stream(
    trace: Trace, stream: StreamInfo, registry: Registry, profile: Profile, only: frozenset[str] | None = None
) -> Judged:
    """Judge one stream of a trace by every publisher-binding sentence that has a judge."""
    numbers, instances = _others(trace, stream.name)
    if passes(trace.header):
        passing = Passing(trace.header, stream, registry, profile, numbers=numbers)
        for index, record in records_of(trace, stream.name):
            passing.take(index, record)
        return passing.judged(only)
    header, records = stated(trace.header, profile), records_of(trace, stream.name)
    context = Context.of(header, stream, records, registry, numbers=numbers, instances=instances)
    showing = show(context, records, [area(context) for area in AREAS])
    tallies = showing.tallies
    if stream == header.streams[0]:
        for other in attacked(header, instances):
            beside = instances[other.stream.name]
            apart = Context.of(other.header, other.stream, beside, registry)
            for requirement, tally in show(apart, beside, [area(apart) for area in AREAS]).tallies.items():
                count(tallies.setdefault(requirement, Tally()), tally, other.where)
    lives, found = context.timeline.incarnations, context.facts.senders
    return Judged(
        stream=stream,
        appearance=showing.appearance,
        incarnations=len(lives),
        gaps=tuple((life.index, gap) for life in lives for gap in life.gaps),
        losses=tuple(losses(context.timeline)),
        senders=None if found is None else (found, trace.records[found.record].t_ns),
        outcomes=_outcomes(stream, tallies, header, showing.appearance.form, registry, profile, only),
        notes=(*remarks(showing.appearance, showing.muting, records), *showing.bounds),
        kept={},
    )
