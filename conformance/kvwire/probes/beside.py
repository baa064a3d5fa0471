"""Attacks on another instance of the publisher, started with other options and listened to: a session of its own.

The one under test keeps its calm. What such an instance shows counts for the stream that is driven (``kvwire.beside``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from kvwire.probes.ears import Ears
from kvwire.probes.live import handshakes, prime
from kvwire.probes.session import Instance, Session
from kvwire.protocol import Bound, Refused, Start
from kvwire.refusals import connectable
from kvwire.statement import Stream


@contextmanager
def attacked(session: Session, instance: Instance, attack: str, *starts: Start) -> Iterator[Session | None]:
    """Start an instance with the first of ``starts`` that it takes, and prime it.

    What a start leaves open is as for the instance under test, but for the endpoints. Yields a session of the instance
    alone; None when it refuses every start or nothing is heard of it.

    Raises:
        AdapterError: as the driver does.
    """
    base = msgspec.structs.replace(session.start, endpoint=None, replay="none" if _has_none(session) else None)
    for start in starts:
        chosen = {field: value for field in start.__struct_fields__ if (value := getattr(start, field)) is not None}
        options = msgspec.structs.replace(base, **chosen)
        try:
            bound = instance.driver.start(options)
        except Refused:
            continue
        with _listened(session, instance, attack, options, bound) as own:
            yield own
        return
    yield None


def _has_none(session: Session) -> bool:
    return session.start.replay == "none"


@contextmanager
def _listened(
    session: Session, instance: Instance, attack: str, options: Start, bound: Bound
) -> Iterator[Session | None]:
    stream = Stream(
        name=instance.name,
        endpoint=connectable(bound.endpoint) or bound.endpoint if bound.mode == "connect" else bound.endpoint,
        replay=None if bound.replay is None else connectable(bound.replay) or bound.replay,
        topic=bound.topic,
        rank=bound.rank,
        mode=bound.mode,
    )
    session.mark("attack", stream.name, attack=attack)
    own = Session(
        recorder=session.recorder,
        streams=(stream,),
        statement=session.statement,
        driver=instance.driver,
        start=options,
        alive=lambda: instance.driver.alive,
        limits=session.limits,
        deadline=session.deadline,
        seed=session.seed + 1,
    )
    with Ears(session) as ears:
        ear = ears.listen(stream.name, stream.endpoint, stream.mode)
        with session.recorder.hearing(stream.name, ear.socket.fileno(), ear.take):
            yield own if handshakes(own) and prime(own) else None
