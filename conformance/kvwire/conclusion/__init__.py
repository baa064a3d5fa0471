"""From a trace to a result: every judge on every stream, and what becomes of their tallies."""
