"""How Hypothesis runs here: the same examples every time, whatever the load of the machine. It finds, it never gates."""

from hypothesis import HealthCheck, settings

steady = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
