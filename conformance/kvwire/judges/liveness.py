"""Liveness and stopping: the engine comes first, and what an orderly stop owes (spec/liveness.md)."""

from __future__ import annotations

from kvwire.judges.area import Area, Say, judge, unless
from kvwire.judges.verdict import Where
from kvwire.trace.attempts import Strain, strains
from kvwire.trace.calls import BurstCall, CacheCall, PublishCall, StartCall, StatsCall, StopCall
from kvwire.trace.detail import Detail
from kvwire.trace.marks import BurstBegins, Freed, IdleDone
from kvwire.trace.records import Records, told
from kvwire.wire.framing import split_live

ATTEMPTS = 3
"""How often the call has to be too long in one situation."""


class Liveness(Area):
    """Reads how long calls took under strain, what came of idle times and of stops."""

    memory = "O(instances)"

    def finish(self) -> None:
        for index, idle in told(self.facts.stimuli, IdleDone):
            self.beats(index, idle)
        situations: dict[str, list[Strain]] = {}
        for strain in strains(self.facts.stimuli):
            situations.setdefault(strain.situation, []).append(strain)
        for situation, attempts in situations.items():
            self.never_blocks(situation, attempts)
        for records in self.context.instances.values():
            self._saturated(records)
        for records in (self.facts.stimuli, *self.context.instances.values()):
            for index, freed in told(records, Freed):
                self.frees(index, freed)

    # the engine

    @judge("KVW-LIV-001")
    def never_blocks(self, say: Say, situation: str, attempts: list[Strain]) -> None:
        """KVW-LIV-001: A publisher MUST NOT block its engine beyond the declared bound `publish_ms` for a slow
        subscriber, a full queue or a replay client.

        The adapter measures its call. A time alone proves nothing on a busy machine: the call has to be too long in
        each of several attempts, and those in which a thread of the harness was held up as well do not count.
        """
        bound = self.context.statement.bounds.publish_ms
        calm = [attempt for attempt in attempts if attempt.stalled_ms < bound / 2]
        long = [attempt for attempt in calm if attempt.longest_ms > bound]
        for attempt in attempts:
            if attempt.longest_ms <= bound:
                say.saw(attempt.calls)
        if len(long) >= ATTEMPTS and len(long) == len(calm):
            times = ", ".join(f"{attempt.longest_ms:.0f}" for attempt in long)
            say.broke(
                f"a call that returns within {bound:g} ms",
                f"{situation}: in {len(long)} attempts of {len(long)} a call that took {times} ms",
                Where(record=long[0].record),
            )
        elif len(long) == len(attempts) or not calm:
            say.open(f"{situation}: a call was too long, and too few attempts could be made to be sure")
        elif long:
            say.note(f"{situation}: a call took {long[0].longest_ms:.0f} ms, and the next ones did not")

    @judge("KVW-LIV-002", unclaimed=unless(lambda _, statement: statement.bounds.heartbeat_s is not None))
    def beats(self, say: Say, index: int, idle: IdleDone) -> None:
        """KVW-LIV-002: A publisher SHOULD send an empty batch when it has sent nothing for the declared interval
        `heartbeat_s`.

        The harness is silent and waits for twice the interval. A stream on which others cause batches shows nothing.
        """
        interval = self.context.statement.bounds.heartbeat_s
        match idle.outcome:
            case "seen":
                say.saw()
            case "bound":
                say.broke(
                    f"an empty batch after {interval:g} s without one",
                    f"nothing for {idle.after_s:g} s",
                    Where(record=index),
                )
            case _:
                say.open("the stream was not idle for the declared interval")

    # stopping

    def _saturated(self, records: Records) -> None:
        """A burst on a way that is stopped, the publisher's stop at once, and what passed when the way was free."""
        begun = [at for at, (_, record) in enumerate(records) if isinstance(record.detail, BurstBegins)]
        for at in begun:
            burst = _Burst(records, at)
            if burst.stop is None:
                continue
            if burst.why_open:
                self.sends_all.open(burst.why_open)
                self.counts_rest.open(burst.why_open)
                continue
            self.sends_all(burst)
            self.counts_rest(burst)

    @judge("KVW-LIV-003")
    def sends_all(self, say: Say, burst: _Burst) -> None:
        """KVW-LIV-003: A publisher SHOULD send every batch that it accepted, on an orderly stop, within the declared
        bound `stop_s`.

        A relay of ours lets nothing pass, a burst that no buffer of the kernel holds is accepted, and soon after the
        stop, a quarter of the bound at most, everything passes. What is missing at the end of the numbers was lost by
        the stop; a hole before it was not.
        """
        if not burst.missing:
            say.saw(burst.accepted)
            return
        say.broke(
            f"the {burst.accepted} batches that were accepted before the stop, up to number {burst.last}",
            f"nothing after number {burst.seen}: the last {burst.missing} never came",
            Where(record=burst.stop, number=str(burst.seen)),
        )

    @judge("KVW-LIV-004")
    def counts_rest(self, say: Say, burst: _Burst) -> None:
        """KVW-LIV-004: A publisher MUST count as dropped every batch that it accepted and did not send before it
        stopped.

        Each accepted batch is an occasion: it arrives, or is counted. Without counters a loss stays open.
        """
        if burst.missing and burst.dropped is None:
            say.open(f"{burst.missing} accepted batches never came, and the adapter counts no drops")
        elif burst.missing > (burst.dropped or 0):
            say.broke(
                f"{burst.missing} more batches counted as dropped: so many were accepted and never came",
                f"{burst.dropped} more",
                Where(record=burst.stop),
            )
        else:
            say.saw(burst.accepted)

    @judge("KVW-LIV-005")
    def frees(self, say: Say, index: int, freed: Freed) -> None:
        """KVW-LIV-005: A publisher SHOULD free its ports within the declared bound `stop_s` on an orderly stop.

        The harness tries to bind them until it succeeds, for the bound and a second more, as this machine may be busy.
        """
        if freed.outcome == "free":
            say.saw()
        elif freed.outcome == "held":
            say.broke(
                f"{freed.endpoint!r} free again within {freed.bound_s:g} s of the stop",
                "somebody still listens there",
                Where(record=index),
            )


class _Burst:
    """What was accepted after a mark, and what came of it.

    ``last`` is the number that the last accepted batch has, ``seen`` the highest that came; ``missing`` counts those
    between them. ``dropped`` is by how many the counter of drops rose, None where there is none.
    """

    def __init__(self, records: Records, at: int) -> None:
        before, after = records[:at], records[at + 1 :]
        self.stop: int | None = None
        self.why_open = ""
        self.accepted = 0
        prompts = False
        self.dropped: int | None = None
        offered: int | None = None
        counters = [call.dropped for _, call in told(before, StatsCall) if call.succeeded]
        dropped_before = (counters[-1] if counters else None) or 0
        for index, record in after:
            match record.detail:
                case StartCall() | BurstBegins():
                    break
                case StopCall(error=error, refused=refused):
                    self.stop = index
                    failed = error or refused
                    self.why_open = f"the stop failed: {failed}" if failed else ""
                case StatsCall(succeeded=True, offered=offered, dropped=dropped) if self.stop is not None:
                    self.dropped = None if dropped is None else dropped - dropped_before
                case detail if self.stop is None:
                    self.accepted += _accepted(detail)
                    prompts = prompts or isinstance(detail, CacheCall)
        first, self.seen = _newest(before), _newest(records)
        if first is None or self.seen is None or not self.accepted:
            self.why_open = self.why_open or "nothing was heard of this publisher before the burst, or nothing accepted"
        elif offered is None and prompts:
            self.why_open = self.why_open or "the adapter does not count the batches that a prompt caused"
        if self.why_open or first is None or self.seen is None:
            self.last = self.missing = 0
            return
        self.last = first + self.accepted if offered is None else offered - 1
        self.missing = max(0, self.last - self.seen)


def _accepted(detail: Detail | None) -> int:
    """How many batches a stimulus got accepted."""
    match detail:
        case PublishCall(accepted=True):
            return 1
        case BurstCall(accepted=tuple(answers)):
            return sum(answers)
        case CacheCall(succeeded=True):
            return 1
    return 0


def _newest(records: Records) -> int | None:
    """The highest number that came live."""
    live = (split_live(record.frames) for _, record in records if record.is_live and record.frames is not None)
    return max((parts[0] for parts in live if parts is not None), default=None)
