"""Residency: what is stored, removed and cleared, and what the engine says to that (spec/residency.md)."""
