"""Whole runs against publishers of ours, for tests: short, and judged at every level of control."""

from __future__ import annotations

from kvwire.conclusion import result
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Result
from kvwire.selftest import matrix
from kvwire.selftest.matrix import LIMITS, SPEAKS, recorded
from kvwire.standard import registry
from kvwire.standard.registry import ControlLevel
from kvwire.trace import files
from kvwire.trace.records import Trace

__all__ = ["LIMITS", "at_levels", "dumped", "judged", "recorded", "replayed", "spoken"]


def judged(recording: Trace, profile: str | None = None) -> Result:
    """The result of a trace."""
    return conclude(recording, registry.load(), registry.profile(profile or recording.header.profile))


def spoken(outcome: Result) -> frozenset[str]:
    """The ids that are FAIL or WARN."""
    return frozenset(line.requirement for line in outcome.outcomes if line.verdict in SPEAKS)


def at_levels(recording: Trace, profile: str | None = None) -> dict[ControlLevel, Result]:
    """The results that the run would have had at each level of control."""
    return matrix.at_levels(recording, profile or recording.header.profile)


def replayed(recording: Trace) -> Trace:
    """The same trace, written and read again."""
    return files.parse(files.lines(recording))


def dumped(recording: Trace, profile: str | None = None) -> bytes:
    """The result stream of a trace, to the byte."""
    return result.dump(judged(recording, profile))
