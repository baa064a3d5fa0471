"""The consumer's side of the standard, without sockets: from numbered batches to what is resident.

Feed it what arrives. It holds batches back while a question to replay is open, splices the answer in, and
decides between duplicate, hole and new incarnation:

* A **gap** or a **disconnect** opens a question: replay from the last applied number, that one included
  [KVW-SEQ-012].
* The answer begins with the very batch that was last applied: same incarnation, and the splice goes on
  [KVW-SEQ-013].
* It begins with another batch of that number, or is the end marker alone: a **new incarnation**, for which replay
  is read from 0 [KVW-SEQ-014]. So is a lower number, live, unless it repeats a batch byte for byte: that is a
  **duplicate**, and ignored [KVW-SEQ-015]. At 0 the new life begins before our eyes, and nothing has to be read.
  So is an `epoch` other than the one known, whatever the number.
* It begins above that number: the question stays open for ever, which is handled as a hole [KVW-SEQ-016].
* A hole that remains when the answer has ended is **final**: never asked for again [KVW-SEQ-017], and nothing held
  is certain any more [KVW-SEQ-018]. All is dropped, and the stream goes on behind it.
* An answer without its end marker is incomplete and says nothing: ask again [KVW-REP-022].
"""

from collections import OrderedDict
from dataclasses import dataclass, field

import msgspec

from kvwire_reference.residents import Residents
from kvwire_reference.wire import SNAPSHOT_START, AllBlocksCleared, Batch, decode_lenient


@dataclass(slots=True)
class Counters:
    """What happened on a stream, in numbers of batches unless it says otherwise."""

    applied: int = 0
    duplicates: int = 0
    missing: int = 0
    """Numbers that fell into final holes."""
    unreadable: int = 0
    restarts: int = 0
    """New incarnations seen after the first."""
    incomplete: int = 0
    """Answers without an end marker."""
    given_up: int = 0
    """Questions that replay never answered."""


@dataclass(slots=True)
class _Question:
    start: int
    joins: bool
    """Whether nothing was applied when it was asked."""
    same: bool = False
    """Whether what follows the last applied batch may be applied: the answer holds that batch, or begins at 0."""
    sent: bool = False
    heard: int = -1
    """Newest number held back when the question was sent: every number below it had been offered by then."""
    first: int | None = None
    newest: int = -1


@dataclass(slots=True)
class Stream:
    """State of one stream. `remembered`, `buffered` bound its memory in batches; `patience` counts questions.

    More than `buffered` batches held back, or `patience` questions in a row without an end marker, and it goes
    on without an answer, as over a final hole.
    """

    residents: Residents
    remembered: int = 10_000
    buffered: int = 100_000
    patience: int = 3
    last: int = -1
    """Number of the last applied batch of this incarnation; −1 before the first."""
    epoch: str | None = None
    """Name of this incarnation, once a clear has told it."""
    counters: Counters = field(default_factory=Counters)
    _recent: OrderedDict[int, bytes] = field(default_factory=OrderedDict)
    _buffer: dict[int, bytes] = field(default_factory=dict)
    _question: _Question | None = None
    _unanswered: int = 0

    def __post_init__(self) -> None:
        self._question = self._new_question()  # a consumer joins with a question, never with a guess

    # --- what arrives ---

    def live(self, number: int, payload: bytes) -> None:
        """Take a batch from the live stream."""
        known = self._known(number)
        if known == payload:
            self.counters.duplicates += 1
            return
        if known is not None or number <= self.last:
            settled = self.settled
            self._restart()
            if number == 0 and settled:
                self._question = None  # a disconnect is asked about whatever comes [KVW-SEQ-012]
        self._hold(number, payload)

    def disconnected(self) -> None:
        """Note that the publisher went away: when it is back it may be another one.

        Nothing that it sent before may be fed afterwards. What is held back is dropped, for it could not be told
        from what the next one sends; where it is still true, the answer brings it again.
        """
        self._buffer.clear()
        self._question = self._new_question()

    def replayed(self, number: int, payload: bytes) -> None:
        """Take a batch from the answer to the question that was sent last."""
        question = self._question
        if question is None or not question.sent or number < question.start:
            return
        question.newest = max(question.newest, number)
        if question.first is None:
            question.first = number
        known = self._known(number)
        if known is not None and known != payload:
            self._restart()  # of two lives, and whichever is the newer, the answer to the next question tells
        elif number == max(self.last, 0):
            question.same = True
            self._hold(number, payload) if number > self.last else self._advance()
        elif number > self.last:
            self._hold(number, payload)

    def ended(self) -> None:
        """Take the end marker of the answer."""
        question = self._question
        if question is None or not question.sent:
            return
        self._question = None
        self._unanswered = 0
        if question.first is None and not question.joins:
            self._restart()
            return
        if question.first is not None and not question.joins and not question.same:
            for number in [number for number in self._buffer if number < question.first]:
                del self._buffer[number]  # of either incarnation: nobody can tell
            self.residents.restart()
        self._go_on(max(question.heard, question.newest), from_0=question.start == 0)

    def unanswered(self) -> None:
        """Note that the answer stopped short of its end marker, or never came."""
        if self._question is None or not self._question.sent:
            return
        self.counters.incomplete += 1
        self._unanswered += 1
        if self._unanswered >= self.patience:
            self.give_up()
        else:
            self._question = self._new_question()

    # --- what to ask ---

    @property
    def asking(self) -> bool:
        """Whether a question waits to be sent."""
        return self._question is not None and not self._question.sent

    @property
    def waiting(self) -> bool:
        """Whether a question was sent whose answer has not ended."""
        return self._question is not None and self._question.sent

    @property
    def settled(self) -> bool:
        """Whether no question is open: everything that arrived has been applied."""
        return self._question is None

    @property
    def sure(self) -> bool:
        """Whether a block that is not held is known not to be resident."""
        return self.settled and self.residents.complete

    def ask(self) -> int | None:
        """Return the number to ask replay from, now; `None` if there is nothing to ask."""
        if self._question is None or self._question.sent:
            return None
        self._question.sent = True
        self._question.heard = max(self._buffer, default=-1)
        return self._question.start

    def give_up(self) -> None:
        """Go on without an answer, as over a final hole: there is no replay, or it does not answer."""
        if self._question is not None and not self._question.same:
            self.residents.restart()
        self._question = None
        self._unanswered = 0
        self.counters.given_up += 1
        self._go_on(max(self._buffer, default=-1))

    # --- inside ---

    def _known(self, number: int) -> bytes | None:
        return self._recent.get(number, self._buffer.get(number))

    def _new_question(self) -> _Question:
        start = self.last - (self.last == SNAPSHOT_START)
        return _Question(max(start, 0), joins=self.last < 0)

    def _restart(self) -> None:
        self.counters.restarts += 1
        self.residents.restart()
        self._recent.clear()
        self._buffer.clear()
        self.last = -1
        self.epoch = None
        self._question = self._new_question()

    def _hold(self, number: int, payload: bytes) -> None:
        self._buffer[number] = payload
        if len(self._buffer) > self.buffered:
            self.give_up()
        else:
            self._advance()

    def _advance(self) -> None:
        """Apply what follows without a gap; a gap opens a question."""
        if self._question is not None and not self._question.same:
            return
        from_0 = self._question is not None and self._question.start == 0
        while (payload := self._buffer.pop(self.last + 1, None)) is not None:
            if not self._apply(self.last + 1, payload, from_0=from_0):
                return
        if self._buffer and self._question is None:
            self._question = self._new_question()

    def _go_on(self, bound: int, *, from_0: bool = False) -> None:
        """Apply everything up to `bound`; what is missing below it is a final hole."""
        for number in sorted(number for number in self._buffer if number <= bound):
            if number > self.last + 1:
                self.counters.missing += number - self.last - 1
                self.residents.forget()
            if not self._apply(number, self._buffer.pop(number), from_0=from_0):
                return
        self._advance()

    def _apply(self, number: int, payload: bytes, *, from_0: bool) -> bool:
        """Apply a batch, unless it tells of a new incarnation whose beginning has to be asked for.

        `from_0`: it was, and what is retained of it stands in front of this batch.
        """
        if number == 0:
            self.residents.begin()
        try:
            batch = decode_lenient(payload)
        except msgspec.DecodeError:
            self.counters.unreadable += 1
            self.residents.forget()  # its content is as lost as that of a hole
        else:
            epoch = _epoch(batch)
            if None not in (epoch, self.epoch) and epoch != self.epoch:
                if not from_0:
                    ahead = {later: held for later, held in self._buffer.items() if later > number}
                    self._restart()
                    self._buffer = {number: payload, **ahead}
                    return False
                self.counters.restarts += 1
                self.residents.restart()
            self.epoch = epoch or self.epoch
            self.residents.apply(batch)
        self.last = number
        self.counters.applied += 1
        self._recent[number] = payload
        if len(self._recent) > self.remembered:
            self._recent.popitem(last=False)
        return True


def _epoch(batch: Batch) -> str | None:
    """The epoch that the clears of a batch tell, the last of them; an empty one is none."""
    told = [event.epoch for event in batch.events if isinstance(event, AllBlocksCleared) and event.epoch]
    return told[-1] if told else None
