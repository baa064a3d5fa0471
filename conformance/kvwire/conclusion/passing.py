"""A stream that nobody drives, judged while it passes: what is settled is shown to the judges and forgotten.

What has no fault is taken the quick way (``judges/quick``) and told to the areas in bulk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from kvwire.cache.cases import Place as Sized
from kvwire.cache.chains import Strand
from kvwire.cache.deferred import Deferred, Waiting
from kvwire.conclusion.description import remarks
from kvwire.conclusion.outcome import outcomes
from kvwire.conclusion.showing import Judged, Showing, stated
from kvwire.history.follower import HORIZON, Entry, Follower, Horizon
from kvwire.history.ranges import Ranges
from kvwire.history.timeline import Arrival, Batch, Gap, Incarnation, Live
from kvwire.judges import AREAS
from kvwire.judges.area import ABSURD, Area, Context
from kvwire.judges.hashing import Hashing
from kvwire.judges.quick import Quick
from kvwire.judges.step import Step
from kvwire.judges.verdict import Outcome
from kvwire.standard.registry import Profile, Registry
from kvwire.trace.marks import ReplayBehind, ReplayDone, ReplayRequest
from kvwire.trace.records import Header, Record, StreamInfo
from kvwire.wire.framing import number_of
from kvwire.wire.plain import Read, Reader


def passes(header: Header) -> bool:
    """Whether nothing is done to the publisher of a run, so that its streams are judged while they pass."""
    return not header.can


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
        self.showing.allowance.now_ns = record.t_ns
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
        if read is not None and (entry.topic is None or entry.topic == self.facts.topic):
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
        self.facts.complete(self._records, timeline)
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
            identity=self.facts.identity,
        )

    def outcomes(self, only: frozenset[str] | None = None) -> tuple[Outcome, ...]:
        """The outcomes of what was judged so far."""
        self.flush()
        return outcomes(
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
