"""All probes, in the order in which a run takes those that apply."""

from __future__ import annotations

from kvwire.probes import (
    cap,
    endpoints,
    gaps,
    heartbeat,
    joiner,
    live,
    pressure,
    ranks,
    replay,
    replay_pressure,
    reset,
    residency,
    restart,
    stop,
    torrent,
    workload,
)
from kvwire.probes.session import Mode, Probe, Session

PROBES: tuple[Probe, ...] = (
    live.PROBE,
    endpoints.PLACES,
    workload.PROMPTS,
    workload.BATCHES,
    replay.PROBE,
    reset.PROBE,
    joiner.PROBE,
    heartbeat.PROBE,
    heartbeat.LONG,
    replay_pressure.PROBE,
    replay_pressure.VOLUME,
    restart.PROBE,
    residency.PROBE,
    cap.PROBE,
    gaps.PROBE,
    torrent.PROBE,
    pressure.PROBE,
    pressure.LONG,
    endpoints.PROBE,
    ranks.PROBE,
    stop.SATURATED,
    stop.SANITY,
    stop.STOP,
)


def plan(session: Session, mode: Mode = "plain") -> tuple[Probe, ...]:
    """The probes of a mode for which the run can do what they need, in order."""
    return tuple(probe for probe in PROBES if probe.applies(session, mode))
