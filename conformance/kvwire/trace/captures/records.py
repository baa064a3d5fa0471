"""A second pass over a capture: its messages as the records of a trace.

Of the connections that carry one stream two at a time are its witnesses; where one ends, another takes its place.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from kvwire.trace.captures.connections import Side
from kvwire.trace.captures.conversation import Conversation
from kvwire.trace.captures.flow import ALL_HELD_BYTES, SEGMENT_COST, SETTLE_NS
from kvwire.trace.captures.survey import COMPARED, Key, Link, Pass
from kvwire.trace.detail import Detail, SocketEvent
from kvwire.trace.marks import WELL_FORMED, CaptureGap, CaptureNote, ReplayDone, ReplayRequest
from kvwire.trace.records import LIVE, Record, Source
from kvwire.wire.framing import END_SEQUENCE, number_of, split_live, split_replay

WINDOW_NS = 4 * SETTLE_NS
"""How much later than its packets something can be known."""
STALE_NS = 10_000_000_000
"""For how long a witness's publisher may send nothing while another connection brings messages."""

Outcome = Literal["marker", "disconnected", "over", "overtaken"]


class _Queue:
    """What connections bring, in the order of its packets: that of one can be known later than that of another."""

    def __init__(self, desk: Records) -> None:
        self.desk = desk
        self.passed = -1
        """Everything up to this time was handed on."""
        self._count = 0
        self._bytes = 0
        self._waiting: list[tuple[int, int, int, Callable[[], None]]] = []

    def drain(self, until: int) -> None:
        """Hand on what happened up to a time, and what is more than is held."""
        while self._waiting and (self._waiting[0][0] <= until or self._bytes > ALL_HELD_BYTES):
            t_ns, _, size, act = heapq.heappop(self._waiting)
            self._bytes -= size
            self.passed = max(self.passed, t_ns)
            act()

    def _put(self, t_ns: int, act: Callable[[], None], size: int = 0) -> None:
        self._count += 1
        self._bytes += size + SEGMENT_COST
        heapq.heappush(self._waiting, (t_ns, self._count, size + SEGMENT_COST, act))

    def begun(self, talk: Conversation, t_ns: int) -> None:
        """As the desk."""
        if t_ns >= self.passed:
            self._put(t_ns, lambda: self.desk.begun(talk, t_ns))

    def message(self, talk: Conversation, side: Side, frames: tuple[bytes, ...], t_ns: int) -> None:
        """As the desk."""
        late = t_ns < self.passed
        self._put(t_ns, lambda: self.desk.message(talk, side, frames, t_ns, late=late), sum(map(len, frames)))

    def lost(self, talk: Conversation, side: Side, length: int, t_ns: int, *, exact: bool) -> None:
        """As the desk."""
        self._put(t_ns, lambda: self.desk.lost(talk, side, length, t_ns, exact=exact))

    def foreign(self, talk: Conversation, side: Side, why: str, t_ns: int) -> None:
        """As the desk."""
        self._put(t_ns, lambda: self.desk.foreign(talk, side, why, t_ns))

    def closing(self, talk: Conversation, side: Side, t_ns: int) -> None:
        """As the desk."""
        self._put(t_ns, lambda: self.desk.closing(talk, side, t_ns))

    def over(self, talk: Conversation, t_ns: int) -> None:
        """As the desk."""
        self._put(t_ns, lambda: self.desk.over(talk, t_ns))


class _Slot:
    """One witness of a stream: the connection that it hears now, if any."""

    def __init__(self, source: Source) -> None:
        self.source = source.value
        self.talk: Conversation | None = None
        self.handshakes = 0
        self.down = False
        """The end of the last connection stands in the trace."""
        self.leaving = False
        """The subscriber of the connection has said its last."""
        self.newest = -1
        self.heard: dict[int, int] = {}
        """The newest batches, by number."""
        self.heard_ns = -1

    def hears(self, number: int, digest: int) -> None:
        """A batch."""
        self.newest = number
        self.heard[number] = digest
        if len(self.heard) > COMPARED:
            del self.heard[next(iter(self.heard))]

    def free(self, t_ns: int) -> bool:
        """Whether another connection may take its place."""
        return self.talk is None or self.leaving or t_ns - self.talk.heard_ns > STALE_NS


class _Stream:
    """One stream while its records are made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.slots = [_Slot(source) for source in LIVE]

    def room(self, t_ns: int) -> _Slot | None:
        """The witness whose place a connection may take, but for one that has heard later packets."""
        return next((slot for slot in self.slots if slot.free(t_ns) and slot.heard_ns <= t_ns), None)


class _Asked:
    """One replay request that is being answered."""

    def __init__(self, name: str, since_ns: int) -> None:
        self.name = name
        self.since_ns = since_ns
        self.messages = 0
        self.last: int | None = None
        self.marked = False


class _Client:
    """One replay connection: its requests from the one that is being answered on."""

    def __init__(self) -> None:
        self.first = ""
        self.asked: list[_Asked] = []
        self.stray = False
        """An answer is under way whose request was not seen."""
        self.lost = False
        """What comes can no longer be assigned to a request for certain."""


class Records:
    """Makes the records. ``streams`` maps publishers to the names of their streams, ``replays`` replay endpoints."""

    def __init__(
        self,
        once: Pass,
        links: Mapping[int, Link],
        streams: Mapping[Key, str],
        replays: Mapping[Key, str],
        notes: list[str],
    ) -> None:
        self._pass = once
        self._links = links
        self._streams = {name: _Stream(name) for name in streams.values()}
        self._names = {**streams, **replays}
        self._notes = notes
        self._clients: dict[int, _Client] = {}
        self._asked = 0
        self._out: list[Record] = []

    def __iter__(self) -> Iterator[Record]:
        begun = False
        queue = _Queue(self)
        for _ in self._pass.run(queue, self._prepare):
            if not begun:
                begun = True
                yield from (self._record(self._pass.now, "", CaptureNote(text=text)) for text in self._notes)
            queue.drain(self._pass.now - WINDOW_NS)
            if self._out:
                yield from self._out
                self._out.clear()
        queue.drain(self._pass.now + WINDOW_NS)
        yield from self._out

    def _prepare(self, talk: Conversation) -> None:
        link = self._links.get(talk.connection.number)
        if link is not None:
            talk.assume(link.role, link.publisher)

    def _of(self, talk: Conversation) -> tuple[Link, str] | None:
        """What a connection is, and the name of its stream; None when it is of no use."""
        link = self._links.get(talk.connection.number)
        name = None if link is None else self._names.get(link.key)
        return None if link is None or name is None else (link, name)

    @staticmethod
    def _record(t_ns: int, stream: str, detail: Detail, connection: int | None = None) -> Record:
        return Record(t_ns=t_ns, source=detail.SOURCE, stream=stream, connection=connection, detail=detail)

    def _note(self, t_ns: int, stream: str, detail: Detail, connection: int | None = None) -> None:
        self._out.append(self._record(t_ns, stream, detail, connection))

    # the desk

    def begun(self, talk: Conversation, t_ns: int) -> None:
        """A subscriber is there: it is a witness where one is wanted."""
        if (found := self._of(talk)) is None:
            return
        link, name = found
        if link.role == "replay":
            return
        stream = self._streams[name]
        free = stream.room(t_ns)
        if free is not None and free.heard_ns < talk.connection.first_ns:
            self._hear(stream, free, talk, t_ns)

    def message(
        self, talk: Conversation, side: Side, frames: tuple[bytes, ...], t_ns: int, *, late: bool = False
    ) -> None:
        """A message of a peer; ``late``: others have gone on, and what was sent or asked when is unknown."""
        if (found := self._of(talk)) is None:
            return
        link, name = found
        if link.role == "live":
            if side == link.publisher:
                self._live(self._streams[name], talk, frames, t_ns, late=late)
            return
        client = self._clients.setdefault(talk.connection.number, _Client())
        if late:
            self._lose(name, client, t_ns)
        if client.lost:
            return
        if side == link.publisher:
            self._answer(name, client, frames, t_ns)
        else:
            self._request(name, client, frames, t_ns)

    def lost(self, talk: Conversation, side: Side, length: int, t_ns: int, *, exact: bool) -> None:
        """A hole: nobody's fault."""
        if (found := self._of(talk)) is None:
            return
        link, name = found
        client = self._clients.get(talk.connection.number)
        if client is not None:
            self._lose(name, client, t_ns)
        slot = self._slot(talk, name) if link.role == "live" and side == link.publisher else None
        if slot is not None:
            self._note(t_ns, name, CaptureGap(of=slot.source, bytes=length, exact=exact))
            if length > ALL_HELD_BYTES:  # so much is not lost in a row: it is another connection of the same ports
                self._hear(self._streams[name], slot, talk, t_ns)

    def foreign(self, talk: Conversation, side: Side, why: str, t_ns: int) -> None:
        """The rest of a connection is not read."""
        if (found := self._of(talk)) is None:
            return
        link, name = found
        if (client := self._clients.get(talk.connection.number)) is not None:
            self._lose(name, client, t_ns)
        if link.role == "live" and side == link.publisher and (slot := self._slot(talk, name)) is not None:
            slot.talk = None

    def closing(self, talk: Conversation, side: Side, t_ns: int) -> None:
        """A peer ends: the publisher, and the connection is lost; or the subscriber, who makes room for another."""
        if (found := self._of(talk)) is None:
            return
        link, name = found
        if (client := self._clients.get(talk.connection.number)) is not None:
            self._leave(name, client, "disconnected", t_ns)
            return
        slot = self._slot(talk, name) if link.role == "live" else None
        if slot is None:
            return
        if side == link.publisher:
            self._down(name, slot, t_ns)
            slot.talk = None
        else:
            slot.leaving = True

    def over(self, talk: Conversation, t_ns: int) -> None:
        """Nothing more comes over a connection."""
        if (found := self._of(talk)) is None:
            return
        link, name = found
        client = self._clients.pop(talk.connection.number, None)
        if client is not None:
            self._leave(name, client, "over", t_ns)
        elif link.role == "live" and (slot := self._slot(talk, name)) is not None:
            slot.talk = None

    # live

    def _slot(self, talk: Conversation, name: str) -> _Slot | None:
        return next((slot for slot in self._streams[name].slots if slot.talk is talk), None)

    def _down(self, name: str, slot: _Slot, t_ns: int) -> None:
        if slot.handshakes and not slot.down:
            self._note(t_ns, name, SocketEvent(event="DISCONNECTED", of=slot.source), slot.handshakes)
        slot.down = True

    def _hear(self, stream: _Stream, slot: _Slot, talk: Conversation, t_ns: int) -> None:
        self._down(stream.name, slot, t_ns)
        slot.handshakes += 1
        slot.down = slot.leaving = False
        slot.talk = talk
        self._note(t_ns, stream.name, SocketEvent(event="HANDSHAKE_SUCCEEDED", of=slot.source), slot.handshakes)

    def _live(self, stream: _Stream, talk: Conversation, frames: tuple[bytes, ...], t_ns: int, *, late: bool) -> None:
        parts = split_live(frames)
        if parts is not None:
            self._outlived(stream, talk, parts[0], hash(frames), t_ns)
        slot = self._slot(talk, stream.name)
        if slot is None:
            slot = None if late else stream.room(t_ns)
            if slot is None:
                return  # a copy more than there are witnesses, or found after others have gone on
            if talk.connection.first_ns <= slot.heard_ns and (parts is None or parts[0] <= slot.newest):
                return  # heard over the connection whose place it takes
            self._hear(stream, slot, talk, t_ns)
        if parts is not None:
            slot.hears(parts[0], hash(frames))
        slot.heard_ns = t_ns
        self._out.append(
            Record(t_ns=t_ns, source=slot.source, stream=stream.name, connection=slot.handshakes, frames=frames)
        )

    def _outlived(self, stream: _Stream, talk: Conversation, number: int, digest: int, t_ns: int) -> None:
        """A witness that has heard nothing since this connection began, and had come beyond its number with another
        batch, is of an earlier life, whose end the capture lacks.
        """
        for slot in stream.slots:
            open_ = slot.talk is not talk and slot.handshakes and not slot.down
            silent = open_ and slot.heard_ns < talk.connection.first_ns
            if silent and number <= slot.newest and slot.heard.get(number) != digest:
                self._down(stream.name, slot, t_ns)
                slot.talk = None

    # replay

    def _request(self, name: str, client: _Client, frames: tuple[bytes, ...], t_ns: int) -> None:
        """A request; of one that is malformed it is unknown whether what comes next answers it."""
        start = number_of(frames[1]) if len(frames) == 2 and frames[0] == b"" else None
        if start is None or client.stray:
            self._lose(name, client, t_ns)
            return
        self._asked += 1
        asked = _Asked(f"replay-{self._asked}", t_ns)
        if client.asked and client.asked[0].marked:
            del client.asked[0]
        client.asked.append(asked)
        request = ReplayRequest(
            client=asked.name,
            kind=WELL_FORMED,
            start=str(start),
            frames=tuple(frame.hex() for frame in frames),
            connection=client.first,
        )
        client.first = client.first or asked.name
        self._note(t_ns, name, request)

    def _answer(self, name: str, client: _Client, frames: tuple[bytes, ...], t_ns: int) -> None:
        """A message of an answer: to the oldest request that has no end marker, or the next where numbers fall."""
        parts = split_replay(frames)
        marker = parts is not None and parts[1] == END_SEQUENCE
        if not client.asked:
            client.stray = not marker
            return
        number = None if parts is None or marker else number_of(parts[1])
        asked = client.asked[0]
        falls = number is not None and asked.last is not None and number <= asked.last
        if (asked.marked or falls) and len(client.asked) > 1:
            if not asked.marked:
                self._done(name, asked, "overtaken", t_ns)
            del client.asked[0]
            asked = client.asked[0]
        asked.messages += 1
        asked.last = asked.last if number is None else number
        self._out.append(Record(t_ns=t_ns, source=asked.name, stream=name, frames=frames))
        if marker and not asked.marked:
            asked.marked = True
            self._done(name, asked, "marker", t_ns)

    def _done(self, name: str, asked: _Asked, outcome: Outcome, t_ns: int) -> None:
        after_s = round((t_ns - asked.since_ns) / 1e9, 6)
        done = ReplayDone(client=asked.name, outcome=outcome, after_s=after_s, messages=asked.messages)
        self._note(t_ns, name, done)

    def _leave(self, name: str, client: _Client, outcome: Outcome, t_ns: int) -> None:
        """No more answers come over a connection."""
        for asked in client.asked:
            if not asked.marked:
                self._done(name, asked, outcome, t_ns)
        client.asked.clear()

    def _lose(self, name: str, client: _Client, t_ns: int) -> None:
        """What comes over a connection can no longer be assigned to a request."""
        self._leave(name, client, "over", t_ns)
        client.lost = True
