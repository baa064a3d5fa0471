"""Liveness and stopping: the engine comes first, and what an orderly stop owes (spec/liveness.md)."""

from __future__ import annotations

from kvwire.judges.area import Area, Context, judge
from kvwire.judges.verdict import Where
from kvwire.trace.attempts import Strain, strains
from kvwire.trace.calls import BurstCall, CacheCall, PublishCall, StartCall, StatsCall, StopCall
from kvwire.trace.detail import Detail, Stimulus
from kvwire.trace.marks import BurstBegins, Freed, IdleDone
from kvwire.trace.records import Record, Records, told
from kvwire.wire.framing import split_live

ATTEMPTS = 3
"""How often the call has to be too long in one situation."""


class Liveness(Area):
    """Reads how long calls took under strain, what came of idle times and of stops."""

    name = "liveness"
    memory = "O(instances)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.freed: list[tuple[int, Freed]] = []
        self.own: list[tuple[int, Record]] = []

    def on_record(self, index: int, record: Record) -> None:
        match record.detail:
            case Freed() as freed:
                self.freed.append((index, freed))
            case IdleDone() as idle:
                self.beats(index, idle)
            case Stimulus():
                self.own.append((index, record))

    def finish(self) -> None:
        situations: dict[str, list[Strain]] = {}
        for strain in strains(self.own):
            situations.setdefault(strain.situation, []).append(strain)
        for situation, attempts in situations.items():
            self.never_blocks(situation, attempts)
        for records in self.context.instances.values():
            self.freed += told(records, Freed)
            self._saturated(records)
        for index, freed in self.freed:
            self.frees(index, freed)

    # the engine

    @judge("KVW-LIV-001")
    def never_blocks(self, situation: str, attempts: list[Strain]) -> None:
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
                self.saw("KVW-LIV-001", attempt.calls)
        if len(long) >= ATTEMPTS and len(long) == len(calm):
            times = ", ".join(f"{attempt.longest_ms:.0f}" for attempt in long)
            self.broke(
                "KVW-LIV-001",
                f"a call that returns within {bound:g} ms",
                f"{situation}: in {len(long)} attempts of {len(long)} a call that took {times} ms",
                Where(record=long[0].record),
            )
        elif len(long) == len(attempts) or not calm:
            self.open("KVW-LIV-001", f"{situation}: a call was too long, and too few attempts could be made to be sure")
        elif long:
            self.note("KVW-LIV-001", f"{situation}: a call took {long[0].longest_ms:.0f} ms, and the next ones did not")

    @judge("KVW-LIV-002")
    def beats(self, index: int, idle: IdleDone) -> None:
        """KVW-LIV-002: A publisher SHOULD send an empty batch when it has sent nothing for the declared interval
        `heartbeat_s`.

        The harness is silent and waits for twice the interval. A stream on which others cause batches shows nothing.
        """
        interval = self.context.statement.bounds.heartbeat_s
        match idle.outcome:
            case "seen":
                self.saw("KVW-LIV-002")
            case "bound":
                self.broke(
                    "KVW-LIV-002",
                    f"an empty batch after {interval:g} s without one",
                    f"nothing for {idle.after_s:g} s",
                    Where(record=index),
                )
            case _:
                self.open("KVW-LIV-002", "the stream was not idle for the declared interval")

    # stopping

    def _saturated(self, records: Records) -> None:
        """A burst on a way that is stopped, the publisher's stop at once, and what passed when the way was free."""
        begun = [at for at, (_, record) in enumerate(records) if isinstance(record.detail, BurstBegins)]
        for at in begun:
            burst = _Burst(records, at)
            if burst.stop is None:
                continue
            if burst.why_open:
                for requirement in ("KVW-LIV-003", "KVW-LIV-004"):
                    self.open(requirement, burst.why_open)
                continue
            self.sends_all(burst)
            self.counts_rest(burst)

    @judge("KVW-LIV-003")
    def sends_all(self, burst: _Burst) -> None:
        """KVW-LIV-003: A publisher SHOULD send every batch that it accepted, on an orderly stop, within the declared
        bound `stop_s`.

        A relay of ours lets nothing pass, a burst that no buffer of the kernel holds is accepted, and soon after the
        stop, a quarter of the bound at most, everything passes. What is missing at the end of the numbers was lost by
        the stop; a hole before it was not.
        """
        if not burst.missing:
            self.saw("KVW-LIV-003", burst.accepted)
            return
        self.broke(
            "KVW-LIV-003",
            f"the {burst.accepted} batches that were accepted before the stop, up to number {burst.last}",
            f"nothing after number {burst.seen}: the last {burst.missing} never came",
            Where(record=burst.stop, number=str(burst.seen)),
        )

    @judge("KVW-LIV-004")
    def counts_rest(self, burst: _Burst) -> None:
        """KVW-LIV-004: A publisher MUST count as dropped every batch that it accepted and did not send before it
        stopped.

        Each accepted batch is an occasion: it arrives, or is counted. Without counters a loss stays open.
        """
        if burst.missing and burst.dropped is None:
            self.open("KVW-LIV-004", f"{burst.missing} accepted batches never came, and the adapter counts no drops")
        elif burst.missing > (burst.dropped or 0):
            self.broke(
                "KVW-LIV-004",
                f"{burst.missing} more batches counted as dropped: so many were accepted and never came",
                f"{burst.dropped} more",
                Where(record=burst.stop),
            )
        else:
            self.saw("KVW-LIV-004", burst.accepted)

    @judge("KVW-LIV-005")
    def frees(self, index: int, freed: Freed) -> None:
        """KVW-LIV-005: A publisher SHOULD free its ports within the declared bound `stop_s` on an orderly stop.

        The harness tries to bind them until it succeeds, for the bound and a second more, as this machine may be busy.
        """
        if freed.outcome == "free":
            self.saw("KVW-LIV-005")
        elif freed.outcome == "held":
            self.broke(
                "KVW-LIV-005",
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
