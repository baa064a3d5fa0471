"""Vectors of endpoints."""
