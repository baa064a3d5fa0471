"""All probes, in the order in which a run takes those that apply."""

from __future__ import annotations

from kvwire.attack.probes import (
    drop_faults,
    endpoints,
    entry_limit,
    heartbeat,
    late_join,
    live,
    queue_pressure,
    ranks,
    replay,
    replay_overflow,
    replay_pressure,
    reset,
    residency,
    restart,
    stop,
    workload,
)
from kvwire.attack.probes.kit.session import Mode, Probe, Session

PROBES: tuple[Probe, ...] = (
    live.PROBE,
    endpoints.PLACES,
    workload.PROMPTS,
    workload.BATCHES,
    replay.PROBE,
    reset.PROBE,
    late_join.PROBE,
    heartbeat.PROBE,
    heartbeat.LONG,
    replay_pressure.PROBE,
    replay_pressure.VOLUME,
    restart.PROBE,
    residency.PROBE,
    entry_limit.PROBE,
    drop_faults.PROBE,
    replay_overflow.PROBE,
    queue_pressure.PROBE,
    queue_pressure.LONG,
    endpoints.PROBE,
    ranks.PROBE,
    stop.SATURATED,
    stop.SANITY,
    stop.STOP,
)


def plan(session: Session, mode: Mode = "plain") -> tuple[Probe, ...]:
    """The probes of a mode for which the run can do what they need, in order."""
    return tuple(probe for probe in PROBES if probe.applies(session, mode))
