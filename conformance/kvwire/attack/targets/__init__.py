"""Reaching and driving a publisher: what stands after ``kvwire check``."""

from kvwire.attack.targets.openai import drive
from kvwire.attack.targets.parsing import parse
from kvwire.attack.targets.target import LiveTarget, Opened, Target, TargetError, TraceTarget

__all__ = ["LiveTarget", "Opened", "Target", "TargetError", "TraceTarget", "drive", "parse"]
