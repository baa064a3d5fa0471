"""Whole runs as vectors."""
