"""Rank: which cache a stream describes, and that each has a stream of its own (spec/rank.md).

Ranks that belong together are the declared streams of a run, or the instances that the harness started as ranks of one
deployment, each with tokens of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from kvwire.history import timeline as timelines
from kvwire.history.timeline import Batch
from kvwire.judges.area import Area, Say, at_batch, at_element, judge, unless
from kvwire.judges.step import Step
from kvwire.judges.verdict import Where
from kvwire.trace.attempts import PAUSE_S, Stalls, Wait, sure
from kvwire.trace.calls import ResidentCall, StartCall
from kvwire.trace.instances import ADAPTER, begun, why_no_ranks
from kvwire.trace.marks import RankWait, TailDone
from kvwire.trace.records import Record, Records, told
from kvwire.trace.stimuli import offers, prompts
from kvwire.wire.events import Event, Flaw

CONTROLS = ("none", "busy")
"""What the other ranks are where nothing keeps one from being heard: not there, or at work too."""


class Attempt(NamedTuple):
    """One attempt to hear a rank: its record, what it tells, and what it was on this machine."""

    at: int
    told: RankWait
    wait: Wait


class Rank(Area):
    """Reads the third element of every distinct batch, and holds streams that belong together against each other."""

    memory = "O(instances)"

    def on_step(self, step: Step) -> None:
        self.in_range.saw(step.batches)
        self.constant.saw(step.batches)
        if self.context.stream.rank is not None:
            self.declared.saw(step.batches)

    def on_batch(self, batch: Batch) -> None:
        flaws = {flaw.code: flaw for flaw in batch.reading.flaws}
        if flaws.keys() & {"msgpack", "limit", "batch"}:
            return
        self.in_range(batch, flaws.get("rank"))
        if batch.reading.rank is not None:
            self.constant(batch, batch.reading.rank)
            self.declared(batch, batch.reading.rank, self.context.stream.rank)

    def finish(self) -> None:
        if "rank" not in self.context.header.sets:
            for batch in self.facts.reused:
                self.on_batch(batch)
        self._waits()
        self._topologies()
        ranks = self.facts.ranks
        if ranks is None or "rank" in self.context.header.sets:
            return
        if not ranks:
            self.one_stream_each.open(why_no_ranks(self.context.instances))
        members = {name: self.context.instances.get(name, ()) for name in ranks}
        batches = {name: _batches(records) for name, records in members.items()}
        for name, found in batches.items():
            self.facts.first_rank = None
            for batch in found:
                if batch.reading.rank is not None:
                    self.constant(batch, batch.reading.rank)
                    self.declared(batch, batch.reading.rank, ranks[name])
        self.one_stream_each(members, batches)

    @judge("KVW-RNK-001", memory="O(1)")
    def in_range(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-RNK-001: A publisher MUST send the rank as an integer in 0…2^31−1, never nil."""
        say.weigh(batch, flaw)

    @judge("KVW-RNK-002", memory="O(1)")
    def constant(self, say: Say, batch: Batch, rank: int) -> None:
        """KVW-RNK-002: A publisher MUST send the same rank in every batch of a stream."""
        if self.facts.first_rank is None:
            self.facts.first_rank = (rank, batch.number)
        elif rank == self.facts.first_rank[0]:
            say.saw()
        else:
            say.broke(
                f"rank {self.facts.first_rank[0]}, as in number {self.facts.first_rank[1]}",
                f"rank {rank}",
                at_element(batch, 2),
            )

    @judge(
        "KVW-RNK-003",
        unclaimed=unless(lambda stream, _: stream.rank is not None),
        declares="streams.rank",
        memory="O(1)",
    )
    def declared(self, say: Say, batch: Batch, rank: int, declared: int | None) -> None:
        """KVW-RNK-003: A publisher MUST send as rank the rank whose cache the stream describes, as declared for the
        stream.

        Without a declared rank there is no occasion to break it. That of another instance is the one it was started as.
        """
        if declared is None:
            return
        if rank == declared:
            say.saw()
        else:
            say.broke(
                f"rank {declared}, as declared for the stream",
                f"rank {rank}",
                at_element(batch, 2),
            )

    @judge("KVW-RNK-004")
    def one_stream_each(self, say: Say, members: Mapping[str, Records], batches: Mapping[str, Sequence[Batch]]) -> None:
        """KVW-RNK-004: A publisher for several ranks that have caches of their own MUST use one stream per rank.

        Tokens tell whose block it is, as each rank was offered others. A rank that took work and whose own stream
        carries none of it, while another's carries blocks, has no stream.
        """
        owners = _owners(members)
        shown: set[str] = set()
        for name, found in batches.items():
            for batch, event in ((b, e) for b in found for e in b.reading.events if e.kind == "stored"):
                whose = _whose(event, owners)
                if whose is None:
                    continue
                shown.add(name)
                if whose == name:
                    say.saw()
                else:
                    say.broke(
                        f"blocks of rank {self._rank(name)} on its stream",
                        f"a block of rank {self._rank(whose)}",
                        at_batch(batch, event=event),
                    )
        silent = [name for name in members if name not in shown and name in owners.values()]
        for name in silent:
            if not shown:
                say.open("no block of any rank was seen")
            elif not self._in_vain(members[name]):
                say.open(f"nothing was heard of rank {self._rank(name)}, and too few attempts could be made to be sure")
            elif not any(reach.done for start in begun(name, members[name]) for reach, _ in start.reached):
                say.open(f"no handshake with rank {self._rank(name)}")
            else:
                say.broke(
                    f"a stream of rank {self._rank(name)}, which took work, with its blocks",
                    "no block on it, while other ranks announce theirs",
                    Where(record=members[name][-1][0]),
                )

        self._held(say, members, batches)

    def _held(self, say: Say, members: Mapping[str, Records], batches: Mapping[str, Sequence[Batch]]) -> None:
        """What the engines of all ranks hold, each asked when its stream was over, against what all streams announced.

        A block that is held by one rank, and announced by the stream of another alone, is on the wrong one. Blocks
        that no stream announces are no matter of ranks.
        """
        held = {name: _resident(records) for name, records in members.items()}
        told = {name: _announced(found) for name, found in batches.items()}
        for name, blocks in held.items():
            say.saw(len(blocks & told[name]))
            for other in (other for other in told if other != name):
                strange = (blocks & told[other]) - told[name] - held[other]
                if strange:
                    say.broke(
                        f"the {len(blocks)} blocks that rank {self._rank(name)} holds on its stream, if on any",
                        f"{len(strange)} of them on the stream of rank {self._rank(other)} alone",
                        at_batch(batches[other][-1]),
                    )

    def _in_vain(self, records: Records) -> bool:
        """Whether a batch of a rank was awaited in vain for so often and so long that it is certain not to come."""
        stalls = self.facts.stalls.beside(Stalls(records))
        waits = list(stalls.waits(records, TailDone))
        return sure(wait for _, tail, wait in waits if tail.outcome == "bound")

    def _rank(self, name: str) -> int:
        return (self.facts.ranks or {}).get(name, -1)

    # ranks that wait for each other

    def _waits(self) -> None:
        found = [self._held_up(index, record) for index, record in self.facts.stimuli]
        waits = [wait for wait in found if wait is not None]
        situations: dict[tuple[int, str], list[Attempt]] = {}
        for attempt in waits:
            _, wait, _ = attempt
            if wait.peers not in CONTROLS:
                situations.setdefault((wait.rank, wait.peers), []).append(attempt)
        heard = [wait for _, wait, _ in waits if wait.outcome == "heard"]
        alone = {wait.instance for wait in heard if wait.peers == "none"}
        beside = {wait.instance for wait in heard if wait.peers != "none"}
        for attempts in situations.values():
            self.waits_for_nobody(attempts, alone, beside)
        if waits and not situations:
            self.waits_for_nobody.open("nothing was heard of a rank alone, before there were others")

    def _held_up(self, index: int, record: Record) -> Attempt | None:
        if not isinstance(told := record.detail, RankWait):
            return None
        stalls = self.facts.stalls.beside(Stalls(self.context.instances.get(told.instance, ())))
        return Attempt(index, told, stalls.wait(record, told.after_s))

    @judge("KVW-RNK-005")
    def waits_for_nobody(self, say: Say, attempts: Sequence[Attempt], alone: Set[str], beside: Set[str]) -> None:
        """KVW-RNK-005: A publisher MUST NOT let the stream of one rank wait for another rank.

        One rank is given work while the others are idle, stopped or killed. What is missing then was there before: its
        process ``alone`` was heard, and its stream ``beside`` others. A call that hangs beside others did return alone.
        A time alone proves nothing on a busy machine: it has to fall silent, or its call to hang, in each of several
        attempts, and of those in which something was held up only one in which it was heard counts.
        """
        calm = [attempt for attempt in attempts if attempt.wait.calm]
        missed = [attempt for attempt in calm if attempt.told.outcome != "heard"]
        heard = sum(attempt.told.outcome == "heard" for attempt in attempts)
        say.saw(heard)
        if heard and not missed:
            return
        at, first, _ = (missed or attempts)[0]
        situation = f"while the other ranks were {first.peers}"
        if missed and len(missed) < len(calm):
            say.note(f"rank {first.rank} was not heard in one attempt {situation}, and in others it was")
        elif any(told.instance not in (beside if told.outcome == "bound" else alone) for _, told, _ in missed):
            say.open(f"rank {first.rank} was not heard {situation}, nor when they had work too")
        elif not sure((wait for _, _, wait in missed), 0.0 if first.outcome == "ended" else PAUSE_S):
            say.open(f"rank {first.rank} was not heard {situation}, and too few attempts could be made to be sure")
        else:
            say.broke(
                f"a batch of rank {first.rank} within {first.bound_s:g} s of its work, {situation}",
                f"in {len(missed)} attempts of {len(missed)} {_how(first)}",
                Where(record=at),
            )

    # topologies

    def _topologies(self) -> None:
        starts = [
            (at, call)
            for records in self.context.instances.values()
            for at, call in told(records, StartCall)
            if call.tp is not None or call.pieces
        ]
        whole = [call for _, call in starts if call.succeeded and not call.pieces]
        for at, call in starts:
            if call.pieces:
                self.no_pieces(at, call, whole)

    @judge("KVW-RNK-006")
    def no_pieces(self, say: Say, at: int, call: StartCall, whole: Sequence[StartCall]) -> None:
        """KVW-RNK-006: A publisher MUST refuse to start where a block lies in pieces on ranks that this standard does
        not number, with pipeline or context parallelism.

        A publisher that also refuses tensor parallelism alone (``whole``: what was accepted of that) shows nothing.
        That one which accepts pieces was told of them its adapter shows, whose answer repeats what it told.
        """
        if call.error is not None or call.unsupported is not None:
            say.open(f"the adapter failed: {call.error or call.unsupported}")
        elif call.refused is not None and call.refused.startswith(ADAPTER):
            say.open(f"{call.refused}: the adapter refused it, not the publisher")
        elif not whole:
            say.open("no topology is taken, tensor parallelism alone neither")
        elif call.refused is not None:
            say.saw()
        elif call.bound is None or (call.bound.pp or 1, call.bound.cp or 1) != (call.pp or 1, call.cp or 1):
            say.open("the adapter does not say that it tells its publisher of a topology")
        else:
            say.broke(
                f"a refusal: pipeline parallelism of {call.pp or 1} and context parallelism of {call.cp or 1}",
                "accepted",
                Where(record=at),
            )


def _how(wait: RankWait) -> str:
    if wait.outcome == "bound":
        return "nothing came"
    return f"the call that gave it work did not return: {wait.why}"


def _resident(records: Records) -> frozenset[int]:
    """What the engine held when it was asked last."""
    calls = [call for _, call in told(records, ResidentCall) if call.succeeded]
    return calls[-1].held if calls else frozenset()


def _announced(batches: Sequence[Batch]) -> frozenset[int]:
    """The hashes that a stream stored and did not remove since."""
    there: set[int] = set()
    for event in (event for batch in batches for event in batch.reading.events):
        if event.kind == "cleared":
            there.clear()
        elif event.kind == "stored":
            there.update(event.hashes)
        else:
            there.difference_update(event.hashes)
    return frozenset(there)


def _batches(records: Records) -> list[Batch]:
    return [batch for life in timelines.build(records).incarnations for batch in life.batches]


def _owners(members: Mapping[str, Records]) -> dict[int | bytes, str]:
    """Token → the one instance that was offered it."""
    owners: dict[int | bytes, str] = {}
    shared: set[int | bytes] = set()
    for name, records in members.items():
        prompted = (prompt.tokens for prompt in prompts(records))
        taken = (offer.events for offer in offers(records) if not offer.failed)
        offered = (event.get("token_ids") or () for events in taken for event in events)
        for token in itertools.chain(*prompted, *offered):
            if owners.setdefault(token, name) != name:
                shared.add(token)
    return {token: name for token, name in owners.items() if token not in shared}


def _whose(event: Event, owners: Mapping[int | bytes, str]) -> str | None:
    """Whose block an event announces; None when its tokens do not tell."""
    names = {owners.get(token) if isinstance(token, int) else None for token in event.tokens}
    return names.pop() if len(names) == 1 else None
