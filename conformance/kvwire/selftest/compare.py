"""Do two states of the harness judge the same traces alike? The guard of every change that should change no verdict.

Both sides are asked through their command line (``judge FILE --json``) and nothing else, so that any two commits can be
compared however their insides are arranged. Compared are the lines of the result stream, field by field: verdicts,
witnesses, findings, notes, holes, troubles, summary. A field that one side alone knows is named, and is no difference.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

ASK = """
import json, sys
from pathlib import Path
from kvwire.cli import run
folder, names = Path(sys.argv[1]), json.load(sys.stdin)
for name, path in names:
    code = run(["judge", path, "--json", str(folder / name), "--quiet"])
    print(json.dumps([name, code]), flush=True)
"""
"""What each side runs: its own ``kvwire``, found by PYTHONPATH, on every trace."""
SOURCES = ("conformance", "reference")
"""The folders of a checkout that hold its packages."""
GIT = shutil.which("git") or "git"
SUFFIXES = (".kvtrace", ".kvtrace.gz", ".json")
OF_THE_SIDE = frozenset({"run.standard_sha256", "run.judges_sha256"})
"""Fields that say which side it is."""
EXAMPLES = 5
"""How many differences of one trace are shown."""


class CompareError(ValueError):
    """The sides cannot be compared; the message says why and what to do."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One place of one trace's result where the sides differ: the line's key, the field, and both values as JSON."""

    trace: str
    line: str
    field: str
    before: str
    after: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All of it: how many traces, the differences, and the fields that only one side has, with their counts.

    ``digests`` are SHA-256 sums of all that was compared, before and after: equal when nothing differs.
    """

    traces: int
    outcomes: int
    differences: tuple[Difference, ...]
    only_before: Mapping[str, int]
    only_after: Mapping[str, int]
    digests: tuple[str, str]


def corpus(folders: Sequence[Path], into: Path) -> list[tuple[str, str]]:
    """Every trace below the folders as a name and a path: trace files; compressed ones, and those that older
    session vectors hold, written out.

    Raises:
        CompareError: when there is none, or two have one name.
    """
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted(path for suffix in SUFFIXES for path in folder.rglob(f"*{suffix}")):
            suffix = next(suffix for suffix in SUFFIXES if path.name.endswith(suffix))
            name = "__".join((folder.name, *path.relative_to(folder).parts)).removesuffix(suffix)
            if suffix != ".kvtrace":
                lines = gzip.decompress(path.read_bytes()) if suffix.endswith(".gz") else _session(path)
                if lines is None:
                    continue
                path = into / f"{name}.kvtrace"
                path.write_bytes(lines)
            if name in found:
                raise CompareError(f"two traces are called {name}: name their folders differently")
            found[name] = str(path.absolute())
    if not found:
        raise CompareError(f"no trace below {', '.join(map(str, folders))}: name a folder that holds *.kvtrace files")
    return sorted(found.items())


def _session(path: Path) -> bytes | None:
    """The lines of the trace in a session vector of shape 1; None when the file is none."""
    raw = json.loads(path.read_bytes())
    try:
        trace = raw["groups"][0]["tests"][0]["input"]["trace"]
        lines = [trace["header"], *trace["records"], trace["end"]]
    except (KeyError, IndexError, TypeError):
        return None
    return "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines).encode()


@contextlib.contextmanager
def checkout(home: Path, revision: str) -> Iterator[Path]:
    """A checkout of a revision for as long as the block lasts; of ``.``, the working tree itself.

    Raises:
        CompareError: when git does not know the revision.
    """
    if revision == ".":
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="kvwire-", ignore_cleanup_errors=True) as room:
        tree = Path(room, "tree")
        made = subprocess.run(
            [GIT, "-C", str(home), "worktree", "add", "--quiet", "--detach", str(tree), revision],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise CompareError(f"no checkout of {revision!r}: {made.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run([GIT, "-C", str(home), "worktree", "remove", "--force", str(tree)], check=False)


def told(tree: Path, traces: Sequence[tuple[str, str]], into: Path) -> None:
    """Have a checkout judge every trace; its results stand in the folder, by name.

    Raises:
        CompareError: when it did not get through all of them.
    """
    into.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(tree / source) for source in SOURCES)}
    asked = subprocess.run(
        [sys.executable, "-c", ASK, str(into)],
        input=json.dumps(traces),
        capture_output=True,
        text=True,
        env=environment,
        cwd=into,
        check=False,
    )
    done = [json.loads(line) for line in asked.stdout.splitlines()]
    if asked.returncode or len(done) < len(traces):
        raise CompareError(f"{tree} judged {len(done)} of {len(traces)} traces: {asked.stderr.strip()[-2000:]}")
    for name, code in done:
        path = into / name
        path.write_bytes((path.read_bytes() if path.exists() else b"") + b'{"kind":"exit","code":%d}\n' % code)


def _key(line: Mapping[str, Any], seen: Counter[str]) -> str:
    """What tells a line from the others of its result."""
    words = [str(line[name]) for name in ("kind", "stream", "requirement", "name") if name in line]
    key = " ".join(words)
    seen[key] += 1
    return key if seen[key] == 1 else f"{key} {seen[key]}"


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a JSON value with their paths, and the lengths of its arrays."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield f"{path}[]", len(value)
        for at, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{at}]")
    else:
        yield path, value


def lines_of(raw: bytes) -> dict[str, dict[str, Any]]:
    """The lines of one result by their keys, each flat."""
    seen: Counter[str] = Counter()
    return {_key(line, seen): dict(_flat(line)) for line in map(json.loads, raw.splitlines())}


def _schema(path: str) -> str:
    """A path without indices: the field of the format."""
    return "".join(part.partition("]")[2] if at else part for at, part in enumerate(path.split("[")))


def _fields(sides: Sequence[Mapping[str, Mapping[str, Mapping[str, Any]]]]) -> list[set[str]]:
    """The fields that each side ever uses, as ``kind.field``."""
    return [
        {
            f"{key.partition(' ')[0]}.{_schema(path)}"
            for result in side.values()
            for key, leaves in result.items()
            for path in leaves
        }
        - OF_THE_SIDE
        for side in sides
    ]


def compared(before: Path, after: Path, names: Sequence[str]) -> Comparison:
    """Compare two folders of results, file by file."""
    sides = [{name: lines_of((folder / name).read_bytes()) for name in names} for folder in (before, after)]
    known = _fields(sides)
    both = known[0] & known[1]
    only = (Counter[str](), Counter[str]())
    sums = (hashlib.sha256(), hashlib.sha256())
    found: list[Difference] = []
    outcomes = 0
    for name in names:
        first, second = sides[0][name], sides[1][name]
        outcomes += sum(key.startswith("outcome") for key in first)
        for key in dict.fromkeys([*first, *second]):
            kind = key.partition(" ")[0]
            told = (first.get(key, {}), second.get(key, {}))
            kept = []
            for side, leaves in enumerate(told):
                mine = {path: value for path, value in leaves.items() if f"{kind}.{_schema(path)}" in both}
                theirs = (f"{kind}.{_schema(path)}" for path in leaves if path not in mine)
                only[side].update(field for field in theirs if field not in OF_THE_SIDE)
                sums[side].update(json.dumps([name, key, sorted(mine.items())]).encode())
                kept.append(mine)
            for path in dict.fromkeys([*kept[0], *kept[1]]):
                values = [json.dumps(leaves.get(path), ensure_ascii=False) for leaves in kept]
                if values[0] != values[1]:
                    found.append(Difference(trace=name, line=key, field=path, before=values[0], after=values[1]))
    return Comparison(
        traces=len(names),
        outcomes=outcomes,
        differences=tuple(found),
        only_before=dict(sorted(only[0].items())),
        only_after=dict(sorted(only[1].items())),
        digests=(sums[0].hexdigest(), sums[1].hexdigest()),
    )


def compare(home: Path, before: str, after: str, folders: Sequence[Path]) -> Comparison:
    """Judge every trace below the folders by two revisions of a checkout (``.``: its working tree), and compare.

    Raises:
        CompareError: when that cannot be done.
    """
    with tempfile.TemporaryDirectory(prefix="kvwire-", ignore_cleanup_errors=True) as room:
        written = Path(room, "traces")
        written.mkdir()
        traces = corpus(folders, written)
        results = Path(room, "before"), Path(room, "after")
        with (
            checkout(home, before) as old,
            checkout(home, after) as new,
            ThreadPoolExecutor(2) as pool,
        ):
            for judged in [
                pool.submit(told, tree, traces, into) for tree, into in zip((old, new), results, strict=True)
            ]:
                judged.result()
        return compared(*results, [name for name, _ in traces])
