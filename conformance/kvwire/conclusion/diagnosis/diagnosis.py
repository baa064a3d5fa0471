"""A whole diagnosis: profiles, what they mean, how streams agree, and what a consumer's assumptions come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kvwire.conclusion.diagnosis.advice import following, troubles
from kvwire.conclusion.diagnosis.agreement import Agreement, compare
from kvwire.conclusion.diagnosis.expectation import Difference, Expectation, differences
from kvwire.conclusion.diagnosis.stream_profile import Profiler, StreamProfile, profilers
from kvwire.trace.records import Trace

FORMAT = "kvwire-diagnosis-1"


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A line of advice and the stream that it is about."""

    stream: str
    text: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What ``kvwire doctor`` says, as JSON."""

    format: str
    targets: list[str]
    streams: list[StreamProfile]
    troubles: list[Named]
    differences: list[Difference]
    agreements: list[Agreement]
    next: list[str]

    @property
    def clean(self) -> bool:
        """Whether nothing was found that keeps a consumer from hits, and something was heard."""
        parted = any(agreement.parting is not None for agreement in self.agreements)
        return not (self.troubles or self.differences or parted) and any(one.batches for one in self.streams)


def diagnose(
    traces: Sequence[tuple[str, Trace]], expected: Expectation | None = None, seeds: Iterable[str] = ()
) -> Diagnosis:
    """The diagnosis of recordings, each with the target that it is of; a function of its arguments."""
    seeds = tuple(seeds)
    made: list[Profiler] = []
    for at, (_, trace) in enumerate(traces, 1):
        found = profilers(trace, seeds)
        if len(traces) > 1:
            for profiler in found:
                profiler.rename(f"{at}:{profiler.made().name}")
        made += found
    profiles = [profiler.made() for profiler in made]
    return Diagnosis(
        format=FORMAT,
        targets=[target for target, _ in traces],
        streams=profiles,
        troubles=[Named(stream=profile.name, text=text) for profile in profiles for text in troubles(profile)],
        differences=list(differences(expected, profiles)) if expected is not None else [],
        agreements=list(compare(made)),
        next=[line for target, _ in traces[:1] for line in following(target, profiles)],
    )
