"""Judge one implementation and hold it against what is expected of it: ``python judge.py NAME``.

Run it in an environment that has kvwire and what the adapter of that folder needs (``tox -e NAME`` makes one). It is
``kvwire check`` with the ``--expected-failures`` of the folder, and fails too when a verdict is not the committed one,
in either direction. ``--update`` writes the verdicts, and entries that wait for their reasons; ``--trace`` records the
small trace that the tests judge, and what it shows.

Exit codes: 0 as committed, 1 not as committed, 4 the run was no run.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import table
from table import HOME, NAMES, Summary

from kvwire import cli
from kvwire.conclusion import result
from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Exit, Verdict

RUN_S = 300
"""When a run that does not end is given up."""
SHARED = {"vllm-0.32.0": "vllm", "vllm-0.23.0": "vllm"}
"""Whose adapter drives another version of the same publisher."""
HELD = {"vllm-0.23.0": ("--profile", "replay")}
"""What a publisher is held to beyond its own claim: the legacy profiles leave out replay, endpoints and liveness."""


def started(name: str, python: str, peer: str, harness: list[str], options: list[str]) -> int:
    """Run a harness on an implementation, with what has to be around it; how that ended."""
    folder = HOME / SHARED.get(name, name)
    adapter = folder / "adapter.py"
    if (isolated := folder / "isolated.py").exists():
        harness = [sys.executable, str(isolated), *harness]
    if (engine := folder / "engine.py").exists():
        words = [sys.executable, str(engine), "--python", python, *harness, "{}"]
    elif adapter.exists():
        driven = [python, str(adapter)] + ([peer] if (folder / "prepare.py").exists() else [])
        words = [*harness, f"exec:{shlex.join(driven)}"]
    else:
        words = [*harness, f"{name}:"]
    path = os.pathsep.join(filter(None, (str(HOME.parent / "generators"), os.environ.get("PYTHONPATH"))))
    words += [*HELD.get(name, ()), *options]
    return subprocess.run(words, timeout=RUN_S, check=False, env={**os.environ, "PYTHONPATH": path}).returncode


def summarised(name: str, seen: Result, committed: Summary | None) -> Summary:
    """What stands in the table; a verdict that varies stays the committed one, where this one is expected too."""
    before = {} if committed is None else committed.verdicts
    varies = {entry.id for entry in table.entries(name) if entry.unsteady}
    return Summary(
        implementation=seen.run.implementation,
        profile=seen.run.profile,
        form=", ".join(dict.fromkeys(stream.form for stream in seen.streams)),
        level=seen.run.level,
        sets=tuple(seen.run.sets),
        verdicts={
            one.requirement: before.get(one.requirement, one.verdict)
            if one.requirement in varies and (one.expected or one.verdict is Verdict.PASS)
            else one.verdict
            for one in seen.outcomes
        },
    )


def differences(committed: Summary | None, seen: Summary) -> list[str]:
    """Every way in which a run is not what is committed, by name."""
    if committed is None:
        return ["nothing is committed yet"]
    before, now = (
        {**msgspec.to_builtins(summary), **summary.verdicts, "verdicts": None} for summary in (committed, seen)
    )
    return [
        f"{key}: {now.get(key, 'nothing')}, committed {before.get(key, 'nothing')}"
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key)
    ]


def main() -> int:
    """Run, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--update", action="store_true", help="write what was seen to verdicts.json and baseline.toml")
    parser.add_argument("--trace", action="store_true", help="record a small trace instead, and what it shows")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs the adapter (this one)")
    parser.add_argument(
        "--peer", default=str(Path(sys.prefix, "peer")), help="where prepare.py put the publisher's files"
    )
    parser.add_argument("--record", type=Path, help="keep the trace of the run in this file")
    given = parser.parse_args()
    name = given.name
    if given.trace:
        harness = [sys.executable, str(HOME / "traces.py"), name]
        return started(name, given.python, given.peer, harness, [])
    with tempfile.TemporaryDirectory(prefix="kvwire-") as room:
        told = Path(room, "result.ndjson")
        options = ["--strict", "--expected-failures", str(table.baseline(name)), "--json", str(told)]
        options += [] if given.record is None else ["--record", str(given.record)]
        ended = started(name, given.python, given.peer, [sys.executable, "-m", "kvwire", "check"], options)
        seen = result.parse(told.read_bytes()) if told.exists() else None
        if seen is None or seen.troubles or ended not in (Exit.CONFORMANT, Exit.NOT_CONFORMANT, Exit.INCONCLUSIVE):
            print(f"{name}: the run ended with {ended}", file=sys.stderr)
            return Exit.ERROR
        committed = table.read(name)
        summary = summarised(name, seen, committed)
        if given.update:
            table.write(name, summary)
            cli.run(["baseline", "update", str(table.baseline(name)), str(told)])
            committed = summary
    problems = differences(committed, summary) + table.unexplained(name, summary)
    for problem in problems:
        print(f"not as committed: {problem}", file=sys.stderr)
    return Exit.NOT_CONFORMANT if ended or problems else Exit.CONFORMANT


if __name__ == "__main__":
    sys.exit(main())
