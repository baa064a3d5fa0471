"""Vectors of hash functions."""
