"""Small traces of the judged implementations, so that a judge is tried on real publishers without installing one.

``NAME/traces/NAME.kvtrace.gz`` is a run with small limits and without the attacks that fill queues, pipes and rings;
spoken.json says which sentences are FAIL or WARN in each. ``python judge.py NAME --trace`` writes both, and
`tox -e generate` the latter.

It is run as ``python traces.py NAME TARGET``, with `generators` on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from table import HOME, NAMES

from kvwire.attack import targets
from kvwire.attack.probes import drop_faults, entry_limit, replay_overflow, replay_pressure, stop
from kvwire.attack.probes.catalog import PROBES
from kvwire.attack.probes.kit.session import Limits
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TraceTarget, parse
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Verdict
from kvwire.standard import registry
from kvwire.trace import files
from kvwire.trace.records import Trace
from kvwire_generators.sessions.records import impersonal

SPOKEN = HOME / "spoken.json"
LARGE = (replay_pressure.PROBE, entry_limit.PROBE, drop_faults.PROBE, replay_overflow.PROBE, stop.SATURATED)
"""The probes that a small trace leaves out: each is megabytes."""
LIMITS = Limits(prompts=3, batches=12)
"""Little is sent, and waited for as long as in any run: what does not answer in time is accused."""
PROBES_KEPT = tuple(probe.name for probe in PROBES if probe not in LARGE and probe.mode != "thorough")


def path(name: str) -> Path:
    """Where the trace of an implementation is stored."""
    return HOME / name / "traces" / f"{name}.kvtrace.gz"


def recorded(target: str, drive: str | None, profile: str | None) -> Trace:
    """A small run against a target, without what tells of the machine.

    Raises:
        SystemExit: with 4, when the run was in trouble.
    """
    place = parse(target)
    if drive is not None:
        place = targets.drive(place, drive)
    assert not isinstance(place, TraceTarget)
    settings = Settings(profile=profile, probes=PROBES_KEPT, limits=LIMITS)
    trace = impersonal(run(place, settings))
    checkout = f"{HOME.parent}/".encode()
    trace = files.parse([line.replace(checkout, b"") for line in files.lines(trace)])
    if troubles := judged(trace).troubles:
        print(*(trouble.text for trouble in troubles), sep="\n", file=sys.stderr)
        raise SystemExit(4)
    return trace


def judged(trace: Trace) -> Result:
    """The result of a trace, held to the profile that its run was."""
    return conclude(trace, registry.load(), registry.profile(trace.header.profile))


def spoken(result: Result) -> list[str]:
    """The ids of the sentences that are FAIL or WARN."""
    return [one.requirement for one in result.outcomes if one.verdict in (Verdict.FAIL, Verdict.WARN)]


def render() -> bytes:
    """The bytes of spoken.json: which sentences speak in each stored trace, by the judges of today."""
    said = {name: spoken(judged(files.read(path(name)))) for name in sorted(NAMES) if path(name).is_file()}
    return (
        "{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(ids)}" for name, ids in said.items()) + "\n}\n"
    ).encode()


def main() -> None:
    """Record, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("target")
    parser.add_argument("--drive", help="drive the engine behind the target, as `kvwire check --drive` does")
    parser.add_argument("--profile", help="hold it to this profile")
    given = parser.parse_args()
    trace = recorded(given.target, given.drive, given.profile)
    path(given.name).parent.mkdir(exist_ok=True)
    files.write(trace, path(given.name))
    SPOKEN.write_bytes(render())


if __name__ == "__main__":
    main()
