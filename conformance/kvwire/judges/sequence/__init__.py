"""Sequence: numbers, holes, restarts, and what was lost (spec/sequence.md)."""
