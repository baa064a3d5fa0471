"""Vectors of payloads."""
