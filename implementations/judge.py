"""Judge one implementation and compare with what is committed: ``python judge.py NAME``.

Run it in an environment that has kvwire and what the adapter of that folder needs (``tox -e NAME`` makes one). It
prints requirement × implementation, and fails when a verdict is not the committed one, in either direction, when one
sentence fails in another way, or when an explanation is missing or stale. ``--update`` writes what was seen;
explanations, and verdicts that vary, are written by hand.

Exit codes: 0 as committed, 1 not as committed (or not explained), 4 the run was no run.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import table
from table import HOME, NAMES, SIGNS, Entry, Summary

from kvwire.judges.verdict import Exit, Verdict

RUN_S = 300
"""When a run that does not end is given up."""
SHARED = {"vllm-0.32.0": "vllm", "vllm-0.23.0": "vllm"}
"""Whose adapter drives another version of the same publisher."""
HELD = {"vllm-0.23.0": ("--profile", "replay")}
"""What a publisher is held to beyond its own claim: the legacy profiles leave out replay, endpoints and liveness."""


def command(name: str, python: str, peer: str) -> tuple[list[str], str]:
    """What runs the harness, and the target."""
    folder = HOME / SHARED.get(name, name)
    adapter = folder / "adapter.py"
    harness = [sys.executable, "-m", "kvwire", "check"]
    if (isolated := folder / "isolated.py").exists():
        harness = [sys.executable, str(isolated), *harness]
    if (engine := folder / "engine.py").exists():
        return [sys.executable, str(engine), "--python", python, *harness], "{}"
    if not adapter.exists():
        return harness, f"{name}:"
    words = [python, str(adapter)]
    if (folder / "prepare.py").exists():
        words.append(peer)
    return harness, f"exec:{shlex.join(words)}"


def run(name: str, python: str, peer: str, record: Path | None) -> list[dict[str, Any]]:
    """Run the harness; the lines of its result.

    Raises:
        SystemExit: with 4, when the run could not be carried out.
    """
    harness, target = command(name, python, peer)
    with tempfile.TemporaryDirectory(prefix="kvwire-") as room:
        result = Path(room, "result.ndjson")
        recorded = [] if record is None else ["--record", str(record)]
        ended = subprocess.run(
            [*harness, target, *HELD.get(name, ()), "--quiet", "--json", str(result), *recorded],
            timeout=RUN_S,
            check=False,
        )
        lines = [json.loads(line) for line in result.read_bytes().splitlines()] if result.exists() else []
    troubles = [line["text"] for line in lines if line["kind"] == "trouble"]
    if not lines or troubles or ended.returncode not in (Exit.CONFORMANT, Exit.NOT_CONFORMANT, Exit.INCONCLUSIVE):
        print(f"{name}: the run ended with {ended.returncode}", *troubles, sep="\n", file=sys.stderr)
        raise SystemExit(int(Exit.ERROR))
    return lines


def numberless(text: str) -> str:
    """A text without numbers, paths, salts, and which instance it was: they differ from run to run."""
    text = re.sub(r"(?<![\w-])-?\d+(?![\w-])", "#", text)
    text = re.sub(r"tenant-[0-9a-f]{16}", "tenant-#", text)
    text = re.sub(r" \(instance-\d+[^)]*\)", "", text)
    return re.sub(r"ipc://[^\s'\"`]+", "ipc://…", text)


def entry(outcome: Mapping[str, Any]) -> Entry:
    """What is kept of an outcome."""
    verdict = Verdict(outcome["verdict"])
    assert verdict is not Verdict.PASS or outcome["witnesses"] > 0, outcome
    if outcome.get("findings"):
        first = outcome["findings"][0]
        return Entry(verdict, (numberless(first["expected"]), numberless(first["seen"])))
    reason = outcome.get("reason", "")
    return Entry(verdict, (numberless(reason),) if reason else ())


def summarised(lines: list[dict[str, Any]]) -> Summary:
    """The stable part of a result."""
    (header,) = [line for line in lines if line["kind"] == "run"]
    return Summary(
        implementation=header["implementation"],
        profile=header["profile"],
        form=", ".join(dict.fromkeys(line["form"] for line in lines if line["kind"] == "stream")),
        level=header["level"],
        sets=header["sets"],
        verdicts={line["requirement"]: entry(line) for line in lines if line["kind"] == "outcome"},
    )


def differences(committed: Summary | None, seen: Summary) -> list[str]:
    """Every way in which a run is not what is committed, by name."""
    if committed is None:
        return ["nothing is committed yet"]
    found = [
        f"{field}: {getattr(seen, field)!r}, committed {getattr(committed, field)!r}"
        for field in ("implementation", "profile", "form", "level", "sets")
        if getattr(seen, field) != getattr(committed, field)
    ]
    for key in dict.fromkeys([*committed.verdicts, *seen.verdicts]):
        before, now = committed.verdicts.get(key), seen.verdicts.get(key)
        if before is None or now is None:
            found.append(
                f"{key}: " + ("was not judged, though committed" if now is None else f"{now[0]}, not committed")
            )
        elif before != now:
            how = "passes unexpectedly" if now.verdict is Verdict.PASS else "is another"
            how = "fails in another way" if now.verdict == before.verdict else how
            found.append(f"{key} {how}: {_text(now)}; committed {_text(before)}")
    return found


def _text(kept: Entry) -> str:
    return " / ".join((kept.verdict, *kept.said))


def show(name: str, lines: list[dict[str, Any]]) -> None:
    """Requirement × implementation: this run with its counts, the others as committed; then what was explained."""
    others = {other: summary for other in NAMES if other != name and (summary := table.read(other)) is not None}
    print("sentence".ljust(12), name.ljust(24), *(other.ljust(14) for other in others))
    for line in lines:
        if line["kind"] != "outcome":
            continue
        key, verdict = line["requirement"], line["verdict"]
        count = f" ×{line['witnesses']}" if verdict == Verdict.PASS else ""
        count = f" {line['violations']} of {line['witnesses']}" if line.get("violations") else count
        signs = (SIGNS[s.verdicts[key].verdict] if key in s.verdicts else "" for s in others.values())
        notes = "; ".join(line.get("notes", ()))
        print(key.ljust(12), f"{verdict}{count}".ljust(24), *(sign.ljust(14) for sign in signs), notes)
    print()
    for key, (verdict, why) in table.explanations(name).items():
        print(f"{verdict} {key}: {why}")


def main() -> int:
    """Run, show, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--update", action="store_true", help="write what was seen to verdicts.json")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs the adapter (this one)")
    parser.add_argument(
        "--peer", default=str(Path(sys.prefix, "peer")), help="where prepare.py put the publisher's files"
    )
    parser.add_argument("--record", type=Path, help="keep the trace of the run in this file")
    given = parser.parse_args()
    lines = run(given.name, given.python, given.peer, given.record)
    committed = table.read(given.name)
    seen = table.steadied(given.name, committed, summarised(lines))
    show(given.name, lines)
    (summary,) = [line for line in lines if line["kind"] == "summary"]
    print(f"\n{seen.implementation}: {summary['headline']}; {summary['judged']} of {summary['total']} judged")
    if given.update:
        table.write(given.name, seen)
        committed = seen
    problems = differences(committed, seen) + table.unexplained(given.name, seen)
    for problem in problems:
        print(f"not as committed: {problem}", file=sys.stderr)
    return Exit.NOT_CONFORMANT if problems else Exit.CONFORMANT


if __name__ == "__main__":
    sys.exit(main())
