"""Whether a rank goes on while the others do not: idle, then stopped, then killed.

Each working rank is heard alone first, in a deployment of one. A call that does not return ends a round; the next one
has new processes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec

from kvwire.attack.probes.kit.deployment import Member, begin, elsewhere
from kvwire.attack.probes.kit.lifecycle import Lifecycle
from kvwire.attack.probes.kit.sandbox import Sandbox
from kvwire.attack.probes.kit.session import Instance, Probe, Session
from kvwire.attack.probes.kit.subscribers import Subscribers
from kvwire.standard.protocol import AdapterError, Refused, Unsupported
from kvwire.trace.attempts import ATTEMPTS
from kvwire.trace.marks import RankWait
from kvwire.wire.endpoint_rules import NO_REPLAY

RANKS = 3
HEARD_S = 2.0
"""For how long a rank is given work until it is heard."""
SLOWER = 5
"""How many times as long as the rank alone took, where that is more."""
CALL_S = 5.0
"""How long a call may take, unless the rank alone took as much of that."""
AGAIN_S = 0.25
"""How long work gets before there is more of it."""

Peers = Literal["none", "busy", "idle", "stopped", "killed"]
Outcome = Literal["heard", "bound", "hung", "ended"]


def run(session: Session) -> None:
    """Rounds, until one did not end with a call that hung; at most as many as a verdict takes."""
    if session.can.isdisjoint({"cache", "publish"}):
        return
    for _ in range(ATTEMPTS):
        with Sandbox() as sandbox, Subscribers(session) as subscribers, session.fresh(RANKS) as instances:
            try:
                if _Round(session, Lifecycle(session, sandbox, subscribers), instances).run() in ("heard", "bound"):
                    return
            except (AdapterError, Refused, Unsupported):  # it stands in the record of the call
                return


class _Round:
    """Three ranks; the lowest and the highest work in turns."""

    def __init__(self, session: Session, lifecycle: Lifecycle, instances: Sequence[Instance]) -> None:
        self.session = session
        self.lifecycle = lifecycle
        self.instances = instances
        self.heard_s = HEARD_S
        self.members: list[Member] = []

    def run(self) -> Outcome:
        """What came of the last attempt; the first rank that is not heard ends the round."""
        low, high = 0, RANKS - 1
        alone = [self._alone(rank) for rank in (low, high)]
        longest = max((after for after in alone if after is not None), default=None)
        if longest is None or None in alone:
            return "bound"
        self.heard_s = max(HEARD_S, SLOWER * longest)
        for instance in self.instances:
            for verb in ("cache", "publish"):
                instance.driver.wait_for(verb, max(CALL_S, SLOWER * longest))
        bounds = begin(self.session, self.lifecycle, self.instances)
        if bounds is None:
            return "bound"
        pairs = enumerate(zip(self.instances, bounds, strict=True))
        self.members = [Member(self.session, self.lifecycle.subscribers, *pair, rank) for rank, pair in pairs]
        for worker in (low, high):
            told = self._wait(self.members[worker], "idle")
            if told == "bound":  # is it heard at all on its stream?
                self._wait(self.members[worker], "busy")
            if told != "heard":
                return told
        for worker in (low, high):
            with _stopped([member for member in self.members if member.rank != worker]):
                told = self._wait(self.members[worker], "stopped")
            if told != "heard":
                return told
        for worker, killed in ((low, low + 1), (high, low)):
            self.members[killed].instance.driver.signal(signal.SIGKILL)
            if (told := self._wait(self.members[worker], "killed")) != "heard":
                return told
        return "heard"

    def _alone(self, rank: int) -> float | None:
        """How long the process of a rank takes to be heard in a deployment of one; None when it is not."""
        instance = self.instances[rank]
        for place in (self.lifecycle.sandbox.ipc(f"alone-{rank}"), None):
            start = msgspec.structs.replace(elsewhere(self.session.start), endpoint=place, replay=NO_REPLAY)
            if (bound := self.lifecycle.begin(instance, start)) is not None:
                break
        else:
            return None
        member = Member(self.session, self.lifecycle.subscribers, instance, bound, rank, alone=True)
        began = time.monotonic()
        told = self._wait(member, "none")
        after = time.monotonic() - began
        if member.subscriber is not None:
            member.subscriber.close()
        instance.driver.stop()
        return after if told == "heard" else None

    def _wait(self, member: Member, peers: Peers) -> Outcome:
        """Give a rank work until it is heard; again where it is not. What came of the last attempt."""
        if member.subscriber is not None:
            member.subscriber.quiet(self.session, self.session.limits.quiet_s, member.fed_at)
        others = [other for other in self.members if other is not member] if peers == "busy" else []
        told: Outcome = "bound"
        for _ in self.session.attempts(member.instance.name):
            wait = self._attempt(member, peers, others)
            self.session.mark(wait, self.session.driven.name)
            told = wait.outcome
            if told != "bound":
                break
        return told

    def _attempt(self, member: Member, peers: Peers, others: Sequence[Member]) -> RankWait:
        began = time.monotonic()
        since = len(self.session.recorder.records)
        outcome: Outcome = "bound"
        why = ""

        def heard() -> bool:
            if member.subscriber is not None:
                member.subscriber.take()
            return member.own(since)

        while outcome == "bound" and time.monotonic() - began < self.heard_s and self.session.left() > 0:
            try:
                for one in (member, *others):
                    one.feed()
            except AdapterError as error:
                outcome, why = "hung" if member.instance.driver.alive else "ended", str(error)
            else:
                outcome = "heard" if self.session.wait(heard, AGAIN_S) else "bound"
        after = time.monotonic() - began
        return RankWait(
            instance=member.instance.name,
            rank=member.rank,
            peers=peers,
            outcome=outcome,
            after_s=round(after, 3),
            bound_s=self.heard_s if outcome in ("heard", "bound") else round(after, 1),
            why=why,
        )


@contextmanager
def _stopped(members: Sequence[Member]) -> Iterator[None]:
    """Inside, their processes stand still."""
    for member in members:
        member.instance.driver.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for member in members:
            member.instance.driver.signal(signal.SIGCONT)


PROBE = Probe(
    name="rank-outages",
    run=run,
    needs=frozenset({"start", "stop", "fresh"}),
    serves="RNK-005",
    bounds=f"a rank is heard within {HEARD_S:g} s of its first work, or {SLOWER} times what it took alone; a call "
    f"returns within {CALL_S:g} s; {ATTEMPTS} attempts",
)
