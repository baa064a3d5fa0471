"""An endpoint that another instance serves already: the second one that is started there has to refuse it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from kvwire.attack.probes.endpoints import tcp
from kvwire.attack.probes.kit.deployment import elsewhere
from kvwire.attack.probes.kit.lifecycle import Lifecycle
from kvwire.attack.probes.kit.sandbox import Sandbox, ports
from kvwire.attack.probes.kit.session import Instance, Probe, Session
from kvwire.attack.probes.kit.subscribers import Subscribers
from kvwire.standard.protocol import AdapterError, Refused
from kvwire.wire.endpoint_rules import NO_REPLAY


def run(session: Session) -> None:
    """Over ipc and over tcp, the publish endpoint and the replay endpoint."""
    with Sandbox() as sandbox, Subscribers(session) as subscribers, session.fresh(2) as instances:
        lifecycle = Lifecycle(session, sandbox, subscribers)
        places = [(sandbox.ipc("used"), sandbox.ipc("used-replay"), sandbox.ipc("own"))]
        if (port := ports(1, 2)) is not None:
            places.append((tcp(port), tcp(port + 1), tcp(port + 2)))
        try:
            for place in places:
                _try(session, lifecycle, instances, *place)
        except AdapterError:  # it stands in the record of the call
            return


def _try(
    session: Session, lifecycle: Lifecycle, instances: Sequence[Instance], publish: str, replay: str, own: str
) -> None:
    first, second = instances
    base = elsewhere(session.start)
    bound = lifecycle.begin(first, msgspec.structs.replace(base, endpoint=publish, replay=replay))
    tried = [(publish, NO_REPLAY), (own, replay)]
    if bound is None:  # there are publishers without replay
        bound = lifecycle.begin(first, msgspec.structs.replace(base, endpoint=publish, replay=NO_REPLAY))
        del tried[1]
    if bound is None:
        return
    for endpoint, asked in tried:
        with suppress(Refused):
            second.driver.start(msgspec.structs.replace(base, endpoint=endpoint, replay=asked))
            second.driver.stop()
    lifecycle.end(first, bound)


PROBE = Probe(
    name="endpoint-in-use",
    run=run,
    needs=frozenset({"start", "stop", "fresh"}),
    serves="END-018",
    bounds="starts and stops as the driver bounds them, a handshake within handshake_s",
)
