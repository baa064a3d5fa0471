"""Ranks of one deployment: other instances of the publisher that are started together, fed and listened to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from kvwire.attack.probes.kit.lifecycle import Lifecycle
from kvwire.attack.probes.kit.offers import Offers
from kvwire.attack.probes.kit.sandbox import ports
from kvwire.attack.probes.kit.session import Instance, Session
from kvwire.attack.probes.kit.subscribers import Subscriber, Subscribers
from kvwire.standard.protocol import Bound, Refused, Start, Unsupported
from kvwire.wire.dialect import read
from kvwire.wire.endpoint_rules import NO_REPLAY, connectable
from kvwire.wire.framing import split_live

TOKENS = 10_000
"""How many token ids each rank has for itself."""
BLOCKS = 2
RETRY_S = 0.05


class Member:
    """One rank: its instance, where it is, what it is offered, and who listens."""

    def __init__(
        self,
        session: Session,
        subscribers: Subscribers,
        instance: Instance,
        bound: Bound,
        rank: int,
        *,
        alone: bool = False,
    ) -> None:
        """``alone``: it was started as the one rank of its deployment, 0, and has its own tokens all the same."""
        self.session = session
        self.instance = instance
        self.bound = bound
        self.rank = rank
        self.fed = 0
        self.fed_at = time.monotonic()
        """When it was last given work, or begun to be listened to."""
        statement = session.statement
        vocabulary = range((rank + 1) * TOKENS, (rank + 2) * TOKENS)
        told = 0 if alone else rank
        self.offers = Offers(session.seed + rank, statement.algorithm, session.block_size, told, vocabulary)
        place = bound.endpoint if bound.mode == "bind" else connectable(bound.endpoint)
        self.subscriber: Subscriber | None = (
            None if place is None else subscribers.listen(instance.name, place, bound.mode)
        )

    @property
    def seen(self) -> int:
        """Messages heard of it."""
        return 0 if self.subscriber is None else self.subscriber.seen

    def own(self, since: int) -> bool:
        """Whether a block of its own tokens came on its stream, in records from a place on."""
        vocabulary = self.offers.vocabulary
        for record in self.session.recorder.records[since:]:
            if record.stream != self.instance.name or not record.is_live or record.frames is None:
                continue
            parts = split_live(record.frames)
            events = () if parts is None else read(parts[1]).events
            if any(token in vocabulary for event in events for token in event.tokens):
                return True
        return False

    def feed(self) -> None:
        """A prompt, or a batch where there is no engine."""
        driver = self.instance.driver
        if "cache" in driver.can:
            driver.cache(self.offers.tokens(BLOCKS))
        else:
            driver.publish(self.offers.batch(self.offers.root(BLOCKS)))
        self.fed += 1
        self.fed_at = time.monotonic()

    def tell(self) -> None:
        """Ask its engine what it holds, where that can be asked."""
        if "resident" in self.instance.driver.can:
            with suppress(Refused, Unsupported):
                self.instance.driver.resident()


def begin(session: Session, lifecycle: Lifecycle, instances: Sequence[Instance]) -> list[Bound] | None:
    """Start every rank at one endpoint, as an operator configures it: ipc, tcp, or wherever the adapter puts them.

    None where they cannot be started, or dial one and the same place, where nobody could tell them apart.

    Raises:
        AdapterError: as the driver does.
    """
    world = len(instances)
    base = ports(*range(world))
    places = [lifecycle.sandbox.ipc("rank"), *([] if base is None else [f"tcp://127.0.0.1:{base}"]), None]
    for place in places:
        started: list[Bound] = []
        for rank, instance in enumerate(instances):
            start = msgspec.structs.replace(
                elsewhere(session.start), endpoint=place, rank=rank, world=world, ranks_per_host=world, replay=NO_REPLAY
            )
            bound = lifecycle.begin(instance, start)
            if bound is None:
                break
            started.append(bound)
        dialled = [bound.endpoint for bound in started if bound.mode == "bind"]
        if len(started) == world and len(set(dialled)) == len(dialled):
            return started
        for instance, _ in zip(instances, started, strict=False):
            instance.driver.stop()
    return None


def elsewhere(start: Start) -> Start:
    """What the publisher was started with, but for where."""
    return msgspec.structs.replace(
        start, endpoint=None, replay=None, rank=None, world=None, ranks_per_host=None, ephemeral=None
    )


def hear(members: Sequence[Member]) -> None:
    for member in members:
        if member.subscriber is not None:
            member.subscriber.take()


def prime(session: Session, members: Sequence[Member]) -> None:
    """Feed each until it is heard: a subscription takes effect some time after the handshake."""
    end = time.monotonic() + session.limits.prime_s
    while time.monotonic() < end and session.left() > 0:
        silent = [member for member in members if not member.seen]
        if not silent:
            return
        for member in silent:
            member.feed()

        def heard(silent: Sequence[Member] = silent) -> bool:
            hear(members)
            return all(member.seen for member in silent)

        session.wait(heard, RETRY_S)
