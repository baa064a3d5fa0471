"""Replay: requests, answers and end markers (spec/replay.md)."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from kvwire.judges.area import HEX_BYTES, Area, Context, at_record, judge
from kvwire.stimuli import WELL_FORMED
from kvwire.timeline import END_SEQUENCE, Answer, Live, number_of, split_replay
from kvwire.trace import Record, Source
from kvwire.verdict import Where

OTHER_COUNT = "frames"
"""Kinds of malformed requests begin with what is wrong: ``frames-…``, ``delimiter-…`` or ``start-…``."""


class _Item(msgspec.Struct, frozen=True):
    record: int
    frames: tuple[bytes, ...]
    topic: bytes | None
    sequence: bytes
    payload: bytes

    @property
    def is_end(self) -> bool:
        return self.sequence == END_SEQUENCE


class _Exchange:
    """One request and all that came back on its socket."""

    def __init__(self, client: str, request: int, start: int | None, kind: str) -> None:
        self.client = client
        self.request = request
        self.start = start
        self.kind = kind
        self.followed = False
        """Whether another request was sent behind it: an end marker shows that it was read."""
        self.items: list[_Item] = []
        self.odd: list[tuple[int, tuple[bytes, ...]]] = []
        self.outcome: str | None = None
        self.done: int | None = None

    @property
    def well_formed(self) -> bool:
        return self.kind == WELL_FORMED

    @property
    def data(self) -> list[_Item]:
        return [item for item in self.items if not item.is_end]

    @property
    def ends(self) -> list[_Item]:
        return [item for item in self.items if item.is_end]


class Replay(Area):
    """Reads requests, answers and live messages; decides at the end, when later answers are known too."""

    name = "replay"
    memory = "O(ring)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.exchanges: dict[str, _Exchange] = {}
        self.live_frames: dict[int, tuple[bytes, ...]] = {}
        self.heedless = False
        """Whether an answer began below the start that was asked for."""

    def on_record(self, index: int, record: Record) -> None:
        if record.is_live and record.frames is not None:
            self.live_frames[index] = record.frames
        elif record.source == Source.STIMULUS and record.event == "replay-request":
            start = record.detail.get("start")
            client = str(record.detail.get("client"))
            self.exchanges[client] = _Exchange(
                client, index, None if start is None else int(start), str(record.detail.get("kind", WELL_FORMED))
            )
        elif record.source == Source.STIMULUS and record.event == "replay-behind":
            self.exchanges[str(record.detail.get("client"))].followed = True
        elif record.source == Source.STIMULUS and record.event == "replay-done":
            exchange = self.exchanges.get(str(record.detail.get("client")))
            if exchange is not None:
                exchange.outcome = str(record.detail.get("outcome"))
                exchange.done = index
        elif record.is_replay and record.frames is not None and record.source in self.exchanges:
            exchange = self.exchanges[record.source]
            parts = split_replay(record.frames)
            if parts is None:
                exchange.odd.append((index, record.frames))
            else:
                exchange.items.append(_Item(index, record.frames, *parts))

    def finish(self) -> None:
        timeline = self.context.timeline
        answers = {answer.source: answer for answer in timeline.answers}
        by_number: dict[tuple[int | None, int], list[Live]] = defaultdict(list)
        for live in timeline.live:
            by_number[live.incarnation, live.number].append(live)
        self.heedless = any(
            (number_of(exchange.data[0].sequence) or 0) < (exchange.start or 0)
            for exchange in self.exchanges.values()
            if exchange.well_formed and exchange.data
        )
        before: _Exchange | None = None
        for exchange in self.exchanges.values():
            if exchange.outcome is None:
                continue
            answer = answers.get(exchange.client)
            if exchange.well_formed:
                after_malformed = before is not None and not before.well_formed
                if before is not None and after_malformed:
                    self.next_is_served(before, exchange)
                if exchange.items or exchange.odd or not after_malformed:
                    self._well_formed(exchange, answer, by_number)
            else:
                self.no_data_for_odd_frames(exchange)
                self.no_data_for_odd_fields(exchange)
                self.marker_alone(exchange)
            before = exchange
        self._retained(list(answers.values()))

    def _well_formed(
        self, exchange: _Exchange, answer: Answer | None, by_number: dict[tuple[int | None, int], list[Live]]
    ) -> None:
        life = None if answer is None else answer.incarnation
        for item in exchange.data:
            number = number_of(item.sequence)
            lives = [] if number is None else by_number.get((life, number), [])
            self.as_live(item, lives[0] if lives else None)
        self.ascending(exchange)
        newest = None if answer is None else answer.newest_live
        nothing = newest is not None and exchange.start is not None and exchange.start > newest
        if nothing and not exchange.data:
            self.end_of_nothing(exchange)
        else:
            self.one_end(exchange)
        self.empty_marker(exchange)
        self.declared_marker(exchange)

    def _odd_frames(self, exchange: _Exchange) -> str:
        if not exchange.odd:
            return ""
        frames = exchange.odd[0][1]
        return f"; {len(exchange.odd)} messages of another shape, the first of {len(frames)} frames"

    # what an answer holds

    @judge("KVW-REP-001")
    def as_live(self, item: _Item, live: Live | None) -> None:
        """KVW-REP-001: A publisher MUST send each replayed batch as an empty delimiter followed by the topic,
        sequence number and payload frames, byte for byte as they were sent live.

        Compared with the live copy of the same incarnation; without one only the number of frames is judged.
        """
        if item.topic is None:
            self.broke(
                "KVW-REP-001",
                "delimiter, topic, sequence number, payload",
                f"{len(item.frames)} frames, no topic (form replay-bare)",
                at_record(item.record, "message", b"".join(item.frames)),
            )
            return
        if live is None or live.record not in self.live_frames:
            return
        there = self.live_frames[live.record]
        if there == item.frames[1:]:
            self.saw("KVW-REP-001")
            return
        names = ("topic", "sequence", "payload")
        for name, sent, replayed in zip(names, there, item.frames[1:], strict=False):
            if sent != replayed:
                at = next((i for i, (a, b) in enumerate(zip(sent, replayed, strict=False)) if a != b), 0)
                self.broke(
                    "KVW-REP-001",
                    f"the {name} frame as it was sent live: {sent[at : at + HEX_BYTES].hex() or '(empty)'}",
                    f"{replayed[at : at + HEX_BYTES].hex() or '(empty)'}",
                    Where(
                        record=item.record,
                        number=str(number_of(item.sequence)),
                        frame=name,
                        offset=at,
                        hex=replayed[at : at + HEX_BYTES].hex(),
                    ),
                )
                return

    @judge("KVW-REP-002")
    def ascending(self, exchange: _Exchange) -> None:
        """KVW-REP-002: A publisher MUST answer a request for start S with retained batches numbered S or higher only,
        in ascending order, each once.
        """
        last: int | None = None
        for item in exchange.data:
            number = number_of(item.sequence)
            if number is None:
                continue
            floor = exchange.start or 0 if last is None else last + 1
            if number >= floor:
                self.saw("KVW-REP-002")
            else:
                self.broke(
                    "KVW-REP-002",
                    f"a number of at least {floor}",
                    f"number {number} after {last}" if last is not None else f"number {number} as the first",
                    at_record(item.record, "sequence", item.sequence, number),
                )
                return
            last = number

    # the end marker

    @judge("KVW-REP-003")
    def one_end(self, exchange: _Exchange) -> None:
        """KVW-REP-003: A publisher MUST end the answer to a well-formed request with exactly one end marker: empty
        delimiter, empty topic, eight bytes `ff`, payload.
        """
        ends = exchange.ends
        if len(ends) == 1 and ends[0].topic is not None and exchange.items[-1] is ends[0] and ends[0].topic == b"":
            self.saw("KVW-REP-003")
            return
        if not ends:
            seen = f"no end marker within the bound after {len(exchange.data)} batches{self._odd_frames(exchange)}"
            where = Where(record=exchange.done)
        elif len(ends) > 1:
            seen = f"{len(ends)} end markers"
            where = at_record(ends[1].record, "message", b"".join(ends[1].frames))
        elif ends[0].topic is None:
            seen = f"an end marker of {len(ends[0].frames)} frames, no topic (form replay-bare)"
            where = at_record(ends[0].record, "message", b"".join(ends[0].frames))
        elif ends[0].topic != b"":
            seen = f"an end marker whose topic is {ends[0].topic!r}"
            where = at_record(ends[0].record, "topic", ends[0].topic)
        else:
            seen = "batches after the end marker"
            where = at_record(ends[0].record, "message", b"".join(ends[0].frames))
        self.broke("KVW-REP-003", "exactly one end marker: empty, empty, ff×8, payload", seen, where)

    @judge("KVW-REP-004")
    def end_of_nothing(self, exchange: _Exchange) -> None:
        """KVW-REP-004: A publisher MUST answer a well-formed request for which it retains no batch (nothing retained,
        or a start in the future) with the end marker.

        Only requests for which nothing is retained, so that this and KVW-REP-003 fail apart.
        """
        if exchange.ends:
            self.saw("KVW-REP-004")
        else:
            self.broke(
                "KVW-REP-004",
                f"the end marker alone for start {exchange.start}, above everything sent",
                f"no answer within the bound{self._odd_frames(exchange)}",
                Where(record=exchange.done),
            )

    @judge("KVW-REP-014")
    def empty_marker(self, exchange: _Exchange) -> None:
        """KVW-REP-014: A publisher MUST NOT put a payload into the end marker unless it declares the extension
        `end_payload`.
        """
        if "end_payload" in self.context.statement.extensions:
            return
        for item in exchange.ends:
            if item.payload == b"":
                self.saw("KVW-REP-014")
            else:
                self.broke(
                    "KVW-REP-014",
                    "an empty payload in the end marker",
                    f"{len(item.payload)} bytes",
                    at_record(item.record, "payload", item.payload),
                )

    @judge("KVW-REP-015")
    def declared_marker(self, exchange: _Exchange) -> None:
        """KVW-REP-015: A publisher that declares the extension `end_payload` MAY put the msgpack array of the oldest
        and the newest retained sequence number into the payload of the end marker.
        """
        if "end_payload" in self.context.statement.extensions:
            self.saw("KVW-REP-015", sum(1 for item in exchange.ends if item.payload))

    # malformed requests

    @judge("KVW-REP-005")
    def no_data_for_odd_frames(self, exchange: _Exchange) -> None:
        """KVW-REP-005: A publisher MUST NOT answer with a batch a request of another frame count than delimiter and
        start.
        """
        if exchange.kind.startswith(OTHER_COUNT):
            self._no_data("KVW-REP-005", exchange)

    @judge("KVW-REP-006")
    def no_data_for_odd_fields(self, exchange: _Exchange) -> None:
        """KVW-REP-006: A publisher SHOULD NOT answer with a batch a request whose delimiter is not empty or whose
        start is not 8 bytes long.
        """
        if not exchange.kind.startswith(OTHER_COUNT):
            self._no_data("KVW-REP-006", exchange)

    def _no_data(self, requirement: str, exchange: _Exchange) -> None:
        if exchange.followed and not exchange.ends and not exchange.data:
            self.open(requirement, "neither a malformed request nor the well-formed one behind it was answered")
        elif exchange.data and exchange.followed and len(exchange.ends) < 2 and self.heedless:
            self.open(requirement, "a request behind the malformed one may be the cause: starts are not heeded")
        elif exchange.data:
            item = exchange.data[0]
            self.broke(
                requirement,
                f"no batch for a malformed request ({exchange.kind})",
                f"{len(exchange.data)} batches, the first with number {number_of(item.sequence)}",
                at_record(item.record, "message", b"".join(item.frames)),
            )
        else:
            self.saw(requirement)

    @judge("KVW-REP-007")
    def next_is_served(self, malformed: _Exchange, exchange: _Exchange) -> None:
        """KVW-REP-007: A publisher MUST serve the next well-formed request after any malformed one."""
        if exchange.items:
            self.saw("KVW-REP-007")
        else:
            self.broke(
                "KVW-REP-007",
                f"an answer to the well-formed request after a malformed one ({malformed.kind})",
                f"nothing within the bound{self._odd_frames(exchange)}",
                Where(record=exchange.done),
            )

    @judge("KVW-REP-016")
    def marker_alone(self, exchange: _Exchange) -> None:
        """KVW-REP-016: A publisher MAY answer a malformed request with the end marker alone."""
        if len(exchange.ends) > exchange.followed and not exchange.data:
            self.saw("KVW-REP-016")

    # completeness

    def _retained(self, answers: list[Answer]) -> None:
        """What was sent live, against what complete answers of that incarnation hold."""
        sent: dict[int, set[int]] = defaultdict(set)
        for live in self.context.timeline.live:
            sent[live.incarnation].add(live.number)
        held: dict[int, set[int]] = defaultdict(set)
        for answer in answers:
            if answer.incarnation is not None:
                held[answer.incarnation].update(answer.numbers)
        for answer in answers:
            exchange = self.exchanges.get(answer.source)
            if exchange is None or not exchange.well_formed or not answer.ended or not answer.numbers:
                continue
            if answer.incarnation is None or answer.newest_live is None:
                continue
            asked = [number for number in sent[answer.incarnation] if answer.numbers[0] <= number <= answer.newest_live]
            missing = set(asked) - set(answer.numbers)
            nowhere = missing - held[answer.incarnation]
            self.complete(exchange, answer, asked, sorted(missing - nowhere))
            self.kept(exchange, answer, asked, sorted(number for number in nowhere if number < answer.numbers[-1]))
            if tail := [number for number in nowhere if number > answer.numbers[-1]]:
                self.open("KVW-REP-008", f"{len(tail)} batches at the end of an answer, which no other answer holds")

    @judge("KVW-REP-008")
    def complete(self, exchange: _Exchange, answer: Answer, asked: list[int], missing: list[int]) -> None:
        """KVW-REP-008: A publisher MUST send the end marker only after it has handed to the client, in order, every
        requested batch that was retained at the time of the request and still is.

        A batch was retained if another answer holds it, since this one holds an older batch.

        Eviction is from the oldest end. A batch that no answer holds is KVW-REP-013's.
        """
        if not missing:
            self.saw("KVW-REP-008", len(asked))
            return
        end = exchange.ends[0]
        self.broke(
            "KVW-REP-008",
            f"all {len(asked)} batches retained from {answer.numbers[0]} to {answer.newest_live}, then the end marker",
            f"the end marker after {len(answer.numbers)} batches; {len(missing)} are missing, first {missing[0]}, "
            "which another answer holds",
            at_record(end.record, "message", b"".join(end.frames)),
        )

    @judge("KVW-REP-013")
    def kept(self, exchange: _Exchange, answer: Answer, asked: list[int], missing: list[int]) -> None:
        """KVW-REP-013: A publisher MUST retain for replay every batch that it sent, empty ones included, until its
        ring evicts it from the oldest end, and keep at least the newest.

        Only numbers above the oldest in the answer: what is older was evicted.
        """
        self.saw("KVW-REP-013", len(asked) - len(missing))
        if missing:
            end = exchange.ends[0]
            self.broke(
                "KVW-REP-013",
                f"every batch sent live from {answer.numbers[0]} to {answer.newest_live} in the ring",
                f"{len(missing)} that no answer holds, the first {missing[0]}",
                at_record(end.record, "message", b"".join(end.frames)),
            )
