"""Starting and stopping instances of a publisher, and recording what that shows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal

from kvwire.attack.probes.kit.sandbox import Sandbox, can_bind, family_of, is_answered, is_free, who_can_come
from kvwire.attack.probes.kit.session import Instance, Session
from kvwire.attack.probes.kit.subscribers import ClientEndpoint, Subscribers
from kvwire.standard.protocol import Bound, Refused, Start
from kvwire.trace.calls import StartCall
from kvwire.trace.marks import Freed, Looked, Ports
from kvwire.wire.endpoint_rules import Asked, connectable, faults, of_rank, split

GRACE_S = 1.0
"""What a stop gets on top of its declared bound before we stop looking: this machine may be busy."""
POLL_S = 0.01


def client_endpoints(wish: Asked, bound: Bound) -> tuple[ClientEndpoint, ...]:
    """Where clients look for a publisher: where it should be by what was asked, and where it says that it is.

    A publisher that dials has none for subscribers.
    """
    sockets = (("SUB", wish.endpoint, bound.endpoint), ("DEALER", wish.replay, bound.replay))
    found: dict[ClientEndpoint, None] = {}
    for socket, wanted, reported in sockets:
        if reported is None or (socket == "SUB" and bound.mode == "bind"):
            continue
        places = [reported] if wanted is None else [of_rank(wanted, wish.rank), reported]
        for place in filter(None, map(connectable, places)):
            if split(place)[0] != "inproc":
                found[ClientEndpoint(place, "SUB" if socket == "SUB" else "DEALER")] = None
    return tuple(found)


def served(bound: Bound) -> tuple[str, ...]:
    """The endpoints that a publisher says it has bound, as clients reach them."""
    reported = (None if bound.mode == "bind" else bound.endpoint, bound.replay)
    places = (connectable(endpoint) for endpoint in reported if endpoint is not None)
    return tuple(place for place in places if place is not None and split(place)[0] != "inproc")


class Lifecycle:
    """Starts and stops instances of one run; what lies in the private directory of ``sandbox`` is watched."""

    def __init__(self, session: Session, sandbox: Sandbox, subscribers: Subscribers) -> None:
        self.session = session
        self.sandbox = sandbox
        self.subscribers = subscribers
        self.held = False
        """Whether something was still bound after the bound: one wait for that is enough."""

    def begin(self, instance: Instance, start: Start) -> Bound | None:
        """Start an instance, and look whether it is where it should be; None when it was refused.

        Raises:
            AdapterError: as the driver does.
        """
        wish = StartCall.of(start).asked
        self.sandbox.forget()
        try:
            bound = instance.driver.start(start)
        except Refused:
            self._look(instance, wish)
            if wish.endpoints and not faults(wish) and not wish.undecided:
                ours = [of_rank(endpoint, wish.rank) for endpoint in wish.endpoints]
                self.session.mark(Ports(free=all(map(_could_bind, ours))), instance.name)
            return None
        self._look(instance, wish)
        if not faults(wish):
            self.subscribers.reach(instance.name, client_endpoints(wish, bound))
            for place in served(bound):
                self.see(instance.name, place)
        return bound

    def _look(self, instance: Instance, wish: Asked) -> None:
        if any(str(self.sandbox.directory) in endpoint for endpoint in wish.endpoints):
            self.session.mark(Looked(changed=self.sandbox.changed), instance.name)

    def see(self, stream: str, endpoint: str) -> None:
        """Record who can come to an endpoint."""
        self.session.recorder.note(who_can_come(endpoint), stream)

    def end(self, instance: Instance, bound: Bound) -> None:
        """Stop an instance and wait until what it had bound is free.

        Raises:
            AdapterError: as the driver does.
        """
        began = time.monotonic()
        try:
            instance.driver.stop()
        finally:  # a stop that failed frees its ports all the same, or does not
            if not self.held:
                self.held = not freed(self.session, instance.name, served(bound), began)


def freed(session: Session, stream: str, endpoints: Iterable[str], began: float) -> bool:
    """Wait until endpoints can be bound anew, or for the declared bound and some more, and record which it was.

    What is held then is waited for again, until it is certain. False when something is.
    A port that nobody listens at and that cannot be bound is somebody else's by now: ``taken``.
    """
    bound = session.statement.bounds.stop_s + GRACE_S
    held = list(endpoints)
    for _ in session.attempts(stream):
        waiting, held = held, []
        for endpoint in waiting:
            free = session.wait(lambda: is_free(endpoint), max(0.0, began + bound - time.monotonic()))  # noqa: B023
            outcome: Literal["free", "held", "taken"]
            outcome = "free" if free else "held" if is_answered(endpoint) else "taken"
            after = round(time.monotonic() - began, 3)
            session.mark(Freed(endpoint=endpoint, outcome=outcome, after_s=after, bound_s=bound), stream)
            if outcome == "held":
                held.append(endpoint)
        if not held:
            return True
        began, bound = time.monotonic(), GRACE_S
    return False


def _could_bind(endpoint: str) -> bool:
    scheme, _, port = split(endpoint)
    return scheme != "tcp" or can_bind(int(port), family_of(endpoint))
