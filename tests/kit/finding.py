"""How Hypothesis runs here: the same examples in every run, however busy the machine. It finds, it never gates."""

from hypothesis import HealthCheck, settings

steady = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
