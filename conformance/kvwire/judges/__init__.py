"""The judges: one file per area of the standard."""
