"""Replay: requests, answers and end markers (spec/replay.md)."""

from __future__ import annotations

from collections.abc import Mapping

from kvwire.history.exchanges import Exchange, Item
from kvwire.history.timeline import Answer
from kvwire.judges.area import HEX_BYTES, Area, Context, Say, at_record, judge, unless
from kvwire.judges.patience import Patience
from kvwire.judges.verdict import EXAMPLES, Where
from kvwire.wire.framing import END_SEQUENCE, number_of

OTHER_COUNT = "frames"
"""Kinds of malformed requests begin with what is wrong: ``frames-…``, ``delimiter-…`` or ``start-…``."""
CUT_SHORT = {
    "disconnected": "the connection ended in the middle of it",
    "count": "it exceeds the bound of the harness",
    "over": "the run ended in the middle of it",
}
"""Outcomes of an exchange that leave open how the publisher would have ended it."""
LEGACY_FORMS = ("replay-bare", "none")
"""What can be declared of replay besides the form of this edition."""


class Answers(Area):
    """Reads requests, answers and live messages; decides at the end, when later answers are known too."""

    memory = "O(ring)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.heedless = False
        """Whether an answer began below the start that was asked for."""
        self.ends_nothing = False
        """Whether a request for which nothing is retained was answered with an end marker so far."""
        self.served = False
        """Whether a well-formed request was answered so far."""
        self.ended = Patience(self.one_end)
        self.ended_nothing = Patience(self.end_of_nothing)
        self.went_on = Patience(self.next_is_served)

    def finish(self) -> None:
        answers = self.facts.answers
        self.heedless = any(
            (number_of(exchange.data[0].sequence) or 0) < (exchange.start or 0)
            for exchange in self.facts.exchanges.values()
            if exchange.well_formed and exchange.data
        )
        before: Exchange | None = None
        for exchange in self.facts.exchanges.values():
            if exchange.outcome is None:
                continue
            answer = answers.get(exchange.client)
            if exchange.well_formed:
                after_malformed = before is not None and not before.well_formed
                if before is not None and after_malformed and self.served:
                    self.next_is_served(before, exchange, answered=bool(exchange.items))
                if exchange.items or exchange.odd or not after_malformed:
                    self._well_formed(exchange, answer)
                elif exchange.vain:
                    continue  # it is asked for again
                self.served = self.served or bool(exchange.items)
            else:
                self.no_data_for_odd_frames(exchange)
                self.no_data_for_odd_fields(exchange)
                self.marker_alone(exchange)
                if exchange.followed and self.served and (exchange.ends or self.ends_nothing):
                    self.next_is_served(exchange, exchange, answered=bool(exchange.ends))
            before = exchange
        for patience in (self.ended, self.ended_nothing, self.went_on):
            patience.decide()
        if self.facts.remade:
            self.ascending.open(
                "a connection with several requests was made again: whose answer a batch is of is not certain"
            )

    def _missed(self, patience: Patience, exchange: Exchange, expected: str, seen: str) -> None:
        """A time alone decides; else something else that ended the exchange."""
        for wait in exchange.waits(self.facts.stalls):
            patience.missed(exchange.about, wait, expected, seen, Where(record=exchange.done))

    def _well_formed(self, exchange: Exchange, answer: Answer | None) -> None:
        sent = self.facts.sent[None if answer is None else answer.incarnation]
        for item in exchange.data:
            number = number_of(item.sequence)
            record = self._sent_with(item.payload, sent) if number is None else sent.get(number)
            self.declared_form(item)
            live = None if record is None else self.facts.recent.get(record)
            self.as_live(item, None if live is None else live.frames)
        self.odd_shape(exchange)
        self.ascending(exchange)
        newest = None if answer is None else answer.newest_live
        nothing = newest is not None and exchange.start is not None and exchange.start > newest and not exchange.data
        if nothing:
            self.ends_nothing = self.ends_nothing or bool(exchange.ends)
            if exchange.ends or not exchange.situation:
                self.end_of_nothing(exchange)
        if exchange.connection in self.facts.mixed:
            self._ends_of_mixed(exchange)
        elif exchange.ends or not (nothing or exchange.situation):
            self.one_end(exchange)
        self.empty_marker(exchange)
        self.declared_marker(exchange)

    def _sent_with(self, payload: bytes, sent: Mapping[int, int]) -> int | None:
        """The live record of a batch whose replayed number is none: the first with its payload."""
        if self.as_live.tally.violations >= EXAMPLES:
            return None
        recent = self.facts.recent
        return next((at for at in sent.values() if at in recent and (recent[at].frames or ())[-1:] == (payload,)), None)

    def _ends_of_mixed(self, exchange: Exchange) -> None:
        """KVW-REP-003: one end marker too many on a connection, said once, where it is not certain whose each is."""
        if exchange.client == exchange.connection and exchange.connection in self.facts.overfull:
            ends, asked = self.facts.overfull[exchange.connection]
            expected = f"an end marker for each of {asked} requests on one connection"
            self.one_end.broke(expected, f"{ends} end markers", Where(record=exchange.done))

    # what an answer holds

    @judge("KVW-REP-001")
    def as_live(self, say: Say, item: Item, live: tuple[bytes, ...] | None) -> None:
        """KVW-REP-001: A publisher MUST send each replayed batch as an empty delimiter followed by the topic,
        sequence number and payload frames, byte for byte as they were sent live.

        Compared with the first live copy of the same incarnation; without one only the number of frames is judged.
        """
        if item.topic is None:
            say.broke(
                "delimiter, topic, sequence number, payload",
                f"{len(item.frames)} frames, no topic (form replay-bare)",
                _at(item),
            )
            return
        if live is None:
            return
        if item.frames[1:] == live:
            say.saw()
            return
        names = ("topic", "sequence", "payload")
        for name, sent, replayed in zip(names, live, item.frames[1:], strict=False):
            if sent != replayed:
                at = next(
                    (i for i, (a, b) in enumerate(zip(sent, replayed, strict=False)) if a != b),
                    min(len(sent), len(replayed)),
                )
                say.broke(
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

    @judge(
        "KVW-REP-026",
        unclaimed=unless(lambda _, statement: statement.replay_form in LEGACY_FORMS),
        declares='replay_form other than "replay-topic"',
        memory="O(1)",
    )
    def declared_form(self, say: Say, item: Item) -> None:
        """KVW-REP-026: A publisher that declares another replay form than `replay-topic` MUST keep to it: replayed
        batches without a topic frame under `replay-bare`, none under `none`.

        That the form it keeps to is no form of this edition is for KVW-REP-001.
        """
        form = self.context.statement.replay_form
        if form not in LEGACY_FORMS:
            return
        if form == "replay-bare" and item.topic is None:
            say.saw()
        else:
            expected = "no batch, as no replay is declared" if form == "none" else "a batch without a topic frame"
            seen = "replay-bare" if item.topic is None else "replay-topic"
            say.broke(expected, f"a batch of {len(item.frames)} frames (form {seen})", _at(item))

    def odd_shape(self, exchange: Exchange) -> None:
        """Messages that are neither form of a batch, nor an end marker of another shape (KVW-REP-003), such as a last
        one without a payload.
        """
        last = max((item.record for item in exchange.items), default=-1)
        for record, frames in exchange.odd:
            if END_SEQUENCE not in frames and (frames[-1] or record < last):
                self.as_live.broke(
                    "an empty delimiter, topic, sequence number, payload",
                    f"{len(frames)} frames: {' | '.join(frame[:HEX_BYTES].hex() or '(empty)' for frame in frames)}",
                    at_record(record, "message", b"".join(frames)),
                )
                return

    @judge("KVW-REP-002", memory="O(1)")
    def ascending(self, say: Say, exchange: Exchange) -> None:
        """KVW-REP-002: A publisher MUST answer a request for start S with retained batches numbered S or higher only,
        in ascending order, each once.

        Answers to several requests on one connection that come mixed break it, and leave open whose each message is:
        no other sentence speaks of them. Where more end markers than requests came on it, KVW-REP-003 speaks instead.
        """
        if exchange.connection in self.facts.mixed and exchange.connection in self.facts.overfull:
            say.open("more end markers than requests on one connection: whose answer a batch is of is not certain")
            return
        last: int | None = None
        for item in exchange.data:
            number = number_of(item.sequence)
            if number is None:
                continue
            floor = exchange.start or 0 if last is None else last + 1
            if number >= floor:
                say.saw()
            else:
                say.broke(
                    f"a number of at least {floor}",
                    f"number {number} after {last}" if last is not None else f"number {number} as the first",
                    at_record(item.record, "sequence", item.sequence, number),
                )
                return
            last = number

    # the end marker

    @judge("KVW-REP-003", memory="O(1)")
    def one_end(self, say: Say, exchange: Exchange) -> None:
        """KVW-REP-003: A publisher MUST end the answer to a well-formed request with exactly one end marker: empty
        delimiter, empty topic, eight bytes `ff`, payload.

        An answer in whose middle the connection ended, or that is longer than the harness reads, stays open.
        """
        ends = exchange.ends
        if not ends and exchange.outcome in CUT_SHORT:
            say.open(f"an answer without an end marker: {CUT_SHORT[exchange.outcome]}")
            return
        if len(ends) == 1 and ends[0].topic is not None and exchange.items[-1] is ends[0] and ends[0].topic == b"":
            say.saw()
            self.ended.came(exchange.about)
            return
        expected = "exactly one end marker: empty, empty, ff×8, payload"
        if not ends:
            seen = f"no end marker within the bound after {len(exchange.data)} batches{exchange.oddities}"
            where = Where(record=exchange.done)
            if exchange.vain:
                self._missed(self.ended, exchange, expected, seen)
                return
        elif len(ends) > 1:
            seen = f"{len(ends)} end markers"
            where = _at(ends[1])
        elif ends[0].topic is None:
            seen = f"an end marker of {len(ends[0].frames)} frames, no topic (form replay-bare)"
            where = _at(ends[0])
        elif ends[0].topic != b"":
            seen = f"an end marker whose topic is {ends[0].topic!r}"
            where = at_record(ends[0].record, "topic", ends[0].topic)
        else:
            seen = "batches after the end marker"
            where = _at(ends[0])
        say.broke(expected, seen, where)

    @judge("KVW-REP-004", memory="O(1)")
    def end_of_nothing(self, say: Say, exchange: Exchange) -> None:
        """KVW-REP-004: A publisher MUST answer a well-formed request for which it retains no batch (nothing retained,
        or a start in the future) with the end marker.

        Only requests for which nothing is retained, so that this and KVW-REP-003 fail apart. Of requests under pressure
        others speak: they may be dropped, and their client may be gone.
        """
        expected = f"the end marker alone for start {exchange.start}, above everything sent"
        seen = f"no answer within the bound{exchange.oddities}"
        if exchange.ends:
            say.saw()
            self.ended_nothing.came(exchange.about)
        elif exchange.outcome in CUT_SHORT:
            say.open(f"no end marker: {CUT_SHORT[exchange.outcome]}")
        elif exchange.vain:
            self._missed(self.ended_nothing, exchange, expected, seen)
        else:
            say.broke(expected, seen, Where(record=exchange.done))

    @judge(
        "KVW-REP-014",
        unclaimed=unless(lambda _, statement: "end_payload" not in statement.extensions),
        declares='extensions other than "end_payload"',
        memory="O(1)",
    )
    def empty_marker(self, say: Say, exchange: Exchange) -> None:
        """KVW-REP-014: A publisher MUST NOT put a payload into the end marker unless it declares the extension
        `end_payload`.
        """
        if "end_payload" in self.context.statement.extensions:
            return
        for item in exchange.ends:
            if item.payload == b"":
                say.saw()
            else:
                say.broke(
                    "an empty payload in the end marker",
                    f"{len(item.payload)} bytes",
                    at_record(item.record, "payload", item.payload),
                )

    @judge("KVW-REP-015", memory="O(1)")
    def declared_marker(self, say: Say, exchange: Exchange) -> None:
        """KVW-REP-015: A publisher that declares the extension `end_payload` MAY put the msgpack array of the oldest
        and the newest retained sequence number into the payload of the end marker.
        """
        if "end_payload" not in self.context.statement.extensions:
            return
        for item in exchange.ends:
            if not item.payload:
                continue
            if item.is_range:
                say.saw()
            else:
                say.note(f"an end marker's payload is no array of two numbers: {item.payload.hex()}")

    # malformed requests

    @judge("KVW-REP-005", memory="O(1)")
    def no_data_for_odd_frames(self, say: Say, exchange: Exchange) -> None:
        """KVW-REP-005: A publisher MUST NOT answer with a batch a request of another frame count than delimiter and
        start.
        """
        if exchange.kind.startswith(OTHER_COUNT):
            self._no_data(say, exchange)

    @judge("KVW-REP-006", memory="O(1)")
    def no_data_for_odd_fields(self, say: Say, exchange: Exchange) -> None:
        """KVW-REP-006: A publisher SHOULD NOT answer with a batch a request whose delimiter is not empty or whose
        start is not 8 bytes long.
        """
        if not exchange.kind.startswith(OTHER_COUNT):
            self._no_data(say, exchange)

    def _no_data(self, say: Say, exchange: Exchange) -> None:
        if exchange.followed and not exchange.ends and not exchange.data:
            say.open("neither a malformed request nor the well-formed one behind it was answered")
        elif exchange.data and exchange.followed and len(exchange.ends) < 2 and self.heedless:
            say.open("a request behind the malformed one may be the cause: starts are not heeded")
        elif exchange.data:
            item = exchange.data[0]
            say.broke(
                f"no batch for a malformed request ({exchange.kind})",
                f"{len(exchange.data)} batches, the first with number {number_of(item.sequence)}",
                _at(item),
            )
        else:
            say.saw()

    @judge("KVW-REP-007", memory="O(1)")
    def next_is_served(self, say: Say, malformed: Exchange, exchange: Exchange, *, answered: bool) -> None:
        """KVW-REP-007: A publisher MUST serve the next well-formed request after any malformed one.

        The next one of all, which comes over another connection, and the next one on the same connection, for which
        nothing is retained. A publisher that had served none of its kind before either shows nothing by this.
        """
        where = "on the same connection" if exchange is malformed else "on another connection"
        expected = f"an answer to the well-formed request after a malformed one ({malformed.kind}), {where}"
        seen = f"nothing within the bound{exchange.oddities}"
        if answered:
            say.saw()
        elif exchange.outcome in CUT_SHORT:
            say.open(f"no answer: {CUT_SHORT[exchange.outcome]}")
        elif exchange.vain:
            for wait in exchange.waits(self.facts.stalls):
                self.went_on.missed(malformed.client, wait, expected, seen, Where(record=exchange.done))
        else:
            say.broke(expected, seen, Where(record=exchange.done))

    @judge("KVW-REP-016", memory="O(1)")
    def marker_alone(self, say: Say, exchange: Exchange) -> None:
        """KVW-REP-016: A publisher MAY answer a malformed request with the end marker alone."""
        if len(exchange.ends) > exchange.followed and not exchange.data:
            say.saw()


def _at(item: Item) -> Where:
    return at_record(item.record, "message", b"".join(item.frames))
