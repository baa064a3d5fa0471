"""The ends of a driven run: does it still work, does it stop in good order, and what becomes of what it accepted?"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import msgspec

from kvwire.attack.probes.kit.deployment import elsewhere
from kvwire.attack.probes.kit.lifecycle import GRACE_S, Lifecycle, freed, served
from kvwire.attack.probes.kit.offers import Offers
from kvwire.attack.probes.kit.readiness import prime
from kvwire.attack.probes.kit.sandbox import Sandbox
from kvwire.attack.probes.kit.session import Instance, Probe, Session
from kvwire.attack.probes.kit.subscribers import Subscriber, Subscribers
from kvwire.attack.relay import Relay
from kvwire.standard.protocol import AdapterError, Bound, Refused
from kvwire.trace.attempts import ATTEMPTS
from kvwire.trace.marks import BurstBegins
from kvwire.wire.endpoint_rules import NO_REPLAY, connectable
from kvwire.wire.framing import SEND_MARK

BATCHES = 128
BLOCKS = 64
"""Of a batch. Together half a megabyte: more than the buffers of a local connection hold, less than the usual marks."""
PROMPTS = 40
RETRY_S = 0.05
SHUT_S = 0.2
"""How long after the stop everything passes again: what is not waited for is lost by then."""
QUIET_S = 0.05
"""Without a message, what passed has been heard."""


def sanity(session: Session) -> None:
    """One batch that every witness sees, and the counters."""
    prime(session)
    session.stats()


def run(session: Session) -> None:
    """Stop when everything has been seen; wait for the witnesses to see the publisher go, and for its ports."""
    driver = session.driver
    assert driver is not None
    recorder = session.recorder
    session.settle()
    session.stats()
    stream = session.driven
    began = time.monotonic()
    try:
        driver.stop()
    finally:  # a stop that failed frees its ports all the same, or does not
        session.wait(
            lambda: all(
                recorder.disconnects(stream.name, source) >= recorder.handshakes(stream.name, source)
                for source in recorder.witnesses(stream.name)
            ),
            session.statement.bounds.stop_s + GRACE_S,
        )
        bound = Bound(endpoint=stream.endpoint, replay=stream.replay, mode=stream.mode)
        freed(session, stream.name, served(bound), began)
    if "stats" in driver.can:
        session.stats()


# a stop with much on its way


def saturated(session: Session) -> None:
    """Let another instance accept more than reaches its subscriber, stop it at once, and let everything pass.

    Again, with one more, where that lost some.
    """
    for _ in range(ATTEMPTS):
        if not _saturated(session) or session.left() <= 0:
            break


def _saturated(session: Session) -> bool:
    """Whether a stop lost some."""
    with Sandbox() as sandbox, Subscribers(session) as subscribers, session.fresh() as (instance,):
        try:
            bound = _begin(session, Lifecycle(session, sandbox, subscribers), instance)
            if bound is not None and (place := connectable(bound.endpoint)) is not None:
                with Relay(place) as relay:
                    return _burst(session, instance, bound, subscribers.listen(instance.name, relay.endpoint), relay)
        except (AdapterError, Refused):  # it stands in the record of the call
            return False
    return False


def _begin(session: Session, lifecycle: Lifecycle, instance: Instance) -> Bound | None:
    for place in (lifecycle.sandbox.ipc("events"), None):
        start = msgspec.structs.replace(elsewhere(session.start), endpoint=place, replay=NO_REPLAY)
        bound = lifecycle.begin(instance, start)
        if bound is not None and bound.mode == "connect":
            return bound
        if bound is not None:  # it dials, and what it dials cannot be held up
            instance.driver.stop()
    return None


class _Work:
    """What is offered to the instance: batches, or prompts where it takes no batches."""

    def __init__(self, session: Session, instance: Instance, rank: int) -> None:
        self.driver = instance.driver
        self.publishes = "publish" in self.driver.can
        self.offers = Offers(session.seed, session.statement.algorithm, session.block_size, rank)
        queue = session.start.queue or session.statement.queue
        hwm = session.start.hwm or SEND_MARK
        past = 2 * queue if queue is not None and queue <= BATCHES else BATCHES
        self.count = max(1, min(max(BATCHES, past), hwm // 2))
        """More than a small queue takes, and no more than a socket holds: what that discards no call tells."""

    def one(self) -> None:
        if self.publishes:
            self.driver.publish(self.offers.batch(self.offers.root(1)))
        else:
            self.driver.cache(self.offers.tokens(1))

    def many(self) -> int:
        """Offer them at once; how many batches were accepted, at least."""
        if not self.publishes:
            for _ in range(PROMPTS):
                self.driver.cache(self.offers.tokens(BLOCKS // 2))
            return PROMPTS
        batches = [self.offers.batch(self.offers.root(BLOCKS)) for _ in range(self.count)]
        if "burst" in self.driver.can:
            return sum(self.driver.burst(batches).accepted)
        return sum(self.driver.publish(batch).accepted for batch in batches)


def _burst(session: Session, instance: Instance, bound: Bound, subscriber: Subscriber, relay: Relay) -> bool:
    """Whether the last that was accepted did not come."""
    work = _Work(session, instance, bound.rank)
    end = time.monotonic() + session.limits.prime_s

    def heard() -> bool:
        subscriber.take()
        return subscriber.seen > 0

    def ended() -> bool:
        subscriber.take()
        return subscriber.gone

    work.one()
    while not session.wait(heard, RETRY_S):
        if time.monotonic() >= end or session.left() <= 0:
            return False
        work.one()
    relay.stop()
    subscriber.quiet(session, QUIET_S)
    _stats(instance)
    session.mark(BurstBegins(), instance.name)
    before = subscriber.seen
    accepted = work.many()
    opening = threading.Timer(min(SHUT_S, session.statement.bounds.stop_s / 4), relay.go)
    began = time.monotonic()
    opening.start()
    try:
        with suppress(AdapterError):  # it stands in the record of the call, and what it lost is lost
            instance.driver.stop()
        patience = began + session.statement.bounds.stop_s + GRACE_S
        session.wait(ended, max(0.0, patience - time.monotonic()))
    finally:
        opening.cancel()
    relay.go()
    subscriber.quiet(session, QUIET_S)
    freed(session, instance.name, served(bound), began)
    _stats(instance)
    return subscriber.seen - before < accepted


def _stats(instance: Instance) -> None:
    if "stats" in instance.driver.can:
        instance.driver.stats()


SANITY = Probe(
    name="sanity",
    mode="quick",
    run=sanity,
    needs=frozenset({"start"}),
    serves="SEQ-002 SEQ-009",
    bounds="both witnesses see a batch within prime_s",
)
SATURATED = Probe(
    name="saturated-stop",
    run=saturated,
    needs=frozenset({"start", "stop", "fresh"}),
    serves="LIV-003 LIV-004 LIV-005",
    bounds="the subscriber is primed within prime_s; what was accepted is awaited for the declared stop_s and a second",
)
STOP = Probe(
    name="stop",
    mode="quick",
    run=run,
    needs=frozenset({"start", "stop"}),
    serves="LIV-003 LIV-004 LIV-005",
    bounds="the publisher goes within the declared stop_s, which the witnesses see a second later at most",
)
