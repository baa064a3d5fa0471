"""Liveness and stopping: the engine comes first, and what an orderly stop owes (spec/liveness.md)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Set

from kvwire.judges.area import Area, Say, judge, unless
from kvwire.judges.patience import Patience
from kvwire.judges.verdict import Where
from kvwire.trace.attempts import ATTEMPTS, Stalls, Strain, Wait, strains
from kvwire.trace.calls import BurstCall, CacheCall, PublishCall, RestartCall, StartCall, StatsCall, StopCall
from kvwire.trace.detail import Detail
from kvwire.trace.instances import ADAPTER
from kvwire.trace.marks import BurstBegins, FaultDone, Freed, IdleDone
from kvwire.trace.records import Records, told
from kvwire.wire.framing import split_live

KINDS = {"encode": "encoded", "send": "sent"}
"""What cannot be done with a batch that comes to grief."""
FEATURES = {"lora": "LoRA", "salt": "a salt", "mm": "multimodal content"}
"""What a prompt can have besides tokens, and how it is called."""
NO_ANSWER = "no answer"
"""How the failure of a call begins that took too long, which on a busy machine proves nothing."""
FAILED = "`stop` failed in the adapter"
"""How the failure of a stop begins of which the adapter says that it went wrong."""
INTERRUPTED = "interrupted"
"""The failure of a call that the user ended."""


class Liveness(Area):
    """Reads how long calls took under strain, what came of idle times and of stops."""

    memory = "O(instances)"

    def finish(self) -> None:
        stalls = self.facts.stalls
        heartbeat = Patience(self.beats)
        for index, idle, wait in stalls.waits(self.facts.stimuli, IdleDone):
            self.beats(index, idle, wait, heartbeat)
        heartbeat.decide()
        situations: dict[str, list[Strain]] = {}
        for strain in strains(self.facts.stimuli, stalls):
            situations.setdefault(strain.situation, []).append(strain)
        for situation, attempts in situations.items():
            self.never_blocks(situation, attempts)
        self.goes_on(list(stalls.waits(self.facts.stimuli, FaultDone)))
        sent = Patience(self.sends_all, lasting_s=0.0)
        freeing = Patience(self.frees)
        stops: list[tuple[Records, Stalls]] = [(self.facts.stimuli, stalls)]
        stops += [(records, self.facts.stalls.beside(Stalls(records))) for records in self.context.instances.values()]
        for records, held in stops:
            self._saturated(records, held, sent)
            self._requests(records)
            self._stops(records, held, freeing)
        sent.decide()
        freeing.decide()

    # the engine

    @judge("KVW-LIV-001")
    def never_blocks(self, say: Say, situation: str, attempts: list[Strain]) -> None:
        """KVW-LIV-001: A publisher MUST NOT block its engine beyond the declared bound `publish_ms` for a slow
        subscriber, a full queue or a replay client.

        The adapter measures its call. A time alone proves nothing on a busy machine: the call has to be too long in
        each of several attempts, and those in which something was held up as well do not count.
        """
        bound = self.context.statement.bounds.publish_ms
        calm = [attempt for attempt in attempts if attempt.held_ms < bound / 2]
        over = [attempt for attempt in attempts if attempt.longest_ms > bound]
        long = [attempt for attempt in over if attempt in calm]
        say.saw(sum(attempt.calls for attempt in attempts if attempt not in over))
        if len(long) >= ATTEMPTS and len(long) == len(calm):
            times = ", ".join(f"{attempt.longest_ms:.0f}" for attempt in long)
            say.broke(
                f"a call that returns within {bound:g} ms",
                f"{situation}: in {len(long)} attempts of {len(long)} a call that took {times} ms",
                Where(record=long[0].record),
            )
        elif len(over) == len(attempts):
            say.open(f"{situation}: a call was too long, and too few attempts could be made to be sure")
        elif over:
            say.note(f"{situation}: a call took {over[0].longest_ms:.0f} ms, and the next ones did not")

    @judge(
        "KVW-LIV-002",
        unclaimed=unless(lambda _, statement: statement.bounds.heartbeat_s is not None),
        declares="bounds.heartbeat_s",
    )
    def beats(self, say: Say, index: int, idle: IdleDone, wait: Wait, patience: Patience) -> None:
        """KVW-LIV-002: A publisher SHOULD send an empty batch when it has sent nothing for the declared interval
        `heartbeat_s`.

        The harness is silent and waits for twice the interval, again and again where none comes. A stream on which
        others cause batches shows nothing.
        """
        interval = self.context.statement.bounds.heartbeat_s
        if interval is None:
            say.open("no interval is declared")
            return
        match idle.outcome:
            case "seen":
                say.saw()
                patience.came("heartbeat")
            case "bound":
                patience.missed(
                    "heartbeat",
                    wait,
                    f"an empty batch after {interval:g} s without one",
                    f"nothing for {idle.after_s:g} s",
                    Where(record=index),
                )
            case _:
                say.open("the stream was not idle for the declared interval")

    @judge("KVW-LIV-006")
    def goes_on(self, say: Say, attempts: Sequence[tuple[int, FaultDone, Wait]]) -> None:
        """KVW-LIV-006: A publisher MUST go on publishing after a batch that it could not encode or send.

        A later batch was offered and awaited, again and again where none came.
        """
        patience = Patience(say)
        for at, done, wait in attempts:
            if done.outcome == "seen":
                say.saw()
                patience.came(done.kind)
            else:
                what = f"a batch that is offered after one that cannot be {KINDS.get(done.kind, done.kind)}"
                patience.missed(done.kind, wait, f"{what}, within {done.bound_s:g} s", "nothing came", Where(record=at))
        patience.decide()

    # requests

    def _requests(self, records: Records) -> None:
        """What became of prompts with a LoRA id, a salt or multimodal content, each life by itself."""
        plain: set[tuple[int | str, ...]] = set()
        served: set[frozenset[str]] = set()
        for index, record in records:
            match record.detail:
                case StartCall() | RestartCall():
                    plain, served = set(), set()
                case CacheCall() as call if call.error != INTERRUPTED and call.unsupported is None:
                    features = frozenset(name for name in FEATURES if getattr(call, name) is not None)
                    if features:
                        self.serves(index, call, features, plain=call.tokens in plain, alike=features in served)
                    if call.succeeded:
                        served.add(features)
                        plain |= set() if features else {call.tokens}

    @judge("KVW-LIV-007")
    def serves(self, say: Say, index: int, call: CacheCall, features: Set[str], *, plain: bool, alike: bool) -> None:
        """KVW-LIV-007: A publisher MUST NOT let a request of its engine fail because of an event.

        Prompts differ in what their events hold: a LoRA id, a salt, multimodal content. An engine refuses what it has
        not (the adapter says so, or nothing of the kind is served). One that serves the tokens without it and then
        fails, or serves another value of the same kind (``alike``) and refuses this one, fails because of the event.
        """
        kind = f"prompts with {' and '.join(FEATURES[name] for name in FEATURES if name in features)}"
        if call.succeeded:
            say.saw()
            return
        why = call.refused or call.error or ""
        say.note(f"{'refused' if call.refused is not None else 'failed'}: {kind} ({why})")
        if why.startswith(ADAPTER):
            return
        if alike or (plain and call.error is not None and not why.startswith(NO_ANSWER)):
            value = f" (LoRA id {call.lora})" if call.lora is not None else ""
            control = "as others of the kind are" if alike else "as the same tokens without it are"
            say.broke(f"{kind}{value} served, {control}", why, Where(record=index))
        else:
            say.open(f"{kind} are not served, and whether an event is the reason is not known: {why}")

    # stopping

    def _stops(self, records: Records, stalls: Stalls, patience: Patience) -> None:
        """Stops that failed, and what was looked at after one."""
        runs = False
        for index, call in told(records, StartCall, RestartCall, StopCall):
            if isinstance(call, StopCall):
                if runs and call.error is not None and call.error.startswith(FAILED):
                    self.frees.broke("a stop that frees its ports", call.error, Where(record=index))
                runs = False
            else:
                runs = call.succeeded
        for index, freed, wait in stalls.waits(records, Freed):
            self.frees(index, freed, wait, patience)

    def _saturated(self, records: Records, stalls: Stalls, patience: Patience) -> None:
        """A burst on a way that is stopped, the publisher's stop at once, and what passed when the way was free."""
        starts = [at for at, (_, record) in enumerate(records) if isinstance(record.detail, StartCall)]
        for first, end in itertools.pairwise([0, *starts, len(records)]):
            life = records[first:end]
            begun = [at for at, (_, record) in enumerate(life) if isinstance(record.detail, BurstBegins)]
            burst = _Burst(life, begun[-1]) if begun else None
            if burst is None or burst.stop is None:
                continue
            if burst.why_open:
                self.sends_all.open(burst.why_open)
                self.counts_rest.open(burst.why_open)
                continue
            self.sends_all(burst, burst.wait(stalls), patience)
            self.counts_rest(burst)

    @judge("KVW-LIV-003")
    def sends_all(self, say: Say, burst: _Burst, wait: Wait, patience: Patience) -> None:
        """KVW-LIV-003: A publisher SHOULD send every batch that it accepted, on an orderly stop, within the declared
        bound `stop_s`.

        A relay of ours lets nothing pass, a burst that no buffer of the kernel holds is accepted, and soon after the
        stop, a quarter of the bound at most, everything passes. What is missing at the end of the numbers was lost by
        the stop; a hole before it was not. Several stops have to lose some, each of another instance.
        """
        if not burst.missing:
            say.saw(burst.accepted)
            patience.came("all")
            return
        patience.missed(
            "all",
            wait,
            f"the {burst.accepted} batches that were accepted before the stop, up to number {burst.last}",
            f"nothing after number {burst.seen}: the last {burst.missing} never came",
            Where(record=burst.stop, number=str(burst.seen)),
        )

    @judge("KVW-LIV-004")
    def counts_rest(self, say: Say, burst: _Burst) -> None:
        """KVW-LIV-004: A publisher MUST count as dropped every batch that it accepted and did not hand to its socket
        before it stopped.

        Each accepted batch is an occasion: it arrives, or is counted. What a socket discards no call tells: one that
        never came is missing in the count only if fewer were handed to the socket (``sent``) and dropped than offered.
        """
        if not burst.missing or (burst.dropped is not None and burst.missing <= burst.dropped):
            say.saw(burst.accepted)
        elif burst.dropped is None or burst.uncounted is None:
            what = "drops" if burst.dropped is None else "what was handed to its socket"
            say.open(f"{burst.missing} accepted batches never came, and the adapter does not count {what}")
        elif burst.uncounted > 0:
            say.broke(
                f"every batch that was offered handed to the socket or counted as dropped: {burst.missing} never came",
                f"{burst.uncounted} that are neither",
                Where(record=burst.stop),
            )
        elif burst.uncounted < 0:
            more = f"{-burst.uncounted} more as sent or dropped than were offered"
            say.open(f"{burst.missing} accepted batches never came, and the adapter counts {more}")
        else:
            say.saw(burst.accepted)

    @judge("KVW-LIV-005")
    def frees(self, say: Say, index: int, freed: Freed, wait: Wait, patience: Patience) -> None:
        """KVW-LIV-005: A publisher SHOULD free its ports within the declared bound `stop_s` on an orderly stop.

        The harness tries to bind them until it succeeds, for the bound and a second more, as this machine may be busy,
        and then some more. A stop that fails is no orderly one.
        """
        if freed.outcome == "free":
            say.saw()
        elif freed.outcome == "held":
            patience.missed(
                freed.endpoint,
                wait,
                f"{freed.endpoint!r} free again within {freed.bound_s:g} s of the stop",
                "somebody still listens there",
                Where(record=index),
            )


class _Burst:
    """What was accepted after a mark, and what came of it in the same life.

    ``last`` is the number that the last accepted batch has, ``seen`` the highest that came; ``missing`` counts those
    between them. ``dropped`` is by how many the counter of drops rose, ``uncounted`` how many were offered that were
    neither handed to the socket nor dropped; None where nothing counts them.
    """

    def __init__(self, records: Records, at: int) -> None:
        before, after = records[:at], records[at + 1 :]
        self.stop: int | None = None
        self.times: list[int] = []
        """When what is told was: from the stop to the last that is told of it."""
        self.why_open = ""
        taken: list[bool] = []
        prompts = False
        self.dropped: int | None = None
        self.uncounted: int | None = None
        offered: int | None = None
        fell = ""
        counters = [call for _, call in told(before, StatsCall) if call.succeeded]
        earlier = counters[-1] if counters else StatsCall()
        for index, record in after:
            match record.detail:
                case StopCall(refused=refused):
                    self.stop = index
                    self.why_open = f"the stop was refused: {refused}" if refused else ""
                case StatsCall(succeeded=True, offered=offered, sent=sent, dropped=dropped) if self.stop is not None:
                    self.dropped = None if dropped is None else dropped - (earlier.dropped or 0)
                    if offered is not None and sent is not None and dropped is not None:
                        self.uncounted = offered - sent - dropped
                    fell = _fell(earlier, offered=offered, sent=sent, dropped=dropped)
                case detail if self.stop is None:
                    taken += _taken(detail)
                    prompts = prompts or isinstance(detail, CacheCall)
            if self.stop is not None:
                self.times.append(record.t_ns)
        self.accepted = sum(taken)
        first, self.seen = _newest(before), _newest(records)
        if first is None or self.seen is None or not self.accepted:
            self.why_open = self.why_open or "nothing was heard of this publisher before the burst, or nothing accepted"
        elif offered is None and prompts:
            self.why_open = self.why_open or "the adapter does not count the batches that a prompt caused"
        elif fell:
            self.why_open = self.why_open or fell
        elif offered is not None and offered < (earlier.offered or 0) + self.accepted:
            told_before = earlier.offered or 0
            self.why_open = self.why_open or (
                f"the adapter counts {offered} batches after the stop, and {told_before} were offered before "
                f"{self.accepted} more: its counters are wrong"
            )
        if self.why_open or first is None or self.seen is None:
            return
        if offered is None or offered < (earlier.offered or 0) + len(taken):
            taken = [True] * self.accepted  # what was refused is not counted, and has no number
        owed = [first + place for place, accepted in enumerate(taken, 1) if accepted]
        if prompts and offered is not None:  # as many batches as the publisher counts
            owed = list(range(first + 1, offered))
        self.last = owed[-1] if owed else first
        self.missing = sum(number > self.seen for number in owed)

    def wait(self, stalls: Stalls) -> Wait:
        """The time of the stop, and what was heard of it."""
        return Wait(self.times[0], self.times[-1], stalls.held_ns(self.times[0], self.times[-1]))


def _fell(earlier: StatsCall, **now: int | None) -> str:
    """Which counter is smaller after a stop than before it: an error of the adapter."""
    for name, value in now.items():
        before: int | None = getattr(earlier, name)
        if value is not None and before is not None and value < before:
            return f"the adapter counts {value} batches as {name} after the stop, and {before} before: it starts over"
    return ""


def _taken(detail: Detail | None) -> list[bool]:
    """The batches that a stimulus offered, and which of them were accepted."""
    match detail:
        case PublishCall(accepted=bool(accepted)):
            return [accepted]
        case BurstCall(accepted=tuple(answers)):
            return list(answers)
        case CacheCall(succeeded=True):
            return [True]
    return []


def _newest(records: Records) -> int | None:
    """The highest number that came live."""
    live = (split_live(record.frames) for _, record in records if record.is_live and record.frames is not None)
    return max((parts[0] for parts in live if parts is not None), default=None)
