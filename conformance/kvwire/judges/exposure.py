"""Exposure: who can come to an endpoint, and whether anybody is asked who they are (spec/exposure.md).

Unless it was given CURVE keys, the harness has no credentials: whatever it gets a handshake from asks for none.
"""

from __future__ import annotations

from kvwire.judges.area import Area, Say, judge, unused
from kvwire.judges.verdict import Reason, Where
from kvwire.standard.statement import Statement
from kvwire.trace.detail import SocketEvent
from kvwire.trace.instances import begun
from kvwire.trace.marks import EndpointSeen, Witnesses
from kvwire.trace.records import StreamInfo, told
from kvwire.wire.endpoint_rules import WILDCARDS, is_loopback, split


def _no_clear_salts(_: StreamInfo, statement: Statement) -> Reason:
    """Salts are not sent in clear; or nothing is reachable more widely."""
    return Reason.NOT_USED if statement.salt == "clear" else Reason.NOT_CLAIMED


class Exposure(Area):
    """Reads what the machine shows of each endpoint, and who got in."""

    memory = "O(instances)"
    _keys = False

    def finish(self) -> None:
        self.by_default()
        said = [monitored.event for _, monitored in told(self.facts.details, SocketEvent)]
        # With keys of ours a handshake says nothing of those without.
        self._keys = any(witnesses.curve for _, witnesses in told(self.facts.details, Witnesses))
        reached = "HANDSHAKE_SUCCEEDED" in said and not self._keys
        refused = any(event.startswith("HANDSHAKE_FAILED") for event in said)
        for index, place in told(self.facts.details, EndpointSeen):
            if not place.default:
                self.authenticated(index, place, reached=reached, refused=refused)
                self.salts_in_private(index, place, reached=reached, refused=refused)
        for name, records in self.context.instances.items():
            reached_ones = (reach for start in begun(name, records) for reach, _ in start.reached if reach.done)
            got_in = set() if self._keys else {reach.endpoint for reach in reached_ones}
            for index, place in told(records, EndpointSeen):
                self.authenticated(index, place, reached=place.endpoint in got_in, refused=False)
                self.salts_in_private(index, place, reached=place.endpoint in got_in, refused=False)

    @judge("KVW-EXP-001")
    def by_default(self, say: Say) -> None:
        """KVW-EXP-001: A publisher SHOULD bind by default to loopback or to `ipc` in a directory that only its user
        can enter.

        An adapter that is not told where chooses by itself, so that what it bound says nothing of the publisher: the
        default is the declared `default_endpoint`.
        """
        default = self.context.statement.default_endpoint
        places = list(told(self.facts.details, EndpointSeen))
        if not places:
            return
        if default is None:
            say.open("no `default_endpoint` is declared, and where this run bound is not its choice")
            return
        scheme, host, _ = split(default)
        at = [(index, place) for index, place in places if place.default]
        private = at[-1][1].private if at else None
        if scheme == "inproc" or is_loopback(host) or private:
            say.saw()
        elif scheme == "ipc" and private is None:
            say.open(f"nothing shows who can enter the directory of {default!r}")
        else:
            why = "anybody here can enter its directory" if scheme == "ipc" else "it is reached from other machines"
            say.broke(
                "loopback, or `ipc` in a private directory, unless told otherwise",
                f"{default!r}, as declared: {why}",
                Where(record=at[-1][0] if at else None),
            )

    @judge("KVW-EXP-002", unclaimed=unused)
    def authenticated(self, say: Say, index: int, place: EndpointSeen, *, reached: bool, refused: bool) -> None:
        """KVW-EXP-002: A publisher SHOULD authenticate clients (CURVE with an allow-list of client keys) on every
        endpoint that is reachable more widely.

        More widely than loopback and private directories. A handshake of ours, which brings no credentials, breaks it;
        one that was turned away is a witness. Where nothing is reachable more widely it does not apply.
        """
        wide = _wide(place)
        if wide and reached:
            say.broke(
                f"clients of {place.endpoint!r} to be authenticated: {wide}",
                "a handshake with a client that has no credentials",
                Where(record=index),
            )
        elif wide and refused:
            say.saw()
        elif wide and self._keys:
            say.open("our clients brought CURVE keys: whether others are let in was not seen")

    @judge("KVW-EXP-003", unclaimed=_no_clear_salts, declares='salt = "clear"')
    def salts_in_private(self, say: Say, index: int, place: EndpointSeen, *, reached: bool, refused: bool) -> None:
        """KVW-EXP-003: A publisher that declares `salt = "clear"` MUST NOT bind an endpoint that is reachable more
        widely than its host without authenticating clients.

        As for KVW-EXP-002; a socket file in an open directory is not reachable beyond the host.
        """
        wide = _wide(place) if split(place.endpoint)[0] == "tcp" else ""
        if not wide or self.context.statement.salt != "clear":
            return
        if reached:
            say.broke(
                f"clear salts, as declared, only where clients of {place.endpoint!r} are authenticated: {wide}",
                "a handshake with a client that has no credentials",
                Where(record=index),
            )
        elif refused:
            say.saw()
        elif self._keys:
            say.open("our clients brought CURVE keys: whether others are let in was not seen")


def _wide(place: EndpointSeen) -> str:
    """Who else can come to an endpoint; empty when nobody is known to."""
    scheme, host, _ = split(place.endpoint)
    if scheme == "ipc":
        return "others can enter its directory" if place.private is False else ""
    if scheme != "tcp":
        return ""
    near = is_loopback(host)
    if near is None:
        far = [address for address in place.addresses or () if is_loopback(address) is False]
        return f"its host is {', '.join(far)}" if far else ""
    if not near:
        return f"it is bound to {host}"
    here = place.listening or ()
    exact = [address for address in here if is_loopback(address)]
    every = [address for address in here if address in WILDCARDS or f"[{address}]" in WILDCARDS]
    return f"it listens on {', '.join(every)}" if every and not exact else ""
