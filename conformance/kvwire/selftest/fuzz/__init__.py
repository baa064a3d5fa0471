"""Input that nobody meant: stored data, mutated, through everything that reads what strangers wrote.

Whatever a stranger hands in ends with a clear error or with a verdict, never with a traceback, and within a bound.
``mutation`` damages data, ``seeds`` is where it comes from, ``targets`` are the ways in.
"""

from kvwire.selftest.fuzz.fuzzing import Finding, fuzz
from kvwire.selftest.fuzz.targets import TARGETS, Target

__all__ = ["TARGETS", "Finding", "Target", "fuzz"]
