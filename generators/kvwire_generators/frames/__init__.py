"""Vectors of messages and replay exchanges."""
