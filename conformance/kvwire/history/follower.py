"""Follows one stream through its records, one at a time, and hands on what is settled, in order.

A number is *settled* when every witness that is up has passed it, nothing says that a life may have ended, and nothing
can still fill what is missing before it, a late batch or a replay; or when the horizon is behind it. What comes
ascending, from whomever, is handed on as it comes. Whatever else happens (a lost connection, a number that falls, a
replay) is collected and laid out by ``kvwire.history.timeline``, as a whole trace would be, once it has come to rest:
that stays the truth.

Of what was handed on the last batches are kept, bounded in number and bytes by the horizon, so that a later copy,
another batch under the same number or a replay can be compared with them. What is older is not judged but noted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Protocol

import msgspec

from kvwire.history.copies import Copies
from kvwire.history.incarnations import Life, grouped
from kvwire.history.losses import Losses
from kvwire.history.segments import DISCONNECTED, HANDSHAKE, Collected, Run, Sighting, Witness
from kvwire.history.senders import Counters
from kvwire.history.timeline import Arrival, Attribution, Batch, Builder, Gap, Incarnation, Live, Timeline
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import ReplayDone, ReplayRequest
from kvwire.trace.records import Record
from kvwire.wire.framing import END_NUMBER, number_of, split_live

LATE = 256
"""For so many batches behind a hole is waited for what may still fill it."""
CALM = 64
"""So many messages in order, behind something else, are a sign that it is over."""
RESTLESS = 4096
"""So many, where one thing follows another: to lay out what is kept costs as much as to judge it once."""
GAPS = 4096
"""How many gaps, and how many losses of a witness, are kept for the report; more are counted."""


class Horizon(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited for what may still come, and how much is kept for comparison: batches, and their bytes."""

    batches: int = 16_384
    bytes: int = 64 * 2**20


HORIZON = Horizon()


class Receiver(Protocol):
    """Who is handed what is settled."""

    def begins(self, incarnation: Incarnation) -> None:
        """An incarnation; its batches are not known yet."""

    def entry(self, number: int, entry: Entry) -> None:
        """The next batch, which came live and ascending."""

    def batch(self, batch: Batch) -> None:
        """The next batch."""

    def gap(self, gap: Gap) -> None:
        """Numbers that nobody delivered."""

    def in_order(self) -> None:
        """A live message came under a number above the last one of its witness, and is no copy."""

    def live(self, live: Live) -> None:
        """A live message that is no copy, classified."""


class Entry(msgspec.Struct, gc=False):
    """A batch that came live, ascending: its payload, the topic it came under, and the record of each witness."""

    payload: bytes
    source: str
    first: int
    topic: bytes | None
    second: tuple[str, int] | None = None

    @property
    def seen_by(self) -> frozenset[str]:
        """Who delivered it."""
        return frozenset((self.source,) if self.second is None else (self.source, self.second[0]))

    def by(self, source: str) -> int | None:
        """The record in which a witness delivered it."""
        if source == self.source:
            return self.first
        return self.second[1] if self.second is not None and self.second[0] == source else None


class Lived(msgspec.Struct):
    """What is remembered of an incarnation: its gaps, the first ones, how many batches it had and how many it lacks."""

    index: int
    origin_known: bool
    batches: int = 0
    gaps: list[Gap] = msgspec.field(default_factory=list)
    more_gaps: int = 0
    missing: int = 0
    seams: frozenset[int] = frozenset()


class Follower:
    """Follows one stream. ``replay``: it has a replay socket, which may fill what is missing."""

    def __init__(self, to: Receiver, *, replay: bool, horizon: Horizon) -> None:
        self.to = to
        self.replay = replay
        self.horizon = horizon
        self.copies = Copies(horizon.batches)
        self.copied: set[int] = set()
        """The records of copies, as far as the horizon goes."""
        self.lived: list[Lived] = []
        self.losses = Losses(GAPS)
        self.senders = Counters()
        self.beyond: Counter[str] = Counter()
        """What came too late to be judged."""
        self.collected = Collected()
        self.settled = -1
        """The last number of the current incarnation that was handed on; -1 before the first."""
        self.steady = True
        self._pending: dict[int, Entry] = {}
        """What came ascending and is not settled."""
        self._window: dict[int, Entry] = {}
        """What was settled last, ascending."""
        self._bytes = 0
        """Of payloads that are kept or waiting."""
        self._up: set[str] = set()
        self._open: set[str] = set()
        """Replay clients that wait for their answers."""
        self._arrived: dict[int, tuple[int, int]] = {}
        """By record, of messages that are collected: how many of its witness each was, and when it came."""
        self._calm = 0
        self._patience = CALM
        self._rested = 0
        """The last record that was taken when something had come to rest."""
        self._waiting = 0
        """Messages that were collected since something was out of order."""
        self._of: dict[Run, int] = {}
        """Incarnation by run, of what was laid out."""
        self.timeline = Timeline(incarnations=(), live=(), answers=())
        """What was laid out at the end."""
        self._classified = -1
        """The last record whose message was classified."""
        self._floor = 0
        """Below this number of the current incarnation everything is forgotten."""
        self._alone = True
        """Whether one witness only was heard so far."""
        self._lone: str | None = None
        """The only witness that is up, if no other was heard and something is settled."""
        self._witness: Witness | None = None

    # records

    def follow(self, index: int, source: str, number: int, payload: bytes, topic: bytes) -> Entry | None:
        """Take the next message if it is the next one of all from the only witness: its batch, which is settled.

        None, and nothing taken, when it is anything else.
        """
        if number != self.settled + 1 or source != self._lone or not self.steady or self._pending:
            return None
        witness = self._witness
        if witness is None or witness.last != self.settled:
            return None
        entry = self._window[number] = Entry(payload, source, index, topic)
        witness.last = self.settled = number
        witness.count += 1
        self._classified = index
        self._bytes += len(payload)
        self.lived[-1].batches += 1
        if len(self._window) > 2 * self.horizon.batches or self._bytes > self.horizon.bytes:
            self._trim()
        return entry

    def is_copy(self, index: int, record: Record) -> bool:
        """Whether a live message, the next record, is a copy of what another witness had delivered."""
        frames = record.frames
        assert frames is not None
        number = number_of(frames[1]) if len(frames) == 3 else None
        if self.steady and number is not None and number != END_NUMBER:
            entry = self._pending.get(number) or self._window.get(number)
            if entry is None:
                copy = self._far_behind(self._witnesses[record.source], number)
            elif entry.second is None and entry.source != record.source:
                copy = entry.payload == frames[2] and entry.topic == frames[0]
            else:
                self._unsettle()
                copy = self.copies.add(record.source, frames)
        else:
            copy = self.copies.add(record.source, frames)
        if copy:
            self.copied.add(index)
        return copy

    def take(self, index: int, record: Record) -> None:
        """Take the next record; of a live message it was asked before whether it is a copy."""
        frames = record.frames
        if frames is None:
            self._told(index, record)
        elif record.is_live:
            parts = split_live(frames)
            if parts is not None and parts[0] != END_NUMBER:
                self._live(index, record, *parts)
        elif record.is_replay:
            self._unsettle()
            self.collected.take(index, record)
            self._waits(len(frames[-1]))

    def _count_witnesses(self) -> None:
        """Look whether one witness is heard only."""
        heard = [source for source, witness in self._witnesses.items() if witness.runs]
        self._lone = heard[0] if len(heard) == 1 and self._up == {heard[0]} and self.settled >= 0 else None
        self._witness = None if self._lone is None else self._witnesses[self._lone]
        if self._witness is not None and self._witness.fresh:
            self._lone = None

    def _told(self, index: int, record: Record) -> None:
        match record.detail:
            case SocketEvent(event="HANDSHAKE_SUCCEEDED" | "DISCONNECTED") as said if said.of in self._witnesses:
                witness = self._witnesses[said.of]
                breaks = len(self.collected.breaks)
                if witness.excuses or said.event == DISCONNECTED or said.of in self._up:
                    self._unsettle()
                self.collected.take(index, record)
                if said.event == HANDSHAKE:
                    self._up.add(said.of)
                else:
                    self._up.discard(said.of)
                if len(self.collected.breaks) > breaks:
                    del self.collected.breaks[1:]  # the first one tells
                    self._unsettle()
                self._count_witnesses()
            case ReplayRequest() as asked:
                self._unsettle()
                self._open.add(asked.client)
                self.collected.take(index, record)
            case ReplayDone() as done:
                self._open.discard(done.client)
                self._calm = 0
            case _:
                self.collected.take(index, record)

    @property
    def waiting(self) -> int:
        """Messages that are not settled."""
        return len(self._pending) if self.steady else self._waiting

    @property
    def kept(self) -> int:
        """Batches that are kept for comparison."""
        return len(self._window) + sum(len(run.payloads) for runs in self.collected.live.values() for run in runs)

    @property
    def _witnesses(self) -> dict[str, Witness]:
        return self.collected.witnesses

    # what comes ascending

    def _live(self, index: int, record: Record, number: int, payload: bytes) -> None:
        source = record.source
        witness = self._witnesses[source]
        if self.steady and self._ascends(witness, index, record, number, payload):
            if index not in self.copied and witness.runs[-1].first != index:
                self.to.in_order()
            self._hand_on()
            return
        last = witness.last
        self._unsettle(record)
        self.collected.take(index, record)
        self._arrived[index] = witness.count, record.t_ns
        self._up.add(source)
        self._calm = self._calm + 1 if witness.last == last + 1 == number else 0
        self._waits(len(payload))

    def _ascends(self, witness: Witness, index: int, record: Record, number: int, payload: bytes) -> bool:
        """Take a message that comes in order; False when it does not."""
        last, source = witness.last, witness.source
        if number <= last or witness.fresh or (number > last + 1 and witness.excuses and witness.runs):
            return False
        entry = self._pending.get(number)
        if entry is None and number <= self.settled:
            entry = self._window.get(number)
            if entry is None:
                if not self._far_behind(witness, number):
                    return False
                self.beyond["copies, of a witness that is far behind, not compared"] += 1
                witness.last, self._classified = number, index
                witness.count += 1
                return True
        if entry is None:
            assert record.frames is not None
            self._pending[number] = Entry(payload, source, index, record.frames[0])
            self._bytes += len(payload)
        elif entry.payload != payload or entry.second is not None or entry.source == source:
            return False
        else:
            entry.second = source, index
        first = not witness.runs
        if first:
            witness.runs.append(Run(source, index, is_open=bool(witness.excuses)))
            if self.settled >= 0:
                self.losses.heard.update(self._up)
            self._alone = not self._up - {source}
            self.senders.heard(max(0, len(self.lived) - 1), source)
        self._up.add(source)
        if first:
            self._count_witnesses()
        witness.last = number
        witness.count += 1
        self._classified = index
        return True

    def _far_behind(self, witness: Witness, number: int) -> bool:
        """Whether a witness goes on in what others delivered so long ago that nothing of it is kept."""
        return number < self._floor and number > witness.last and bool(witness.runs) and not witness.excuses

    def _hand_on(self, *, end: bool = False) -> None:
        """Hand on what every witness that is up has passed, and what has waited until the horizon; at the end all."""
        pending = self._pending
        if not self._up and not end:
            return
        behind: frozenset[str] = frozenset()
        floor = max(pending, default=-1) if end else min([self._witnesses[source].last for source in self._up])
        if len(pending) > self.horizon.batches or (pending and self._bytes > 2 * self.horizon.bytes):
            floor = max(floor, sorted(pending)[len(pending) // 2])
            behind = frozenset(source for source in self._up if self._witnesses[source].last < floor)
        number = self.settled + 1
        while pending and number <= floor:
            entry = pending.pop(number, None)
            if entry is None:
                after = min(pending)
                if after > floor:
                    break
                if self.replay:
                    self._unsettle()
                    self._waits(0)
                    return
                if self.lived:
                    if floor - after < LATE and not end:
                        break
                    self._missing(number, after)
                number = after
                continue
            if not self.lived:
                self._begin(Lived(index=0, origin_known=number == 0))
            self._window[number] = entry
            if self.settled < 0:
                self.settled = number
                self._count_witnesses()
            self.settled = number
            self.lived[-1].batches += 1
            if not self._alone:
                self.losses.settled(len(self.lived) - 1, number, entry.seen_by | behind)
            self.to.entry(number, entry)
            number += 1
        if len(self._window) > 2 * self.horizon.batches or self._bytes > self.horizon.bytes:
            self._trim()

    def _begin(self, lived: Lived) -> None:
        self.lived.append(lived)
        self.to.begins(Incarnation(index=lived.index, batches=(), gaps=(), origin_known=lived.origin_known))

    def _missing(self, first: int, after: int) -> None:
        """A hole that no disconnect and no replay explains."""
        before, behind = self._window.get(first - 1), self._pending[after]
        attribution, why = Attribution.UNATTRIBUTED, "no replay answer and no count of the publisher covers it"
        if before is not None and any(before.first < at < behind.first for at in self.collected.troubles):
            attribution, why = Attribution.HARNESS, "the harness had trouble when it came"
        elif before is not None and any(before.first < at < behind.first for at in self.collected.missed):
            attribution, why = Attribution.TRANSPORT, "the capture lacks packets there"
        self._gap(Gap(first=first, last=after - 1, attribution=attribution, why=why))

    def _gap(self, gap: Gap) -> None:
        if gap.last >= gap.first:
            lived = self.lived[-1]
            lived.missing += gap.last - gap.first + 1
            if len(lived.gaps) < GAPS:
                lived.gaps.append(gap)
            else:
                lived.more_gaps += 1
        self.to.gap(gap)

    def _trim(self) -> None:
        """Forget the oldest half of what was settled."""
        keep = len(self._window) // 2
        gone = dict(islice(self._window.items(), len(self._window) - keep))
        self._window = dict(islice(self._window.items(), len(self._window) - keep, None))
        self._bytes -= sum(len(entry.payload) for entry in gone.values())
        self._floor = next(iter(self._window), self.settled + 1)
        oldest = next(iter(self._window.values())).first if self._window else 0
        self.copied = {record for record in self.copied if record >= oldest}
        del self.collected.troubles[:-1024]
        del self.collected.missed[:-1024]

    # what is out of order

    def _unsettle(self, record: Record | None = None) -> None:
        """From here on everything is collected, until it has come to rest; the message that did it is the first."""
        if not self.steady:
            return
        self.steady = False
        for entries in (self._window, self._pending):
            for number, entry in entries.items():
                if entry.topic is not None:
                    self.copies.know((entry.topic, number.to_bytes(8, "big"), entry.payload), entry.seen_by)
        if record is not None and record.frames is not None:
            self.copies.add(record.source, record.frames)
        self._calm = self._waiting = 0
        restless = 8 * (self._classified - self._rested) < len(self._window)
        self._patience = min(2 * self._patience, RESTLESS) if restless else CALM
        for one in (*self.collected.answers.values(), *(run for runs in self.collected.live.values() for run in runs)):
            for seen in one.payloads.values():
                self.collected.seen(seen)
        for source, witness in self._witnesses.items():
            if not witness.runs:
                continue
            run = witness.runs[-1]
            for entries in (self._window, self._pending):
                for number, entry in sorted(entries.items()):
                    if (at := entry.by(source)) is not None and at >= run.first:
                        run.add(self.collected.seen(Sighting(at, number, entry.payload)))
                        witness.own.setdefault(number, entry.payload)
                if entries is self._window and run.payloads:  # it heard what was settled
                    self._of.setdefault(run, len(self.lived) - 1)

    def _waits(self, size: int) -> None:
        """Look whether it has come to rest, or has to, as the horizon is reached."""
        self._waiting += 1
        self._bytes += size
        if self._waiting > self.horizon.batches or self._bytes > 2 * self.horizon.bytes:
            self._lay_out(force=True)
        elif self._calm >= self._patience and not self._open and not self._lay_out(force=False):
            self._patience *= 2

    def _lay_out(self, *, force: bool, end: bool = False) -> bool:
        """Lay out what was collected, and hand on what is settled; whether it has come to rest."""
        lives = grouped(self.collected)
        timeline = Builder(self.collected, lives).build()
        indices = self._indices(lives)
        last = len(lives) - 1
        limit = None if end else self._limit(lives, indices, timeline, force=force)
        if limit is None and not end:
            return False
        for at, (life, incarnation) in enumerate(zip(lives, timeline.incarnations, strict=True)):
            self._emit(indices[at], incarnation, None if at < last or end else limit)
            if (index := indices[at]) is not None:
                self._of.update(dict.fromkeys(life.runs, index))
        self._classify(timeline, indices)
        if end:
            self.timeline = self._whole(timeline, indices)
        else:
            if force:
                self._doubt()
            self._settle_down(lives[last])
        return True

    def _doubt(self) -> None:
        """It has not come to rest within the horizon: what follows may be of another life, and batches missing."""
        self.beyond["things that had not come to rest"] += 1
        why = "what came before it had not come to rest within the horizon"
        first = self.settled + 1
        self._gap(Gap(first=first, last=first - 1, attribution=Attribution.UNATTRIBUTED, why=why, maybe_restart=True))

    def _indices(self, lives: list[Life]) -> list[int | None]:
        """The incarnation that each life is: as its runs were laid out before, else the next one."""
        found: list[int | None] = []
        next_one = len(self.lived)
        for life in lives:
            known = {self._of[run] for run in life.runs if run in self._of}
            before = next((index for index in reversed(found) if index is not None), None)
            forgotten = not any(run.payloads for run in life.runs)
            if forgotten or (not known and before is not None and before + 1 < next_one):
                found.append(None)  # or between lives that were handed on
                continue
            index = max(known, default=next_one)
            next_one = max(next_one, index + 1)
            found = [None if other == index else other for other in found]  # parted after it was handed on
            found.append(index)
        return found

    def _limit(self, lives: list[Life], indices: list[int | None], timeline: Timeline, *, force: bool) -> int | None:
        """Up to which number the last life is settled; None when it is not known yet."""
        if not lives:
            return None
        of = {run: at for at, life in enumerate(lives) for run in life.runs}
        up = [self._witnesses[source] for source in self._up]
        current = [witness for witness in up if witness.runs and of[witness.runs[-1]] == len(lives) - 1]
        if not force and (len(current) < len(up) or not up or any(witness.fresh for witness in up)):
            return None
        incarnation = timeline.incarnations[-1]
        if force:
            return incarnation.batches[-1].number if incarnation.batches else None
        limit = min(witness.last for witness in current)
        fresh = indices[-1] == len(self.lived)
        if self.replay and fresh and not incarnation.origin_known:
            return None
        for gap in incarnation.gaps:
            if (fresh or gap.first > self.settled) and (self.replay or limit - gap.last <= LATE):
                return None if self.replay else min(limit, gap.first - 1)
        return limit

    def _emit(self, index: int | None, incarnation: Incarnation, limit: int | None) -> None:
        if index is None or index < len(self.lived) - 1 or not incarnation.batches:
            return
        if index >= len(self.lived):
            if limit is not None and incarnation.batches[0].number > limit:
                return
            self.settled, self._floor = -1, 0
            self.losses.begin()
            self._begin(Lived(index=index, origin_known=incarnation.origin_known))
        lived = self.lived[-1]
        lived.seams |= incarnation.seams
        for step in incarnation.steps():
            first = step.first if isinstance(step, Gap) else step.number
            if first <= self.settled:
                continue
            if limit is not None and (step.last + 1 if isinstance(step, Gap) else step.number) > limit:
                break
            if isinstance(step, Gap):
                self._gap(step)
                continue
            self.settled = step.number
            lived.batches += 1
            self.losses.settled(index, step.number, step.seen_by)
            self.to.batch(step)

    def _classify(self, timeline: Timeline, indices: list[int | None]) -> None:
        newest = self._classified
        for live in timeline.live:
            newest = max(newest, live.record)
            index = indices[live.incarnation]
            if live.record <= self._classified:
                continue
            at = self._arrived.pop(live.record, None)
            if index is not None and at is not None:
                self.senders.add(msgspec.structs.replace(live, incarnation=index), *at)
            if live.record in self.copied:
                continue
            if index is None or (live.arrival is Arrival.FILLED and self._forgotten(index, live.number)):
                self.beyond["live batches under older numbers, not judged"] += 1
            else:
                self.to.live(msgspec.structs.replace(live, incarnation=index))
        self._classified = newest

    def _forgotten(self, index: int, number: int) -> bool:
        """Whether it is not known any more what an incarnation had under a number."""
        return index < len(self.lived) - 1 or number < self._floor

    def _settle_down(self, life: Life) -> None:
        """Go on with what comes ascending."""
        self._window, self._pending = {}, {}
        seen = sorted((seen.record, run.source, seen) for run in life.runs for seen in run.payloads.values())
        entries: dict[int, Entry] = {}
        for record, source, sighting in seen:
            entry = entries.get(sighting.number)
            if entry is None:
                topic = self.copies.settle(sighting.number.to_bytes(8, "big"), sighting.payload)
                entries[sighting.number] = Entry(sighting.payload, source, record, topic)
            elif entry.second is None and entry.source != source and source in self._witnesses:
                entry.second = source, record
        for number in sorted(entries):
            (self._window if number <= self.settled else self._pending)[number] = entries[number]
        current = {witness.runs[-1]: source for source, witness in self._witnesses.items() if witness.runs}
        own = set(life.runs)
        for run, source in current.items():
            if run in own:
                run.sightings.clear()
                run.payloads.clear()
            else:
                self._up.discard(source)
        self._forget_runs(current)
        self.copied = {record for record in self.copied if record > self._classified}
        self._bytes = sum(len(entry.payload) for entry in entries.values())
        self._arrived.clear()
        self.collected.forget_numbers()
        self.steady = True
        self._rested = self._classified
        self._count_witnesses()
        if self._pending:
            self._hand_on()

    def _forget_runs(self, current: Collection[Run]) -> None:
        """Forget the oldest runs and answers that are over, beyond the horizon."""
        room = self.horizon.batches
        for witness in self._witnesses.values():
            kept = 0
            for run in reversed([run for run in witness.runs if run not in current]):
                kept += len(run.payloads)
                if kept > room:
                    witness.runs.remove(run)
                    self._of.pop(run, None)
            if len(witness.own) > 2 * room:
                witness.own = dict(islice(witness.own.items(), len(witness.own) - room, None))
        kept = 0
        for client, answer in reversed(list(self.collected.answers.items())):
            kept += sum(len(seen.payload) for seen in answer.sightings)
            if kept > self.horizon.bytes:
                del self.collected.answers[client]
                self._of.pop(answer, None)
                self.beyond["replay answers, not judged"] += 1

    # the end

    def finish(self) -> Timeline:
        """Hand on the rest; the timeline, as far back as the horizon goes."""
        if self.steady and self._pending and not self.collected.answers:
            self._hand_on(end=True)
        if not self.steady or self._pending or self.collected.answers:
            self._unsettle()
            self._lay_out(force=True, end=True)
            return self.timeline
        return Timeline(incarnations=tuple(self._lives()), live=(), answers=())

    def notes(self) -> Iterator[str]:
        """What was not judged, or is not shown, as it is beyond what is kept."""
        for what, count in self.beyond.items():
            yield f"beyond what is kept (the last {self.horizon.batches} batches): {count} {what}"
        if more := sum(lived.more_gaps for lived in self.lived):
            yield f"{more} more gaps, which are not shown"
        if self.losses.more:
            yield f"{self.losses.more} more losses of a witness, which are not shown"

    def _lives(self) -> list[Incarnation]:
        return [
            Incarnation(
                index=lived.index,
                batches=(),
                gaps=tuple(lived.gaps),
                origin_known=lived.origin_known,
                seams=lived.seams,
            )
            for lived in self.lived
        ]

    def _whole(self, timeline: Timeline, indices: list[int | None]) -> Timeline:
        """A timeline of what was collected, with every incarnation at its index."""
        lives = self._lives()
        for index, incarnation in zip(indices, timeline.incarnations, strict=True):
            if index is not None and index < len(lives):
                lives[index] = msgspec.structs.replace(lives[index], batches=incarnation.batches)
        return Timeline(
            incarnations=tuple(lives),
            live=tuple(
                msgspec.structs.replace(live, incarnation=index)
                for live in timeline.live
                if (index := indices[live.incarnation]) is not None
            ),
            answers=tuple(
                msgspec.structs.replace(
                    answer, incarnation=None if answer.incarnation is None else indices[answer.incarnation]
                )
                for answer in timeline.answers
            ),
        )
