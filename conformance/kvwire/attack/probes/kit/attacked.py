"""Attacks on another instance of the publisher, started with other options and listened to: a session of its own.

The one under test keeps its calm. What such an instance shows counts for the stream that is driven.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from kvwire.attack.probes.kit.readiness import handshakes, prime
from kvwire.attack.probes.kit.session import Instance, Session
from kvwire.attack.probes.kit.subscribers import Subscribers
from kvwire.standard.protocol import AdapterError, Bound, Refused, Start, declared
from kvwire.standard.statement import Stream
from kvwire.trace.marks import AttackBegins
from kvwire.wire.endpoint_rules import NO_REPLAY, connectable


@contextmanager
def attacked(session: Session, attack: str, *starts: Start) -> Iterator[Session | None]:
    """Start another instance with the first of ``starts`` that it takes, and prime it.

    What a start leaves open is as for the instance under test, but for the endpoints. Yields a session of the instance
    alone; None when it takes no start, cannot run beside the other one, or nothing is heard of it that has a number. An
    instance that dies of what is done to it ends the block.
    """
    with ExitStack() as stack:
        begun = _begun(session, stack, starts)
        if begun is None:
            yield None
            return
        instance, options, bound = begun
        session.mark(AttackBegins(attack=attack), instance.name)
        try:
            yield _listened(session, stack, instance, options, bound)
        except AdapterError as error:
            if instance.driver.alive:
                session.trouble(f"attack {attack}: {error}", session.driven.name)


def _begun(session: Session, stack: ExitStack, starts: tuple[Start, ...]) -> tuple[Instance, Start, Bound] | None:
    replay = NO_REPLAY if session.start.replay == NO_REPLAY else None
    base = msgspec.structs.replace(session.start, endpoint=None, replay=replay)
    try:
        (instance,) = stack.enter_context(session.fresh())
        for start in starts:
            chosen = {field: value for field in start.__struct_fields__ if (value := getattr(start, field)) is not None}
            options = msgspec.structs.replace(base, **chosen)
            try:
                return instance, options, instance.driver.start(options)
            except Refused:
                continue
    except AdapterError:
        return None  # it stands in the record of the call
    return None


def _listened(session: Session, stack: ExitStack, instance: Instance, options: Start, bound: Bound) -> Session | None:
    stream = Stream(
        name=instance.name,
        endpoint=connectable(bound.endpoint) or bound.endpoint if bound.mode == "connect" else bound.endpoint,
        replay=None if bound.replay is None else connectable(bound.replay) or bound.replay,
        topic=bound.topic,
        rank=bound.rank,
        mode=bound.mode,
    )
    own = Session(
        recorder=session.recorder,
        streams=(stream,),
        statement=session.statement.started(
            ring=options.ring, queue=options.queue, block_size=options.block_size, groups=declared(options.groups)
        ),
        driver=instance.driver,
        start=options,
        alive=lambda: instance.driver.alive,
        limits=session.limits,
        deadline=session.deadline,
        seed=session.seed + 1,
    )
    own.unserved = session.unserved
    subscribers = stack.enter_context(Subscribers(session))
    subscriber = subscribers.listen(stream.name, stream.endpoint, stream.mode)
    stack.enter_context(session.recorder.hearing(stream.name, subscriber.socket.fileno(), subscriber.take))
    if not (handshakes(own) and prime(own)):
        return None
    return None if session.recorder.newest(stream.name) is None else own
