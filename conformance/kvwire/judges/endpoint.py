"""Endpoints: what a publisher binds, what it refuses, and how it says so (spec/endpoint.md).

What a `start` had to lead to follows from its arguments alone (``endpoint_rules``); what it led to stands in the
records of the instance. A refusal of the adapter's own is no evidence about the publisher.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvwire.judges.area import Area, Bound, Context, Say, judge, unused
from kvwire.judges.verdict import Where
from kvwire.trace.attempts import Stalls
from kvwire.trace.calls import BoundAt
from kvwire.trace.detail import SocketEvent
from kvwire.trace.instances import Begun, begun
from kvwire.trace.records import LIVE, Records, told
from kvwire.wire.endpoint_rules import ANY_PORT, SCHEMES, TOGETHER, Fault, Rule, connectable, faults, of_rank, split
from kvwire.wire.endpoint_rules import names as names_it

UNSURE = "no handshake came about, and too few attempts could be made to be sure"


class Endpoint(Area):
    """Reads every `start`, of the stream and of the other instances, and what was looked at after it."""

    memory = "O(instances)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.why: dict[Say, str] = {}
        """Per sentence why an occasion showed nothing: it matters where no other did."""
        self.unspoken: frozenset[str] = frozenset()
        """Schemes that the publisher does not speak, and says so."""

    def finish(self) -> None:
        said = (event for _, event in told(self.facts.details, SocketEvent))
        reached = any(event.event == "HANDSHAKE_SUCCEEDED" and event.of in LIVE for event in said)
        for start in begun(self.context.stream.name, self.facts.stimuli, self.facts.stalls)[:1]:
            dials = start.bound is not None and start.bound.dials
            if start.bound is not None and (dials or reached):
                self.binds(start, dials=dials, missing="")
        stalls = self.facts.stalls
        tried = [start for name, records in self.context.instances.items() for start in _tried(name, records, stalls)]
        if "rank" in self.context.header.sets:
            tried = [start for start in tried if not _of_ranks(start)]
        shows = any(start.touched for start in tried if start.bound is not None)
        self.unspoken = _unspoken(tried)
        for start in tried:
            served = next((place for other in tried if (place := _serves(other, start)) is not None), None)
            if found := faults(start.asked):
                self._faulty(start, found[0], shows=shows)
            elif served is not None:
                self._faulty(start, Fault(Rule.IN_USE, (served,), "another process serves it"), shows=False)
            else:
                self._sound(start)
        for say, reason in self.why.items():
            if not say.tally.witnesses:
                say.open(reason)

    def _unknown(self, start: Begun, *sentences: Say) -> bool:
        """Whether a `start` says nothing of the publisher, and why."""
        if start.by_adapter:
            why = f"{start.refused}: the adapter refused it, not the publisher"
        elif start.error is not None:
            why = f"the adapter failed: {start.error}"
        elif start.bound is None and start.refused is None:
            why = "the adapter gave no answer"
        elif start.refused is not None and (scheme := self._unspoken_in(start)):
            why = f"it refuses every {scheme} endpoint and says so, and none has to be spoken"
        else:
            return False
        for say in sentences:
            self.why.setdefault(say, why)
        return True

    def _unspoken_in(self, start: Begun) -> str | None:
        """A scheme of the endpoints that were asked for, which the publisher does not speak."""
        return next((scheme for e in start.asked.endpoints if (scheme := split(e)[0]) in self.unspoken), None)

    # what has to be refused

    def _faulty(self, start: Begun, fault: Fault, *, shows: bool) -> None:
        refuses = {
            Rule.NO_PORT: self.no_port,
            Rule.PORT_RANGE: self.port_range,
            Rule.RANK_RANGE: self.rank_range,
            Rule.SCHEME: self.scheme,
            Rule.EMPTY: self.empty,
            Rule.TOO_CLOSE: self.too_close,
            Rule.SAME: self.same,
            Rule.LONG_PATH: self.long_path,
            Rule.HOST: self.host,
            Rule.RANK: self.no_such_rank,
            Rule.IN_USE: self.in_use,
        }[fault.rule]
        if self._unknown(start, refuses, self.names, self.nothing_opened):
            return
        refuses(start, fault)
        if start.refused is not None:
            if fault.endpoints:
                self.names(start, fault, start.refused)
            if start.touched is not None and _tempts(start, fault):
                self.nothing_opened(start, shows=shows)

    @staticmethod
    def _refuses(say: Say, start: Begun, fault: Fault) -> None:
        """Whatever keeps it from starting is a refusal here; that it comes before any socket is KVW-END-013's."""
        if start.refused is not None:
            say.saw()
            return
        assert start.bound is not None
        offending = " and ".join(map(repr, fault.endpoints)) or "this start"
        of = f" (rank {start.asked.rank} of {start.asked.world})" if _of_ranks(start) else ""
        say.broke(
            f"a refusal of {offending}{of}: {fault.why}",
            f"accepted: {_told(start.bound)}",
            Where(record=start.record),
        )

    @judge("KVW-END-004")
    def no_port(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-004: A publisher MUST refuse a `tcp` endpoint whose port is missing or not a decimal number."""
        self._refuses(say, start, fault)

    @judge("KVW-END-005")
    def port_range(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-005: A publisher MUST refuse a `tcp` endpoint whose port is outside 1…65535, port 0 included unless
        an ephemeral port was asked for.
        """
        self._refuses(say, start, fault)

    @judge("KVW-END-006")
    def rank_range(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-006: A publisher MUST refuse a `tcp` endpoint whose port plus the highest global rank exceeds
        65535.
        """
        self._refuses(say, start, fault)

    @judge("KVW-END-007")
    def scheme(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-007: A publisher MUST refuse an endpoint whose scheme is not `tcp`, `ipc` or `inproc`."""
        self._refuses(say, start, fault)

    @judge("KVW-END-008")
    def empty(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-008: A publisher MUST refuse an empty endpoint, and one with nothing after its scheme."""
        self._refuses(say, start, fault)

    @judge("KVW-END-009")
    def too_close(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-009: A publisher MUST refuse publish and replay endpoints on one host whose `tcp` ports lie closer
        together than the number of ranks on that host.
        """
        self._refuses(say, start, fault)

    @judge("KVW-END-010")
    def same(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-010: A publisher MUST refuse a replay endpoint that is identical to the publish endpoint of any rank
        on its host, for every scheme and also for rank 0.

        Ports of `tcp` that overlap without being configured as one are KVW-END-009's.
        """
        self._refuses(say, start, fault)

    @judge("KVW-END-011")
    def long_path(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-011: A publisher MUST refuse an `ipc` endpoint whose path is longer than 107 bytes after the suffix
        of the highest global rank.
        """
        self._refuses(say, start, fault)

    @judge("KVW-END-016")
    def host(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-016: A publisher MUST refuse a `tcp` endpoint without a host, and one whose bracket is not closed."""
        self._refuses(say, start, fault)

    @judge("KVW-END-017")
    def no_such_rank(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-017: A publisher MUST refuse a global rank below 0 or not below the world size."""
        self._refuses(say, start, fault)

    @judge("KVW-END-018")
    def in_use(self, say: Say, start: Begun, fault: Fault) -> None:
        """KVW-END-018: A publisher MUST refuse an endpoint that a running process already serves, over `ipc` too.

        Another instance serves it that was started there, answered a client of ours, and was not stopped since.
        """
        self._refuses(say, start, fault)

    @judge("KVW-END-012")
    def names(self, say: Say, start: Begun, fault: Fault, text: str) -> None:
        """KVW-END-012: A publisher MUST name the offending endpoint, as configured or as derived for the rank, in the
        error of a refusal.

        Of two that do not go together, one. Where the rank offends, no endpoint does.
        """
        if names_it(text, fault, start.asked):
            say.saw()
        else:
            offending = " or ".join(map(repr, fault.endpoints))
            say.broke(f"an error that names {offending}", repr(text), Where(record=start.record))

    @judge("KVW-END-013")
    def nothing_opened(self, say: Say, start: Begun, *, shows: bool) -> None:
        """KVW-END-013: A publisher MUST refuse before it opens any socket, an endpoint in use excepted.

        A socket of `ipc` is a file: a directory in which a sound endpoint would lie and in which nothing appeared, not
        even to disappear again, shows that none was bound. That our directory shows the publisher's files at all is
        shown by an endpoint in it that was accepted.
        """
        if start.touched:
            say.broke(
                f"a refusal of {' and '.join(map(repr, start.asked.endpoints))} before anything is opened",
                "a file appeared in their directory before it was refused",
                Where(record=start.record),
            )
        elif shows:
            say.saw()
        else:
            self.why.setdefault(say, "no accepted endpoint shows that its files can be seen from here")

    # what has to be bound

    def _sound(self, start: Begun) -> None:
        wish = start.asked
        named = split(wish.endpoints[0])
        ipv6, tcp, ranked = named[1].startswith("["), named[0] == "tcp", wish.rank > 0
        asks_any = wish.ephemeral or wish.undecided
        at_rank = self.tcp_at_rank if tcp else self.other_at_rank
        about: Say = self.reports if asks_any else self.ipv6 if ipv6 else at_rank if ranked else self.binds
        if self._unknown(start, about):
            return
        if start.bound is None:
            if start.free is False:
                self.why.setdefault(about, "somebody else had the port meanwhile")
            elif asks_any:
                pass  # whoever refuses ephemeral ports has none to report
            elif ipv6:
                self.ipv6(start, bound=False)
            elif ranked:
                at_rank(start, None)
            else:
                self.binds(start, dials=False, missing=wish.endpoints[0])
        elif asks_any and start.bound.dials:
            self.why.setdefault(about, "it connects, and binds no ephemeral port")
        elif asks_any:
            self.reports(start)
        else:
            self._bound(start, at_rank if ranked else None, ipv6=ipv6)

    def _bound(self, start: Begun, at_rank: Bound[[Begun, str | None]] | None, *, ipv6: bool) -> None:
        assert start.bound is not None
        wish = start.asked
        dials = start.bound.dials
        reported = (start.bound.endpoint, start.bound.replay)
        missing, unsure = "", False
        for wanted, said in zip(wish.endpoints, reported, strict=False):
            place = of_rank(wanted, wish.rank)
            if start.handshake(place) or (dials and wanted == wish.endpoint):
                continue
            other = None if said is None else connectable(said)
            if at_rank is not None and other is not None and start.handshake(other):
                if start.handshake(place) is False:
                    at_rank(start, other)
                else:
                    at_rank.open(UNSURE)
                return
            if start.handshake(place) is False:
                missing = missing or place
            else:
                unsure = unsure or _tries(start, place)
        if unsure and not missing:
            self.binds.open(UNSURE)
            return
        self.binds(start, dials=dials, missing=missing)
        if at_rank is not None and not missing:
            for wanted in wish.endpoints:
                if start.handshake(place := of_rank(wanted, wish.rank)):
                    at_rank(start, place)
                    break
        if ipv6 and not (dials or missing):
            self.ipv6(start, bound=True)

    @judge("KVW-END-001")
    def binds(self, say: Say, start: Begun, *, dials: bool, missing: str) -> None:
        """KVW-END-001: A publisher MUST bind its endpoints, to which subscribers and replay clients connect.

        A client of ours that gets a handshake there shows it; a publisher that dials says so, or is not found.
        """
        if dials:
            bound = None if start.bound is None else start.bound.endpoint
            say.broke(
                "a publisher that binds, and clients that connect to it",
                f"it connects to {bound!r} and leaves the binding to its subscribers",
                Where(record=start.record),
            )
        elif missing:
            seen = f"refused: {start.refused!r}" if start.bound is None else self._nobody(start, missing)
            say.broke(
                f"a publisher that binds {' and '.join(map(repr, start.asked.endpoints)) or 'what it reports'}",
                seen,
                Where(record=start.record),
            )
        else:
            say.saw()

    def _nobody(self, start: Begun, missing: str) -> str:
        bound = max((reach.bound_s for reach, _ in start.reached), default=0.0)
        within = f" within {bound:g} s" if bound else ""
        return f"it says that it is bound, and nobody answers at {missing!r}{within}"

    @staticmethod
    def _at_rank(say: Say, start: Begun, bound: str | None) -> None:
        wish = start.asked
        expected = of_rank(wish.endpoints[0], wish.rank)
        if bound in {of_rank(endpoint, wish.rank) for endpoint in wish.endpoints}:
            say.saw()
        else:
            seen = f"refused: {start.refused!r}" if bound is None else f"it is bound at {bound!r}"
            say.broke(
                f"{wish.endpoints[0]!r} bound at {expected!r} by rank {wish.rank}",
                seen,
                Where(record=start.record),
            )

    @judge("KVW-END-002")
    def tcp_at_rank(self, say: Say, start: Begun, bound: str | None) -> None:
        """KVW-END-002: A publisher MUST bind, for a `tcp` endpoint, the configured port plus its global rank.

        Only ranks above 0 are occasions. The replay endpoint shows it too, where the publisher dials.
        """
        self._at_rank(say, start, bound)

    @judge("KVW-END-003")
    def other_at_rank(self, say: Say, start: Begun, bound: str | None) -> None:
        """KVW-END-003: A publisher MUST append `_dp` and its global rank to an `ipc` or `inproc` endpoint for every
        rank above 0, and nothing for rank 0.

        Only ranks above 0 are occasions. The replay endpoint shows it too, where the publisher dials.
        """
        self._at_rank(say, start, bound)

    @judge("KVW-END-014", unclaimed=unused)
    def reports(self, say: Say, start: Begun) -> None:
        """KVW-END-014: A publisher MUST report the endpoint that it bound when an ephemeral port was asked for.

        Whoever refuses ephemeral ports has none to report.
        """
        assert start.bound is not None
        said = start.bound.endpoint
        place = connectable(said)
        if place is not None and start.handshake(place):
            say.saw()
        elif place is not None and start.handshake(place) is None:
            say.open(UNSURE)
        else:
            say.broke(
                f"the port that the system gave for {start.asked.endpoint!r}",
                f"the report {said!r}" + ("" if place is None else ", where nobody answers"),
                Where(record=start.record),
            )

    @judge("KVW-END-015")
    def ipv6(self, say: Say, start: Begun, *, bound: bool) -> None:
        """KVW-END-015: A publisher SHOULD accept and bind IPv6 endpoints of the form `tcp://[address]:port`.

        Asked for only where this machine has the address ::1.
        """
        if bound:
            say.saw()
        else:
            expected = f"{start.asked.endpoint!r} bound"
            say.broke(expected, f"refused: {start.refused!r}", Where(record=start.record))


def _of_ranks(start: Begun) -> bool:
    """Whether a `start` is about ranks: a publisher that is told its rank with each batch knows nothing of them."""
    return start.asked.world > 1 or start.asked.rank != 0


def _unspoken(tried: Sequence[Begun]) -> frozenset[str]:
    """Schemes that a publisher does not speak and says so: each sound endpoint was refused, by a text that names it.

    What it speaks is another scheme, of which an endpoint was accepted that it was told.
    """
    sound = [start for start in tried if not faults(start.asked) and not start.by_adapter]
    spoken = {split(e)[0] for start in sound if start.bound is not None for e in start.asked.endpoints}
    if not spoken:
        return frozenset()
    refused: dict[str, bool] = {}
    for start in sound:
        if start.refused is None or start.free is False:
            continue
        schemes = {split(e)[0] for e in start.asked.endpoints} - spoken
        for scheme in schemes & set(SCHEMES):
            refused[scheme] = refused.get(scheme, True) and scheme in start.refused
    return frozenset(scheme for scheme, named in refused.items() if named)


def _serves(other: Begun, start: Begun) -> str | None:
    """The endpoint of a `start` that an earlier one of another instance serves at that time."""
    over = other.ended is not None and other.ended < start.record
    if other.instance == start.instance or other.record > start.record or over or other.bound is None:
        return None
    held = {of_rank(e, other.asked.rank) for e in other.asked.endpoints}
    own = (endpoint for endpoint in start.asked.endpoints if split(endpoint)[2] not in ("0", ANY_PORT))
    places = ((endpoint, of_rank(endpoint, start.asked.rank)) for endpoint in own)
    return next((endpoint for endpoint, place in places if place in held and other.handshake(place)), None)


def _tries(start: Begun, place: str) -> bool:
    """Whether a client of ours knocked there."""
    return any(reach.endpoint == place for reach, _ in start.reached)


def _told(bound: BoundAt) -> str:
    """What a publisher says of where it is."""
    verb = "it connects to" if bound.dials else "it says that it is bound at"
    replay = f", replay at {bound.replay!r}" if bound.replay else ""
    return f"{verb} {bound.endpoint!r}{replay}"


def _tempts(start: Begun, fault: Fault) -> bool:
    """Whether there is something to open before the fault is found: an ipc endpoint that is sound by itself."""
    together = fault.rule in TOGETHER
    return any(split(e)[0] == "ipc" and (together or e not in fault.endpoints) for e in start.asked.endpoints)


def _tried(name: str, records: Records, stalls: Stalls) -> tuple[Begun, ...]:
    """The starts of an instance that said where to bind."""
    return tuple(start for start in begun(name, records, stalls) if start.asked.endpoints)
