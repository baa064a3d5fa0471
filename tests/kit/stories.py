"""Synthetic traces: what a publisher sends and what the harness sees of it, told as a story.

A ``Story`` numbers batches, remembers what its publisher retains, and writes the records that two witnesses, replay
clients and monitors would have written. Everything can be bent: who sees a message, under which number, with which
bytes. ``ts`` rises by a second a batch; the first batch of a life holds a clear unless told otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kvwire.conclusion.judging import judge_stream
from kvwire.conclusion.showing import Judged
from kvwire.history.exchanges import SILENT
from kvwire.history.timeline import DISCONNECTED, Timeline, build
from kvwire.judges.verdict import Outcome, Verdict
from kvwire.standard import registry
from kvwire.standard.registry import ControlLevel, Profile
from kvwire.standard.statement import Statement
from kvwire.trace.attempts import ATTEMPTS, NS, lasted_s
from kvwire.trace.calls import BoundAt, PublishCall, RestartCall
from kvwire.trace.detail import Detail, SocketEvent
from kvwire.trace.marks import WELL_FORMED, ReplayDone, ReplayRequest, Stalled
from kvwire.trace.records import FORMAT, Header, Record, StreamInfo, Trace
from kvwire.wire.framing import END_SEQUENCE
from kvwire.wire.projection import batch_projection

Event = dict[str, Any]

T0 = 1_735_689_600.0
"""2025-01-01 00:00:00 UTC: the ``ts`` of the first batch of a story."""
STREAM = "s"
TOPIC = b"kv"
RANK = 0
END_MARKER = (b"", b"", END_SEQUENCE, b"")
VERBS = ("publish", "cache", "resident", "reset", "fault", "stats", "start", "restart", "stop")
SPOKEN = frozenset({Verdict.FAIL, Verdict.WARN})


# --- events and payloads -----------------------------------------------------------------------------------------


def block(name: int | str) -> int:
    """A signed 64-bit hash of a large magnitude for a small name: ``block("a")``, ``block(3)``."""
    number = name if isinstance(name, int) else int.from_bytes(name.encode(), "big")
    value = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
    return value - 2**64 if value >= 2**63 else value


def blocks(names: Iterable[int | str]) -> list[int]:
    """Hashes for several names; a string is one name a letter."""
    return [block(name) for name in names]


def stored(
    names: Iterable[int | str], parent: int | str | None = None, size: int = 4, medium: str | None = "GPU", **extra: Any
) -> Event:
    """A ``BlockStored`` of full blocks, its tokens made from their names."""
    hashes = blocks(names)
    return {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": None if parent is None else block(parent),
        "token_ids": [(value + at) % 50_000 for value in hashes for at in range(size)],
        "block_size": size,
        "lora_id": None,
        "medium": medium,
        "lora_name": None,
        **extra,
    }


def removed(names: Iterable[int | str], medium: str | None = "GPU", **extra: Any) -> Event:
    """A ``BlockRemoved``."""
    return {"type": "BlockRemoved", "block_hashes": blocks(names), "medium": medium, **extra}


def cleared() -> Event:
    """An ``AllBlocksCleared``."""
    return {"type": "AllBlocksCleared"}


def pack(value: Any) -> bytes:
    """Any value as msgpack."""
    return msgspec.msgpack.encode(value)


def payload(*events: Event, ts: float = T0, rank: int | None = RANK) -> bytes:
    """A batch as it stands on the wire."""
    return pack([ts, list(events), rank])


def foreign(number: int) -> bytes:
    """Bytes that no story sends under a number."""
    return payload(ts=T0 - 1000.0 - number)


def number_frame(number: int) -> bytes:
    """A sequence number as 8 bytes, big-endian."""
    return struct.pack(">Q", number)


def thrice(act: Callable[[], object]) -> None:
    """So many attempts as it takes until what does not come is certain not to."""
    for _ in range(ATTEMPTS):
        act()


# --- stories -----------------------------------------------------------------------------------------------------


class Story:
    """A trace while it is told.

    ``by`` names the witnesses that see something: ``"ab"`` both, one record after the other; ``""`` nobody.
    """

    def __init__(
        self,
        *,
        topic: bytes = TOPIC,
        rank: int = RANK,
        ring: int = 1000,
        statement: Statement | None = None,
        replay: bool = True,
        can: Sequence[str] = VERBS,
        sets: Sequence[str] = (),
        stream: str = STREAM,
        declared_topic: str | None = "kv",
        declared_rank: int | None = RANK,
    ) -> None:
        self.topic = topic
        self.rank = rank
        self.ring = ring
        self.statement = Statement(ring=ring) if statement is None else statement
        self.can = tuple(can)
        self.sets = tuple(sets)
        self.info = StreamInfo(
            name=stream,
            endpoint="tcp://127.0.0.1:5557",
            replay="tcp://127.0.0.1:5657" if replay else None,
            topic=declared_topic,
            rank=declared_rank,
        )
        self.records: list[Record] = []
        self.next = 0
        self.retained: dict[int, bytes] = {}
        self.clock = T0
        self.now_ns = -1_000_000
        self._clients = 0
        self._lives = 0

    # records

    def record(self, source: str, **fields: Any) -> int:
        """Write one record; its index in the trace."""
        return self.write(source, self.info.name, **fields)

    def write(self, source: str, stream: str, *, detail: Detail | None = None, **fields: Any) -> int:
        """One of any stream. Time passes: a millisecond, and as long as is said that something was awaited."""
        answered = detail is None or (isinstance(detail, ReplayDone) and detail.outcome not in SILENT)
        self.now_ns += 1_000_000 + (0 if answered or detail is None else round(NS * lasted_s(detail)))
        self.records.append(Record(t_ns=self.now_ns, source=source, stream=stream, detail=detail, **fields))
        return len(self.records) - 1

    def stands_still(self, of: str = "harness", seconds: float = 3.0, stream: str = "") -> None:
        """Something that takes part was held up for so long, until now."""
        detail = Stalled(of=of, ms=1000 * seconds)
        self.records.append(Record(t_ns=self.now_ns, source=detail.SOURCE, stream=stream, detail=detail))

    def frames(self, *frames: bytes, by: str = "ab") -> None:
        """A live message of any frames, as each of the witnesses sees it."""
        for witness in by:
            self.record(f"live-{witness}", frames=frames)

    def live(self, number: int, content: bytes, by: str = "ab") -> None:
        """A live message, without any effect on what the publisher counts or retains."""
        self.frames(self.topic, number_frame(number), content, by=by)

    def monitor(self, event: str, by: str = "ab") -> None:
        """An event of the witnesses' monitors."""
        for witness in by:
            self.note(SocketEvent(event=event, of=f"live-{witness}"))

    def note(self, detail: Detail, **fields: Any) -> int:
        """Something that the harness did, or that was no message; the index of its record."""
        return self.record(detail.SOURCE, detail=detail, **fields)

    # the publisher

    def tick(self) -> float:
        """The next ``ts``."""
        self.clock += 1.0
        return self.clock

    def make(self, *events: Event, content: bytes | None = None) -> tuple[int, bytes]:
        """Number a batch and retain it, unseen; its number and payload."""
        number, self.next = self.next, self.next + 1
        content = payload(*events, ts=self.tick(), rank=self.rank) if content is None else content
        self.retained[number] = content
        while len(self.retained) > self.ring:
            del self.retained[min(self.retained)]
        return number, content

    def send(self, *events: Event, by: str = "ab", content: bytes | None = None) -> int:
        """Send a batch of these events; its number."""
        number, content = self.make(*events, content=content)
        self.live(number, content, by)
        return number

    def again(self, number: int, by: str = "ab") -> None:
        """Send a retained batch live once more."""
        self.live(number, self.retained[number], by)

    def drop(self, count: int = 1) -> None:
        """Lose batches inside the publisher: their numbers are used up, and nothing is retained."""
        self.next += count
        self.clock += count

    def begin(self, by: str = "ab") -> Story:
        """The first batch of a life: a clear."""
        self.send(cleared(), by=by)
        return self

    def told(self, count: int = 4, *, by: str = "ab") -> Story:
        """A life of so many batches: a clear, then stores of roots that no other life has."""
        self.begin(by)
        for at in range(1, count):
            self.send(stored([f"{self._lives}-{at}"]), by=by)
        return self

    def die(self) -> None:
        """End this life of the publisher; nobody has noticed yet."""
        self.next = 0
        self.retained.clear()
        self.clock += 10.0
        self._lives += 1

    def disconnect(self, by: str = "ab") -> None:
        """The witnesses' connections end."""
        self.monitor(DISCONNECTED, by)

    def connect(self, by: str = "ab") -> None:
        """The witnesses' connections complete their handshake."""
        self.monitor("HANDSHAKE_SUCCEEDED", by)

    def restart(self, by: str = "ab", *, ours: bool = False) -> None:
        """End this life and begin the next: the witnesses notice and come back. ``ours``: the harness asked for it."""
        self.die()
        if ours:
            self.note(RestartCall(bound=BoundAt(endpoint=self.info.endpoint)))
        self.disconnect(by)
        self.connect(by)

    # replay

    def ask(self, start: int | None = 0, kind: str = WELL_FORMED, **more: Any) -> str:
        """Send a replay request; the name of its client."""
        self._clients += 1
        client = f"replay-{self._clients}"
        number = None if start is None else str(start)
        self.note(ReplayRequest(client=client, kind=kind, start=number, **more))
        return client

    def answer(self, client: str, *frames: bytes) -> None:
        """One message of an answer, as the client's DEALER reads it."""
        self.record(client, frames=frames)

    def answer_batches(self, client: str, batches: Mapping[int, bytes]) -> None:
        """Batches in an answer, in the order given."""
        for number, content in batches.items():
            self.answer(client, b"", self.topic, number_frame(number), content)

    def done(self, client: str, outcome: str = "marker", after_s: float = 10.0) -> int:
        """End the hearing of an answer; the index of the record."""
        return self.note(ReplayDone(client=client, outcome=outcome, after_s=after_s))

    def replay(
        self,
        start: int = 0,
        *,
        without: Iterable[int] = (),
        marker: bool = True,
        attempts: int = ATTEMPTS,
        **detail: Any,
    ) -> str:
        """A whole exchange, answered from what is retained; the name of its client.

        Without a ``marker`` it is awaited in vain, and asked for in several attempts.
        """
        left_out = set(without)
        client = self._replay(start, left_out, marker=marker, **detail)
        for _ in range(1, 1 if marker else attempts):
            client = self._replay(start, left_out, marker=marker, again=True, **detail)
        return client

    def _replay(self, start: int, left_out: set[int], *, marker: bool, **detail: Any) -> str:
        client = self.ask(start, **detail)
        kept = {n: c for n, c in sorted(self.retained.items()) if n >= start and n not in left_out}
        self.answer_batches(client, kept)
        if marker:
            self.answer(client, *END_MARKER)
        self.done(client, "marker" if marker else "timeout")
        return client

    # an adapter

    def offer(
        self, *events: Event, ts: float | None = None, accepted: bool = True, rank: int = RANK, **detail: Any
    ) -> float:
        """Offer a batch through ``publish``; its ``ts``."""
        ts = self.tick() if ts is None else ts
        self.note(PublishCall(batch=batch_projection(ts, events, rank), accepted=accepted, **detail))
        return ts

    def publish(self, *events: Event, by: str = "ab") -> int:
        """Offer a batch, and send it as it was offered; its number."""
        ts = self.offer(*events)
        return self.send(content=payload(*events, ts=ts, rank=self.rank), by=by)

    # the end

    @property
    def level(self) -> ControlLevel:
        """What control the story has."""
        if self.can:
            return "driven"
        return "passive" if self.info.replay is None else "replayable"

    def trace(self) -> Trace:
        """The trace so far."""
        header = Header(
            trace=FORMAT,
            edition="1",
            target="trace:story",
            level=self.level,
            can=self.can,
            sets=self.sets,
            profile="everything",
            statement=self.statement,
            streams=(self.info,),
        )
        return Trace(header=header, records=tuple(self.records))

    def timeline(self) -> Timeline:
        """The timeline of the story."""
        return build(list(enumerate(self.records)))

    def arrivals(self, witness: str = "a") -> list[tuple[int, str, int]]:
        """Number, arrival and incarnation of each live message of a witness."""
        return [
            (live.number, live.arrival.value, live.incarnation)
            for live in self.timeline().live
            if live.source == f"live-{witness}"
        ]

    def lives(self) -> list[list[int]]:
        """The numbers of each incarnation."""
        return [[batch.number for batch in life.batches] for life in self.timeline().incarnations]

    def judged(self) -> Judged:
        """The story, judged by everything."""
        return judge_stream(self.trace(), self.info, registry.load(), everything())

    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of every judged sentence, by its id without ``KVW-``."""
        return {outcome.requirement.removeprefix("KVW-"): outcome for outcome in self.judged().outcomes}

    def outcome(self, requirement: str) -> Outcome:
        """The outcome of one sentence, its id written without ``KVW-``."""
        return self.outcomes()[requirement]

    def verdict(self, requirement: str) -> tuple[Verdict, int]:
        """The verdict on one sentence, and how many witnesses it has."""
        outcome = self.outcome(requirement)
        return outcome.verdict, outcome.witnesses

    def place(self, requirement: str) -> tuple[str | None, str | None, int | None, str | None]:
        """Where the first finding of a sentence is: number, frame, offset, and the bytes there in hex."""
        where = self.outcome(requirement).findings[0].where
        return where.number, where.frame, where.offset, where.hex

    def spoken(self) -> dict[str, str]:
        """The sentences that are FAIL or WARN, with what the first finding saw."""
        return {
            name: outcome.findings[0].seen for name, outcome in self.outcomes().items() if outcome.verdict in SPOKEN
        }

    def witnessed(self) -> set[str]:
        """The sentences that have at least one witness."""
        return {name for name, outcome in self.outcomes().items() if outcome.witnesses}


def everything() -> Profile:
    """A profile of every sentence that binds a publisher."""
    ids = tuple(requirement.id for requirement in registry.load().binding("publisher"))
    return Profile(profile="everything", edition="1", title="Everything", ids=ids, conclusive={})
