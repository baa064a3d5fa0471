"""Vectors for those who follow streams: what arrives, and what a right consumer then asks, holds and is sure of."""
