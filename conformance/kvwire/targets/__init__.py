"""Reaching and driving a publisher: what stands after ``kvwire check``."""

from kvwire.targets.openai import drive
from kvwire.targets.parsing import parse
from kvwire.targets.target import LiveTarget, Opened, Target, TargetError, TraceTarget

__all__ = ["LiveTarget", "Opened", "Target", "TargetError", "TraceTarget", "drive", "parse"]
