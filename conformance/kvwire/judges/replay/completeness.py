"""Replay: whether an answer holds all that it should, for clients that pause and rings that evict (spec/replay.md)."""

from __future__ import annotations

from collections.abc import Sequence

from kvwire.history.exchanges import UNTOLD, Exchange, Hole, Sent, holes
from kvwire.history.timeline import Answer
from kvwire.judges.area import ABSURD, Area, Context, Say, at_record, judge
from kvwire.judges.patience import Patience
from kvwire.judges.verdict import Where
from kvwire.trace.marks import ReplayResumed
from kvwire.trace.records import told


class Completeness(Area):
    """Compares answers with what was sent live and with later answers; decides at the end, when those are known."""

    memory = "O(ring)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.went_on = Patience(self.goes_on_from_oldest)
        self.completed = Patience(self.resumes)
        self.resumed: dict[str, ReplayResumed] = {}

    def finish(self) -> None:
        self.resumed = {resumed.connection: resumed for _, resumed in told(self.facts.stimuli, ReplayResumed)}
        self._retained()
        self._slow()
        self._too_few()
        self.went_on.decide()
        self.completed.decide()

    def _too_few(self) -> None:
        """A full pipe was wanted, and nowhere could more be asked for than pipes take."""
        beside = (told(records, ReplayResumed) for records in self.context.instances.values())
        tried = [*self.resumed.values(), *(resumed for found in beside for _, resumed in found)]
        if self.resumed and not any(resumed.overflows for resumed in tried):
            most = max(resumed.requests * resumed.retained for resumed in tried)
            self.complete.open(
                f"{most} batches at once are fewer than the pipes of a connection take, and none was full"
            )

    # every client

    def _retained(self) -> None:
        """What was sent live, against what complete answers of that incarnation hold."""
        answers = self.context.timeline.answers
        for answer in answers:
            exchange = self.facts.exchanges.get(answer.source)
            if exchange is None or not exchange.well_formed or not answer.ended or exchange.done is None:
                continue
            if exchange.connection in self.facts.mixed:
                continue
            if answer.incarnation is None or not (answer.start or 0) <= (answer.newest_live or -1) < ABSURD:
                continue
            seams = self.context.timeline.incarnations[answer.incarnation].seams
            life = Sent(self.facts.sent[answer.incarnation], answer, exchange.done, self.context.statement.ring, seams)
            others = [other for other in answers if other is not answer and other.incarnation == answer.incarnation]
            if not exchange.slow:
                self._complete(exchange, life, others)
                continue
            # What is left out at the end is KVW-REP-009's then, and what was evicted meanwhile KVW-REP-020's.
            later = [other for other in others if other.request > exchange.done]
            left_out = holes(answer, self.facts.sent[answer.incarnation], later)
            if left_out is not None:
                skipped = [hole.retained for hole in left_out if not hole.at_end and not hole.evicted]
                self.complete(exchange, life, [number for numbers in skipped for number in numbers])

    def _complete(self, exchange: Exchange, life: Sent, others: list[Answer]) -> None:
        held = frozenset[int]().union(*(other.numbers for other in others))
        behind = [other for other in others if other.request > life.done]
        later = frozenset[int]().union(*(other.numbers for other in behind))
        certain = [number for number in life.missing if number in later or life.unevicted(number)]
        cut = [number for number in certain if number in held]
        nowhere = [number for number in certain if number not in held]
        newest = max([*held, *life.answer.numbers], default=-1)
        telling = [answer for answer in (life.answer, *behind) if _tells(answer, newest)]
        lost = [number for number in nowhere if any(_began_above(number, answer) for answer in telling)]
        if len(nowhere) > len(lost) and not (cut or lost):
            self.complete.open(f"{len(nowhere)} batches are missing in an answer, and no other answer holds them")
        if unsure := len(life.missing) - len(certain):
            self.complete.open(f"{unsure} batches are missing in an answer, and may have been evicted meanwhile")
        if self._not_yet(life.answer, cut):
            self._too_late(exchange, cut[0])
            cut = []
        self.complete(exchange, life, cut)
        self.kept(exchange, life, lost)

    def _not_yet(self, answer: Answer, missing: Sequence[int]) -> bool:
        """Whether an answer lacks the newest batch alone, and nothing shows that it was retained then.

        No earlier answer held it: that a batch is sent before it is retained explains it.
        """
        if len(missing) != 1 or missing[0] < max(answer.numbers, default=-1):
            return False
        return not any(
            missing[0] in other.numbers
            for other in self.facts.answers.values()
            if other.request < answer.request and other.incarnation == answer.incarnation
        )

    @judge("KVW-REP-008")
    def complete(self, say: Say, exchange: Exchange, life: Sent, missing: list[int]) -> None:
        """KVW-REP-008: A publisher MUST send the end marker only after it has handed to the client, in order, every
        requested batch that was retained when it began to answer and still is.

        A missing batch was retained all the time if a later answer holds it, or if an earlier one does and it cannot
        have been evicted. A batch that no answer holds may never have been retained.
        """
        if not missing:
            say.saw(len(life.asked) - len(life.missing))
            return
        say.broke(
            f"all {len(life.asked)} batches sent from {life.floor} to {life.newest}, then the end marker",
            f"the end marker after {len(life.answer.numbers)} batches; {len(missing)} are missing, first {missing[0]}, "
            "which another answer holds",
            _end(exchange),
        )

    @judge("KVW-REP-013")
    def kept(self, say: Say, exchange: Exchange, life: Sent, missing: list[int]) -> None:
        """KVW-REP-013: A publisher MUST retain for replay every batch that it sends, empty ones included, from before
        it is sent until its ring evicts it from the oldest end, and keep at least the newest.

        What is older than the oldest in the answer was evicted, unless the declared ring still has room for it. What is
        missing in the middle may have been retained and left out; an answer that was asked to begin with it tells. The
        newest alone, just heard when the request was made, was not retained yet.
        """
        say.saw(len(life.asked) - len(life.missing))
        if missing:
            say.broke(
                f"every batch sent live from {life.floor} to {life.newest} in the ring",
                f"{len(missing)} that no answer holds, the first {missing[0]}",
                _end(exchange),
            )

    def _too_late(self, exchange: Exchange, number: int) -> None:
        """KVW-REP-013: a batch that was sent before it was retained."""
        self.kept.broke(
            f"number {number} in the ring, which had been sent before it was asked for",
            "the end marker instead, and the batch in a later answer",
            _end(exchange),
        )

    # clients that pause

    def _slow(self) -> None:
        answers = self.facts.answers
        lives = {
            self.facts.exchanges[answer.source].connection: answer.incarnation
            for answer in answers.values()
            if answer.source in self.facts.exchanges and answer.incarnation is not None
        }
        for exchange in self.facts.exchanges.values():
            answer = answers.get(exchange.client)
            if not exchange.slow or exchange.outcome is None or exchange.done is None or answer is None:
                continue
            if exchange.connection in self.facts.mixed:
                continue
            life = lives.get(exchange.connection)
            others = (other for other in answers.values() if other.incarnation == life)
            later = [other for other in others if other.request > exchange.done]
            left_out = holes(answer, self.facts.sent[life], later)
            if left_out is not None:
                self._left_out(exchange, left_out)
            elif exchange.situation == "paused":
                self.resumes.open("no later answer tells what was retained when the client had paused")

    def _completes(self) -> bool:
        """Whether every answer on some connection that paused came to its end, though its pipes cannot hold them."""
        ended: dict[str, bool] = {}
        for exchange in self.facts.exchanges.values():
            resumed = self.resumed.get(exchange.connection)
            if exchange.situation == "paused" and resumed is not None and resumed.overflows:
                ended[exchange.connection] = bool(exchange.ends) and ended.get(exchange.connection, True)
        return any(ended.values())

    def _left_out(self, exchange: Exchange, left_out: tuple[Hole, ...]) -> None:
        at_end = next((hole for hole in left_out if hole.at_end), None)
        answer = self.facts.answers[exchange.client]
        if exchange.ends and at_end is not None and self._not_yet(answer, at_end.retained):
            self._too_late(exchange, at_end.retained[0])
        elif exchange.ends:
            self.no_false_end(exchange, at_end)
        elif not exchange.data and exchange.outcome not in UNTOLD:
            self.no_false_end.saw()
        if exchange.situation != "paused":
            return
        for hole in left_out:
            if hole.evicted and (exchange.ends or not hole.at_end):
                self.goes_on_from_oldest(exchange, hole)
        if not exchange.ends and at_end is not None and at_end.evicted and self._completes():
            self.goes_on_from_oldest(exchange, at_end)
        else:
            self.resumes(exchange, left_out)

    @judge("KVW-REP-009")
    def no_false_end(self, say: Say, exchange: Exchange, at_end: Hole | None) -> None:
        """KVW-REP-009: A publisher MUST NOT send the end marker to a client that it gave up on, or for a request that
        it dropped.

        The answer to a client that did not read ends with the marker, and before it, at its end, batches are missing
        that a later answer holds. In the middle of an answer they are KVW-REP-008's.
        """
        if at_end is None or at_end.evicted or not at_end.retained:
            say.saw()
            return
        say.broke(
            f"no end marker without the {len(at_end.retained)} batches from {at_end.first} on, which were retained",
            f"the end marker after {len(exchange.data)} batches",
            _end(exchange),
        )

    @judge("KVW-REP-020")
    def goes_on_from_oldest(self, say: Say, exchange: Exchange, hole: Hole) -> None:
        """KVW-REP-020: A publisher MUST go on from the oldest retained batch when batches of an answer were evicted
        before they could be sent.

        The hole begins with batches that were evicted; those in it that a later answer holds should have been sent. An
        answer that breaks off there breaks it only if the publisher completes answers after a pause otherwise.
        """
        if not hole.retained:
            if hole.end is not None:
                say.saw()
            return
        went_on = "the end marker" if exchange.ends else "nothing"
        expected = (
            f"number {hole.retained[0]}, the oldest retained after {hole.evicted} batches from {hole.first} on were "
            "evicted"
        )
        seen = f"{went_on if hole.end is None else f'number {hole.end}'} next"
        if hole.end is None and exchange.vain:
            for wait in exchange.waits(self.facts.stalls):
                self.went_on.missed(exchange.client, wait, expected, seen, Where(record=exchange.done))
        else:
            say.broke(expected, seen, Where(record=exchange.done))

    @judge("KVW-REP-010")
    def resumes(self, say: Say, exchange: Exchange, left_out: tuple[Hole, ...]) -> None:
        """KVW-REP-010: A publisher SHOULD complete the answer for a client that stops reading and resumes, in each of
        its pauses, within the declared bound `replay_resume_s`.

        A witness is an answer on a connection whose requests together ask for more than its pipes take: what fits into
        them is completed by the sockets alone.
        """
        resumed = self.resumed.get(exchange.connection)
        bound = self.context.statement.bounds.replay_resume_s
        if resumed is None or (not resumed.overflows and exchange.ends):
            return
        if exchange.outcome in UNTOLD:
            say.open(UNTOLD[exchange.outcome])
        elif resumed.paused_s > bound:
            say.open(f"the pause lasted {resumed.paused_s:g} s, longer than the declared {bound:g} s")
        elif exchange.ends:
            say.saw()
        else:
            retained = sum(len(hole.retained) for hole in left_out)
            expected = f"{len(exchange.data) + retained} batches and the end marker after a pause within {bound:g} s"
            seen = f"{len(exchange.data)} batches and no end marker (receive high-water mark {resumed.rcvhwm})"
            for wait in exchange.waits(self.facts.stalls):
                self.completed.missed(exchange.client, wait, expected, seen, Where(record=exchange.done))
            if not exchange.vain:
                say.broke(expected, seen, Where(record=exchange.done))


def _tells(answer: Answer, newest: int) -> bool:
    """Whether an answer tells what was not retained: one without a batch does not where others hold higher numbers."""
    return answer.ended and answer.start is not None and bool(answer.numbers or answer.start > newest)


def _began_above(number: int, answer: Answer) -> bool:
    """Whether an answer was asked for a number, or for lower ones, and began above it."""
    return (answer.start or 0) <= number < min(answer.numbers[:1], default=number + 1)


def _end(exchange: Exchange) -> Where:
    end = exchange.ends[0]
    return at_record(end.record, "message", b"".join(end.frames))
