"""Exposure: who can come to an endpoint, and whether anybody is asked who they are (spec/exposure.md).

The harness has no credentials: whatever it gets a handshake from asks for none.
"""

from __future__ import annotations

from kvwire.judges.area import Area, Context, Say, judge, unused
from kvwire.judges.verdict import Where
from kvwire.trace.instances import Records, begun
from kvwire.trace.records import Record, Source
from kvwire.wire.endpoint_rules import WILDCARDS, is_loopback, split

DEFAULT = "default"
"""Marks the place of the default endpoint: declared, and not bound in this run."""


class Exposure(Area):
    """Reads what the machine shows of each endpoint, and who got in."""

    memory = "O(instances)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.records: list[tuple[int, Record]] = []

    def on_record(self, index: int, record: Record) -> None:
        if record.frames is None:
            self.records.append((index, record))

    def finish(self) -> None:
        self.by_default()
        reached = any(record.event == "HANDSHAKE_SUCCEEDED" for _, record in self.records)
        refused = any((record.event or "").startswith("HANDSHAKE_FAILED") for _, record in self.records)
        for index, place in _places(self.records):
            if not place.detail.get(DEFAULT):
                self.authenticated(index, place, reached=reached, refused=refused)
        for name, records in self.context.instances.items():
            got_in = {reach.endpoint for start in begun(name, records) for reach in start.reached if reach.done}
            for index, place in _places(records):
                self.authenticated(index, place, reached=place.detail["endpoint"] in got_in, refused=False)

    @judge("KVW-EXP-001")
    def by_default(self, say: Say) -> None:
        """KVW-EXP-001: A publisher SHOULD bind by default to loopback or to `ipc` in a directory that only its user
        can enter.

        An adapter that is not told where chooses by itself, so that what it bound says nothing of the publisher: the
        default is the declared `default_endpoint`.
        """
        default = self.context.statement.default_endpoint
        if not _places(self.records):
            return
        if default is None:
            say.open("no `default_endpoint` is declared, and where this run bound is not its choice")
            return
        scheme, host, _ = split(default)
        at = [(index, place) for index, place in _places(self.records) if place.detail.get(DEFAULT)]
        private = at[-1][1].detail.get("private") if at else None
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
    def authenticated(self, say: Say, index: int, place: Record, *, reached: bool, refused: bool) -> None:
        """KVW-EXP-002: A publisher SHOULD authenticate clients (CURVE with an allow-list of client keys) on every
        endpoint that is reachable more widely.

        More widely than loopback and private directories. A handshake of ours, which brings no credentials, breaks it;
        one that was turned away is a witness. Where nothing is reachable more widely it does not apply.
        """
        wide = _wide(place)
        if wide and reached:
            say.broke(
                f"clients of {place.detail['endpoint']!r} to be authenticated: {wide}",
                "a handshake with a client that has no credentials",
                Where(record=index),
            )
        elif wide and refused:
            say.saw()


def _places(records: Records) -> list[tuple[int, Record]]:
    return [(index, r) for index, r in records if r.source == Source.HARNESS and r.event == "place"]


def _wide(place: Record) -> str:
    """Who else can come to an endpoint; empty when nobody is known to."""
    endpoint = str(place.detail["endpoint"])
    scheme, host, _ = split(endpoint)
    if scheme == "ipc":
        return "others can enter its directory" if place.detail.get("private") is False else ""
    if scheme != "tcp":
        return ""
    near = is_loopback(host)
    if near is None:
        far = [address for address in place.detail.get("addresses", ()) if is_loopback(address) is False]
        return f"its host is {', '.join(far)}" if far else ""
    if not near:
        return f"it is bound to {host}"
    here = list(place.detail.get("listening", ()))
    exact = [address for address in here if is_loopback(address)]
    every = [address for address in here if address in WILDCARDS or f"[{address}]" in WILDCARDS]
    return f"it listens on {', '.join(every)}" if every and not exact else ""
