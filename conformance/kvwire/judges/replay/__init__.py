"""Replay: what an answer holds, and what clients cost each other (spec/replay.md)."""
