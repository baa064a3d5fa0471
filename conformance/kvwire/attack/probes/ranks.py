"""Several ranks of one deployment: other instances of the publisher, each with prompts of its own.

Their tokens are disjoint, so that a block on a stream tells whose it is. At last one rank stops while the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from kvwire.attack.probes.endpoints import elsewhere, tcp
from kvwire.attack.probes.kit.lifecycle import Lifecycle
from kvwire.attack.probes.kit.offers import Offers
from kvwire.attack.probes.kit.sandbox import Sandbox, ports
from kvwire.attack.probes.kit.session import Instance, Probe, Session
from kvwire.attack.probes.kit.subscribers import Subscriber, Subscribers
from kvwire.standard.protocol import AdapterError, Bound, Refused
from kvwire.trace.marks import Ranks
from kvwire.wire.endpoint_rules import NO_REPLAY, connectable

RANKS = 3
TOKENS = 10_000
"""How many token ids each rank has for itself."""
ROUNDS = 4
"""Prompts of rank 0; every rank has one more than the one below it."""
BLOCKS = 2
RETRY_S = 0.05


class Member:
    """One rank: its instance, where it is, what it is offered, and who listens."""

    def __init__(self, session: Session, subscribers: Subscribers, instance: Instance, bound: Bound, rank: int) -> None:
        self.instance = instance
        self.bound = bound
        self.fed = 0
        statement = session.statement
        vocabulary = range((rank + 1) * TOKENS, (rank + 2) * TOKENS)
        self.offers = Offers(session.seed + rank, statement.algorithm, session.block_size, rank, vocabulary)
        place = bound.endpoint if bound.mode == "bind" else connectable(bound.endpoint)
        self.subscriber: Subscriber | None = (
            None if place is None else subscribers.listen(instance.name, place, bound.mode)
        )

    @property
    def seen(self) -> int:
        """Messages heard of it."""
        return 0 if self.subscriber is None else self.subscriber.seen

    def feed(self) -> None:
        """A prompt, or a batch where there is no engine."""
        driver = self.instance.driver
        if "cache" in driver.can:
            driver.cache(self.offers.tokens(BLOCKS))
        else:
            driver.publish(self.offers.batch(self.offers.root(BLOCKS)))
        self.fed += 1


def run(session: Session) -> None:
    """Start the ranks where they can be started, feed them in turns, stop one, and feed the others again."""
    with Sandbox() as sandbox, Subscribers(session) as subscribers, session.fresh(RANKS) as instances:
        try:
            bounds = _begin(session, Lifecycle(session, sandbox, subscribers), instances)
            if bounds is not None:
                _feed(session, [Member(session, subscribers, *pair, rank) for rank, pair in enumerate(bounds)])
        except (AdapterError, Refused):  # it stands in the record of the call
            return


def _begin(
    session: Session, lifecycle: Lifecycle, instances: Sequence[Instance]
) -> list[tuple[Instance, Bound]] | None:
    """Start every rank at one endpoint, as an operator configures it: ipc, tcp, or wherever the adapter puts them."""
    base = ports(*range(RANKS))
    places = [lifecycle.sandbox.ipc("rank"), *([] if base is None else [tcp(base)]), None]
    common = {"world": RANKS, "ranks_per_host": RANKS, "replay": NO_REPLAY}
    for place in places:
        started: list[tuple[Instance, Bound]] = []
        for rank, instance in enumerate(instances):
            start = msgspec.structs.replace(elsewhere(session.start), endpoint=place, rank=rank, **common)
            bound = lifecycle.begin(instance, start)
            if bound is None:
                break
            started.append((instance, bound))
        else:
            members = {instance.name: rank for rank, instance in enumerate(instances)}
            session.mark(Ranks(members=members), session.driven.name)
            return started
        for instance, _ in started:
            instance.driver.stop()
    session.mark(Ranks(members={}), session.driven.name)
    return None


def _feed(session: Session, members: Sequence[Member]) -> None:
    _prime(session, members)
    for turn in range(ROUNDS + RANKS):
        for rank, member in enumerate(members):
            if turn < ROUNDS + rank:
                member.feed()
    _settle(session, members)
    first, ending, *rest = members
    ending.instance.driver.stop()
    rest = [first, *rest]
    for _ in range(ROUNDS + RANKS):
        for member in rest:
            member.feed()
    _settle(session, rest)
    for member in rest:
        member.instance.driver.stop()


def _hear(members: Sequence[Member]) -> None:
    for member in members:
        if member.subscriber is not None:
            member.subscriber.take()


def _prime(session: Session, members: Sequence[Member]) -> None:
    """Feed each until it is heard: a subscription takes effect some time after the handshake."""
    end = time.monotonic() + session.limits.prime_s
    while time.monotonic() < end and session.left() > 0:
        silent = [member for member in members if not member.seen]
        if not silent:
            return
        for member in silent:
            member.feed()

        def heard(silent: Sequence[Member] = silent) -> bool:
            _hear(members)
            return all(member.seen for member in silent)

        session.wait(heard, RETRY_S)


def _settle(session: Session, members: Sequence[Member]) -> None:
    """Wait until as many batches were heard as were caused, or nothing comes any more."""
    before, since = [-1], time.monotonic()

    def settled() -> bool:
        nonlocal before, since
        _hear(members)
        now = [member.seen for member in members]
        if now != before:
            before, since = now, time.monotonic()
        return time.monotonic() - since >= session.limits.quiet_s

    session.wait(settled, session.limits.settle_s)


PROBE = Probe(
    name="ranks",
    run=run,
    needs=frozenset({"start", "stop", "fresh"}),
    serves="END-002 END-003 RNK SEQ-005",
    bounds="ranks are primed within prime_s; what a prompt causes is over after quiet_s without a message, or settle_s",
)
