"""What streams show only when they are held against each other, of one recording or of many.

No sentence of the standard is about streams of several publishers, so that none of this is a verdict: two streams for
one rank, streams that give one prompt different hashes, streams that stopped while their peers went on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kvwire.cache.chains import Text
from kvwire.cache.identity import Identity
from kvwire.conclusion.hearing import Hearing
from kvwire.conclusion.result import Notice
from kvwire.history.rhythm import Heard, stopped
from kvwire.trace.records import StreamInfo

NAMES = 4
"""How many streams a line names at most."""
PREFIXES = 2048
"""So many prefixes of a stream, and of a fleet, are held against each other: those with the smallest checksums, so that
of what streams share the same ones are chosen."""
SHARED = 3
"""So many prefixes two streams have to share at least, and give no one hash, to be told apart."""

Prefixes = Mapping[Text, tuple[int, ...]]
"""The hashes of prefixes, by their tokens."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What one stream shows that others are held against.

    ``heard`` is None of a stream that never was. ``clock_ns`` is what turns its times into those of day, None where the
    recording does not tell.
    """

    name: str
    endpoint: str
    ranks: tuple[int, ...]
    heard: Heard | None
    clock_ns: int | None
    prefixes: Prefixes


def member(info: StreamInfo, hearing: Hearing, ranks: Iterable[int], identity: Identity | None) -> Member:
    """What a stream of a run shows; without ``identity`` nothing of its hashes."""
    return Member(
        name=info.name,
        endpoint=info.endpoint,
        ranks=tuple(sorted(ranks)),
        heard=hearing.heard(info.name),
        clock_ns=hearing.header.clock_ns,
        prefixes={} if identity is None else identity.prefixes(PREFIXES),
    )


class _One(msgspec.Struct):
    """A member without its prefixes: its name for readers, the recording that it is of, and its times."""

    name: str
    recording: int
    endpoint: str
    ranks: tuple[int, ...]
    heard: Heard | None
    clocked: bool


class Fleet:
    """Streams that are held against each other; O(streams)."""

    def __init__(self) -> None:
        self._members: list[_One] = []
        self._recordings: list[str] = []
        self._first: dict[Text, tuple[int, frozenset[int]]] = {}
        """By prefix who announced it first, and its hashes."""
        self._shared: Counter[tuple[int, int]] = Counter()
        self._alike: Counter[tuple[int, int]] = Counter()

    def add(self, members: Sequence[Member], recording: str = "") -> None:
        """Add the streams of the next recording; its name stands before theirs."""
        self._recordings.append(recording)
        for one in members:
            self._prefixes(len(self._members), one.prefixes)
            heard = one.heard if one.clock_ns is None or one.heard is None else one.heard.shifted(one.clock_ns)
            name = one.name if not recording else recording if len(members) == 1 else f"{recording} {one.name}"
            self._members.append(
                _One(
                    name=name,
                    recording=len(self._recordings) - 1,
                    endpoint=one.endpoint,
                    ranks=one.ranks,
                    heard=heard,
                    clocked=one.clock_ns is not None,
                )
            )

    def _prefixes(self, at: int, prefixes: Prefixes) -> None:
        for text, hashes in prefixes.items():
            first, before = self._first.setdefault(text, (at, frozenset(hashes)))
            if first != at:
                self._shared[first, at] += 1
                self._alike[first, at] += not before.isdisjoint(hashes)
        if len(self._first) > 2 * PREFIXES:
            self._first = dict(sorted(self._first.items())[:PREFIXES])

    def _groups(self) -> list[dict[int, Heard]]:
        """Members whose times are by one clock: those of one recording, or of all that tell the time of day."""
        groups: dict[int, dict[int, Heard]] = {}
        for at, one in enumerate(self._members):
            if one.heard is not None:
                groups.setdefault(-1 if one.clocked else one.recording, {})[at] = one.heard
        return list(groups.values())

    def notices(self) -> Iterator[Notice]:
        """All of them, one for each fact, however many streams it is about."""
        for group in self._groups():
            if gone := stopped(group):
                yield self._stopped(gone, group)
        yield from self._twins()
        yield from self._hashes()
        yield from self._clocks()

    def _named(self, which: Iterable[int]) -> list[str]:
        return [self._members[at].name for at in which]

    def _stopped(self, gone: Sequence[int], group: Mapping[int, Heard]) -> Notice:
        begin = min(heard.began_ns for heard in group.values())
        after = min(group[at].last_ns - begin for at in gone) / 1e9
        going = len(group) - len(gone)
        others = f"{going} other streams" if going > 1 else "another stream"
        names = self._named(gone)
        said = f"{listed(names)} stopped after {seconds(after)}, while {others} went on"
        return Notice(what="stopped", streams=names, after_s=after, text=said)

    def _twins(self) -> Iterator[Notice]:
        """Endpoints on which one rank was heard at one time."""
        found: dict[int, set[int]] = {}
        for group in self._groups():
            by_rank: dict[int, list[int]] = {}
            for at in sorted(group, key=lambda at: group[at].first_ns):
                for rank in self._members[at].ranks:
                    by_rank.setdefault(rank, []).append(at)
            for rank, ordered in by_rank.items():
                latest = ordered[0]
                for at in ordered[1:]:
                    one, other = self._members[latest], self._members[at]
                    if group[latest].meets(group[at]) and one.endpoint != other.endpoint:
                        found.setdefault(rank, set()).update((latest, at))
                    if group[at].last_ns > group[latest].last_ns:
                        latest = at
        for rank, which in sorted(found.items()):
            names = self._named(sorted(which))
            count = "two" if len(names) == 2 else str(len(names))
            yield Notice(what="one-rank", streams=names, text=f"{count} streams carry rank {rank}: {listed(names)}")

    def _hashes(self) -> Iterator[Notice]:
        """Streams that give no prompt the hash that the first stream gives it which has it too.

        One that gives some prompts the same can know several scopes, a salt, say, of which the wire does not tell.
        """
        apart: dict[int, list[int]] = {}
        for (first, at), count in self._shared.items():
            if count >= SHARED and not self._alike[first, at]:
                apart.setdefault(first, []).append(at)
        for first, which in sorted(apart.items()):
            name, names = self._members[first].name, self._named(which)
            count = sum(self._shared[first, at] for at in which)
            said = f"{listed(names)} and {name} hash one prompt differently: 0 of {count} shared prefixes alike"
            yield Notice(what="hashes-differ", streams=[name, *names], text=f"{said}; `kvwire doctor` says why")

    def _clocks(self) -> Iterator[Notice]:
        """Recordings whose times cannot be held against those of others."""
        without = {one.recording: None for one in self._members if not one.clocked and one.heard is not None}
        if without and len({one.recording for one in self._members if one.heard is not None}) > 1:
            names = [self._recordings[at] for at in without]
            said = f"{listed(names)}: no time of day, so that who stopped and who was heard at one time is not compared"
            yield Notice(what="clocks", streams=names, text=f"{said} with other recordings")


def seconds(value: float) -> str:
    """A time for readers."""
    return f"{value:.1f}".removesuffix(".0") + " s"


def listed(names: Sequence[str]) -> str:
    """Names of streams, the first few."""
    rest = len(names) - NAMES
    return ", ".join(names[:NAMES]) + (f" and {rest} more" if rest > 0 else "")
