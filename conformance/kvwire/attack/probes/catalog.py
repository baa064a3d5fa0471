"""All probes, in the order in which a run takes those that apply."""

from __future__ import annotations

from kvwire.attack.probes import (
    drop_faults,
    endpoint_in_use,
    endpoints,
    entry_limit,
    heartbeat,
    late_join,
    live,
    queue_pressure,
    rank_outages,
    ranks,
    replay,
    replay_overflow,
    replay_pressure,
    requests,
    reset,
    residency,
    restart,
    retention,
    reuse,
    stop,
    tiers,
    workload,
)
from kvwire.attack.probes.kit.session import Mode, Probe, Session

PROBES: tuple[Probe, ...] = (
    live.PROBE,
    endpoints.PLACES,
    requests.PROBE,
    workload.PROMPTS,
    workload.BATCHES,
    replay.PROBE,
    retention.PROBE,
    reset.PROBE,
    late_join.PROBE,
    heartbeat.PROBE,
    heartbeat.LONG,
    replay_pressure.PROBE,
    replay_pressure.VOLUME,
    restart.PROBE,
    residency.PROBE,
    tiers.PROBE,
    entry_limit.PROBE,
    drop_faults.PROBE,
    replay_overflow.PROBE,
    queue_pressure.PROBE,
    queue_pressure.LONG,
    endpoints.PROBE,
    endpoint_in_use.PROBE,
    rank_outages.PROBE,
    ranks.PROBE,
    stop.SATURATED,
    stop.SANITY,
    stop.STOP,
)

ASIDE: tuple[Probe, ...] = (reuse.PROBE,)
"""Those that no check runs, and that are asked for by name."""


def plan(session: Session, mode: Mode = "plain", only: frozenset[str] | None = None) -> tuple[Probe, ...]:
    """The probes of a mode for which the run can do what they need, in order.

    With ``only`` those that serve one of these ids, and ``live``, on which every other one builds.
    """
    able = [probe for probe in PROBES if probe.applies(session, mode)]
    return tuple(probe for probe in able if only is None or probe is live.PROBE or probe.aims_at(only))
