"""Beside a publisher: what was found so far, at any moment, while records keep coming.

    watcher = Watcher(header)
    for record in records:
        watcher.take(record)
        for said in watcher.findings_since(known): ...
    result = watcher.result()

One that was given every record of a recording comes to the same result as ``conclude`` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kvwire.conclusion.conclude import Listening
from kvwire.conclusion.fleet import Member, member
from kvwire.conclusion.passing import Passing, passes
from kvwire.conclusion.result import Result
from kvwire.conclusion.summary import Wanted
from kvwire.history.follower import HORIZON, Horizon
from kvwire.judges.verdict import Finding, Outcome, Tally
from kvwire.standard import registry
from kvwire.standard.registry import Profile
from kvwire.trace.records import Header, Record
from kvwire.wire.events import Form


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that is shown: of each stream and requirement the first three."""

    stream: str
    requirement: str
    finding: Finding


class StreamFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How one stream stands.

    ``batches`` and ``events`` (by type) were judged; ``waiting`` messages were received and are not settled yet.
    ``gaps`` counts ranges of numbers that nobody delivered, ``missing`` the numbers in them. ``resident`` counts blocks
    that are known to be there, in all locations. ``function`` is the hash function that enough blocks show.
    ``last_number`` and ``last_t_ns`` are those of the last live message, None before the first.
    """

    batches: int
    events: Mapping[str, int]
    waiting: int
    incarnations: int
    gaps: int
    missing: int
    resident: int
    form: Form
    function: str | None
    last_number: int | None
    last_t_ns: int | None


class Watcher:
    """Judges the streams of a header while their records come.

    ``replays``: whether the records hold answers to replay requests, for which is waited where batches are missing;
    None: wherever a stream has a replay endpoint. ``digests``: whether the result has the digest of what was taken, as
    that of a recording which somebody keeps.

    Raises:
        ValueError: when something is done to the publisher (``header.can``): such a run is judged as a whole.
    """

    def __init__(
        self,
        header: Header,
        profile: Profile | None = None,
        wanted: Wanted | None = None,
        *,
        replays: bool | None = None,
        horizon: Horizon = HORIZON,
        digests: bool = True,
    ) -> None:
        if not passes(header):
            raise ValueError(f"a run that can {', '.join(header.can)} is judged when it is over: `kvwire judge`")
        chosen = registry.profile(header.profile) if profile is None else profile
        known = registry.load()
        self._run = Listening(header, known, chosen, wanted, replays=replays, horizon=horizon, digests=digests)
        self._said: list[Said] = []
        self._known = dict.fromkeys(self._run.streams, 0)

    def take(self, record: Record) -> None:
        """Take the next record."""
        self._run.take(record)

    def tallies(self) -> dict[tuple[str, str], Tally]:
        """What was counted so far, by stream and requirement; to be read, and not to be kept."""
        found: dict[tuple[str, str], Tally] = {}
        for name, stream in self._run.streams.items():
            stream.flush()
            found.update(((name, requirement), tally) for requirement, tally in stream.showing.tallies.items())
        return found

    def outcomes(self) -> list[Outcome]:
        """The verdicts of what was judged so far."""
        return [outcome for stream in self._run.streams.values() for outcome in stream.outcomes(self._run.only)]

    def findings_since(self, number: int) -> Sequence[Said]:
        """What was found after the first ``number`` findings, in order."""
        for name, stream in self._run.streams.items():
            found = stream.facts.findings
            for requirement, finding in found[self._known[name] :]:
                if self._run.only is None or requirement in self._run.only:
                    self._said.append(Said(stream=name, requirement=requirement, finding=finding))
            self._known[name] = len(found)
        return self._said[number:]

    @property
    def facts(self) -> dict[str, StreamFacts]:
        """How each stream stands, by name."""
        return {name: _facts(stream) for name, stream in self._run.streams.items()}

    def member(self, name: str) -> Member:
        """What one stream shows so far that others are held against."""
        stream, run = self._run.streams[name], self._run
        return member(stream.stream, run.hearing, stream.showing.appearance.ranks, stream.facts.identity)

    def result(self, *, interrupted: bool = False) -> Result:
        """The watch is over: its result, from everything that came. Nothing can be taken after it."""
        return self._run.result(interrupted=interrupted)


def _facts(stream: Passing) -> StreamFacts:
    stream.flush()
    follower, appearance = stream.follower, stream.showing.appearance
    gaps = [gap for lived in follower.lived for gap in lived.gaps]
    return StreamFacts(
        batches=appearance.batches,
        events=appearance.events,
        waiting=follower.waiting,
        incarnations=len(follower.lived),
        gaps=len(gaps) + sum(lived.more_gaps for lived in follower.lived),
        missing=sum(lived.missing for lived in follower.lived),
        resident=stream.facts.ledger.held,
        form=appearance.form,
        function=stream.function,
        last_number=stream.last_number,
        last_t_ns=None if stream.last is None else stream.last.t_ns,
    )
