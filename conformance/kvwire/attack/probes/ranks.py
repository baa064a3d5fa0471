"""Several ranks of one deployment: other instances of the publisher, each with prompts of its own.

Their tokens are disjoint, so that a block on a stream tells whose it is. At last one rank stops while the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from kvwire.attack.probes.kit.deployment import Member, begin, hear, prime
from kvwire.attack.probes.kit.lifecycle import Lifecycle
from kvwire.attack.probes.kit.sandbox import Sandbox
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.kit.subscribers import Subscribers
from kvwire.standard.protocol import AdapterError, Refused
from kvwire.trace.marks import Ranks, TailDone

RANKS = 3
AWAITED_S = 1.0
"""How long a rank gets at a time of which nothing was heard."""
ROUNDS = 4
"""Prompts of rank 0; every rank has one more than the one below it."""


def run(session: Session) -> None:
    """Start the ranks where they can be started, feed them in turns, stop one, and feed the others again."""
    with Sandbox() as sandbox, Subscribers(session) as subscribers, session.fresh(RANKS) as instances:
        try:
            bounds = begin(session, Lifecycle(session, sandbox, subscribers), instances)
            members = {} if bounds is None else {instance.name: rank for rank, instance in enumerate(instances)}
            session.mark(Ranks(members=members), session.driven.name)
            if bounds is not None:
                pairs = enumerate(zip(instances, bounds, strict=True))
                _feed(session, [Member(session, subscribers, *pair, rank) for rank, pair in pairs])
        except (AdapterError, Refused):  # it stands in the record of the call
            return


def _feed(session: Session, members: Sequence[Member]) -> None:
    prime(session, members)
    for turn in range(ROUNDS + RANKS):
        for rank, member in enumerate(members):
            if turn < ROUNDS + rank:
                member.feed()
    _settle(session, members)
    _await(session, [member for member in members if not member.seen])
    first, ending, *rest = members
    ending.tell()
    ending.instance.driver.stop()
    rest = [first, *rest]
    for _ in range(ROUNDS + RANKS):
        for member in rest:
            member.feed()
    _settle(session, rest)
    for member in rest:
        member.tell()
        member.instance.driver.stop()


def _settle(session: Session, members: Sequence[Member]) -> None:
    """Wait until as many batches were heard as were caused, or nothing comes any more."""
    before, since = [-1], time.monotonic()

    def settled() -> bool:
        nonlocal before, since
        hear(members)
        now = [member.seen for member in members]
        if now != before:
            before, since = now, time.monotonic()
        return time.monotonic() - since >= session.limits.quiet_s

    session.wait(settled, session.limits.settle_s)


def _await(session: Session, silent: Sequence[Member]) -> None:
    """Feed ranks of which nothing was heard, until they are or it is certain that they will not be."""
    for _ in session.attempts(silent[0].instance.name) if silent else ():
        began = time.monotonic()
        for member in silent:
            member.feed()

        def heard(silent: Sequence[Member] = silent) -> bool:
            hear(silent)
            return all(member.seen for member in silent)

        session.wait(heard, AWAITED_S)
        for member in silent:
            name = member.instance.name
            session.mark(
                TailDone(
                    outcome="seen" if member.seen else "bound",
                    after_s=round(time.monotonic() - began, 3),
                    bound_s=AWAITED_S,
                ),
                name,
            )
        silent = [member for member in silent if not member.seen]
        if not silent:
            return


PROBE = Probe(
    name="ranks",
    run=run,
    needs=frozenset({"start", "stop", "fresh"}),
    serves="END-002 END-003 RNK SEQ-005",
    bounds="ranks are primed within prime_s; what a prompt causes is over after quiet_s without a message, or settle_s",
)
