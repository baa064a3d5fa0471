"""Reaching and driving a publisher: what stands after ``kvwire check``."""
