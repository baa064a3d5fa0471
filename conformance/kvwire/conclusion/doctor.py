"""A whole diagnosis: profiles, what they mean, how streams agree, and what a consumer's assumptions come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.diagnosis.advice import following, troubles
from kvwire.conclusion.diagnosis.agreement import Agreement, compare
from kvwire.conclusion.diagnosis.expectation import Difference, Expectation, differences
from kvwire.conclusion.diagnosis.reuse import Reused, reuse
from kvwire.conclusion.diagnosis.stream_profile import Profiler, StreamProfile, profilers
from kvwire.conclusion.result import Result, What
from kvwire.conclusion.untried import Why
from kvwire.judges.verdict import Verdict
from kvwire.standard import registry
from kvwire.standard.registry import Profile, profiles
from kvwire.trace.records import Trace

FORMAT = "kvwire-diagnosis-1"
ALL = "multimodal-replay+ranks-replay"
NOTICED: frozenset[What] = frozenset({"one-rank", "several-senders", "connection-lost", "silent", "died"})
"""Notices that are a trouble to a consumer."""


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A line of advice and the stream that it is about."""

    stream: str
    text: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What ``kvwire doctor`` says, as JSON.

    ``broken`` are sentences, without those that follow from others.
    ``reuse`` are the prompts that were run, each with what was announced and what was reused of it.
    """

    format: str
    targets: list[str]
    streams: list[StreamProfile]
    troubles: list[Named]
    broken: list[Named]
    differences: list[Difference]
    agreements: list[Agreement]
    reuse: list[Reused]
    next: list[str]

    @property
    def clean(self) -> bool:
        """Whether nothing was found that keeps a consumer from hits, and something was heard."""
        parted = any(one.parting is not None for one in self.agreements)
        parted = parted or any(one.parting is not None for one in self.reuse)
        found = self.troubles or self.broken or self.differences or parted
        return not found and any(one.batches for one in self.streams)


def diagnose(
    traces: Sequence[tuple[str, Trace]], expected: Expectation | None = None, seeds: Iterable[str] = ()
) -> Diagnosis:
    """The diagnosis of recordings, each with the target that it is of; a function of its arguments."""
    seeds = tuple(seeds)
    made: list[Profiler] = []
    broken: list[Named] = []
    noticed: list[Named] = []
    reused: list[Reused] = []
    known = registry.load()
    for at, (_, trace) in enumerate(traces, 1):
        found = profilers(trace, seeds)
        if len(traces) > 1:
            for profiler in found:
                profiler.rename(f"{at}:{profiler.made().name}")
        made += found
        report = conclude(trace, known, _profile(found))
        lead = f"{at}:" if len(traces) > 1 else ""
        broken += [Named(stream=f"{lead}{one.stream}", text=one.text) for one in _broken(report)]
        reused += [one for info in trace.header.streams for one in reuse(trace, info)]
        noticed += [Named(stream="", text=one.text) for one in report.notices if one.what in NOTICED]
    heard = [profiler.made() for profiler in made]
    return Diagnosis(
        format=FORMAT,
        targets=[target for target, _ in traces],
        streams=heard,
        troubles=noticed + [Named(stream=profile.name, text=text) for profile in heard for text in troubles(profile)],
        broken=broken,
        differences=list(differences(expected, heard)) if expected is not None else [],
        agreements=list(compare(made)),
        reuse=reused,
        next=[line for target, _ in traces[:1] for line in following(target, heard)],
    )


def _profile(heard: Sequence[Profiler]) -> Profile:
    """All that a stream can be held to: its legacy profile by its form, or every other one."""
    forms = {form for profiler in heard for form in profiler.made().forms}
    legacy = next((f"legacy-{form}" for form in forms if forms == {form} and f"legacy-{form}" in profiles()), None)
    return registry.profile(legacy or ALL)


def _broken(report: Result) -> Iterator[Named]:
    """What is broken, whatever level the recording has: each MUST with what was seen first."""
    for outcome in report.outcomes:
        if outcome.verdict is Verdict.FAIL and not outcome.follows and outcome.why is not Why.PROFILE:
            first = outcome.findings[0]
            name, count = outcome.requirement.removeprefix("KVW-"), f"{outcome.violations} of {outcome.witnesses}"
            yield Named(stream=outcome.stream, text=f"{name} is broken, {count}: {first.expected}; seen {first.seen}")
