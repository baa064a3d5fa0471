"""Whole runs against publishers of ours, for tests: short, and judged at every level of control."""

from __future__ import annotations

import msgspec

from kvwire import registry, result, trace
from kvwire.conclusion import conclude
from kvwire.peers.mutants import LEVELS
from kvwire.probes.session import Limits
from kvwire.result import Result
from kvwire.run import Settings, run
from kvwire.targets import TraceTarget, parse
from kvwire.trace import ControlLevel, Trace

LIMITS = msgspec.structs.replace(Limits(), replay_s=2.0)
"""A silent answer is awaited for less than users are given; an honest one takes milliseconds."""
SPEAKS = ("FAIL", "WARN")


def recorded(target: str, limits: Limits = LIMITS) -> Trace:
    """Run a target and return its trace."""
    place = parse(target)
    assert not isinstance(place, TraceTarget)
    return run(place, Settings(limits=limits))


def judged(recording: Trace, profile: str | None = None) -> Result:
    """The result of a trace."""
    return conclude(recording, registry.load(), registry.profile(profile or recording.header.profile))


def spoken(outcome: Result) -> frozenset[str]:
    """The ids that are FAIL or WARN."""
    return frozenset(line.requirement for line in outcome.outcomes if line.verdict in SPEAKS)


def at_levels(recording: Trace, profile: str | None = None) -> dict[ControlLevel, Result]:
    """The results that the run would have had at each level of control."""
    return {level: judged(trace.lowered(recording, level), profile) for level in LEVELS}


def replayed(recording: Trace) -> Trace:
    """The same trace, written and read again."""
    return trace.parse(trace.lines(recording))


def dumped(recording: Trace, profile: str | None = None) -> bytes:
    """The result stream of a trace, to the byte."""
    return result.dump(judged(recording, profile))
