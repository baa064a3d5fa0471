"""Run the verifiers: on the vectors, where all must agree, and on seeded corruptions, which each must notice.

``python run.py [--require all] [--seed N] [--rounds N] [FOLDER]``. Standard library only. A verifier whose toolchain is
missing is skipped, with the reason; ``--require all`` makes that an error. Exit: 0 all well, 1 not, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from corruption import Corruption, corrupt

HERE = Path(__file__).resolve().parent
LINE = re.compile(r"(?P<path>\S+): (?P<passed>\d+) passed, (?P<failed>\d+) failed(?P<skips>.*)")
SKIP = re.compile(r", (\d+) skipped \(([^)]*)\)")
LIMIT_S = 300.0


class Missing(Exception):
    """A toolchain is not there; says what."""


class Verifier(NamedTuple):
    """A verifier that can be run: ``command`` and a folder."""

    name: str
    command: list[str]
    build_s: float


class Report(NamedTuple):
    """What a verifier said: exit code, lines of failure, per file the tests passed, and what was skipped and why."""

    code: int
    failures: list[str]
    passed: dict[str, int]
    skipped: dict[str, dict[str, int]]
    seconds: float
    text: str


def program(*names: str) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    raise Missing(f"no {' or '.join(names)}")


def build(name: str, room: Path) -> Verifier:
    """The verifier of a language, built into ``room``.

    Raises:
        Missing: when its toolchain is not there.
    """
    begin, made = time.monotonic(), str(room / name)
    if name == "python":
        return Verifier(name, [sys.executable, "-ESB", str(HERE / "python" / "verify.py")], 0.0)
    if name == "javascript":
        return Verifier(name, [program("node", "nodejs"), str(HERE / "javascript" / "verify.mjs")], 0.0)
    if name == "go":
        command = [program("go"), "build", "-o", made, *map(str, sorted((HERE / "go").glob("*.go")))]
    elif name == "rust":
        command = [program("rustc"), "-O", "--edition", "2021", str(HERE / "rust" / "verify.rs"), "-o", made]
    else:
        compiler = program("g++", "c++")
        headers = "#include <nlohmann/json.hpp>\n#include <openssl/sha.h>\n"
        asked = subprocess.run(
            [compiler, "-E", "-x", "c++", "-"], check=False, input=headers, text=True, capture_output=True
        )
        if asked.returncode:
            raise Missing("no nlohmann/json.hpp or openssl/sha.h")
        command = [compiler, "-std=c++17", str(HERE / "cpp" / "verify.cpp"), "-lcrypto", "-o", made]
    places = {"GOCACHE": str(room / "gocache"), "GOPATH": str(room / "gopath"), "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    subprocess.run(command, check=True, timeout=LIMIT_S, env=os.environ | places, cwd=room)
    return Verifier(name, [made], time.monotonic() - begin)


def run(verifier: Verifier, folder: Path) -> Report:
    begin = time.monotonic()
    command = [*verifier.command, str(folder)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    lines = [match for line in ended.stdout.splitlines() if (match := LINE.fullmatch(line))]
    return Report(
        code=ended.returncode,
        failures=[line for line in ended.stdout.splitlines() if line.startswith("FAIL ")],
        passed={match["path"]: int(match["passed"]) for match in lines},
        skipped={m["path"]: {why: int(count) for count, why in SKIP.findall(m["skips"])} for m in lines},
        seconds=time.monotonic() - begin,
        text=ended.stdout + ended.stderr,
    )


def verifiers(room: Path, required: bool) -> list[Verifier]:
    """All that can be built; says why the others cannot."""
    found = []
    for name in ("python", "javascript", "go", "rust", "cpp"):
        try:
            found.append(build(name, room))
        except Missing as why:
            print(f"{name}: {'MISSING' if required else 'skipped'}: {why}")
            if required:
                raise SystemExit(1) from why
    return found


def on_the_vectors(found: list[Verifier], folder: Path) -> dict[str, Report] | None:
    """What each verifier says of the vectors; None when one fails, or does not account for every test."""
    listed = json.loads((folder / "MANIFEST.json").read_bytes())["files"]
    reports, well = {}, True
    for verifier in found:
        report = reports[verifier.name] = run(verifier, folder)
        skips = sum(sum(whys.values()) for whys in report.skipped.values())
        print(
            f"{verifier.name}: built in {verifier.build_s:.1f} s, ran in {report.seconds:.1f} s: "
            f"{sum(report.passed.values())} passed, {len(report.failures)} failed, {skips} skipped"
        )
        told = {path: count + sum(report.skipped[path].values()) for path, count in report.passed.items()}
        if report.code or report.failures or told != {one["path"]: one["count"] for one in listed}:
            print(report.text)
            well = False
    return reports if well else None


def covers(report: Report, corruption: Corruption) -> bool:
    whys = report.skipped[corruption.path]
    return report.passed[corruption.path] > 0 and not any(corruption.algorithm in why for why in whys)


def on_corruptions(found: list[Verifier], reports: dict[str, Report], folder: Path, seed: int, rounds: int) -> bool:
    """Whether every verifier notices every corruption in what it covers, and a digest that is not the file's."""
    source, well = random.Random(seed), True
    paths = sorted({path for report in reports.values() for path, count in report.passed.items() if count})
    noticed = Counter[str]()
    for number, path in enumerate([*paths * rounds, source.choice(paths)]):
        seal = number < len(paths) * rounds
        with tempfile.TemporaryDirectory(prefix="vectors-") as name:
            corruption = corrupt(folder, path, Path(name), source, seal=seal)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                answers = list(pool.map(run, found, [Path(name)] * len(found)))
        for verifier, answer in zip(found, answers, strict=True):
            if seal and not covers(reports[verifier.name], corruption):
                continue
            begin = f"FAIL {path} {corruption.test if seal else 'sha256'}: "
            if answer.code == 1 and any(line.startswith(begin) for line in answer.failures):
                noticed[verifier.name] += 1
            else:
                print(f"{verifier.name} did not notice: {path} {corruption.test} {corruption.words}\n{answer.text}")
                well = False
    told = ", ".join(f"{name} {count}" for name, count in noticed.items())
    print(f"{len(paths) * rounds + 1} corruptions (seed {seed}) of {len(paths)} files; noticed by {told}")
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the verifiers on the vectors and on seeded corruptions.")
    parser.add_argument("folder", nargs="?", type=Path, default=HERE.parent)
    parser.add_argument("--require", choices=["all"], help="a missing toolchain is an error")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="corruptions per file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="verifiers-") as room:
        found = verifiers(Path(room), options.require == "all")
        reports = on_the_vectors(found, options.folder)
        if reports is None:
            return 1
        return 0 if on_corruptions(found, reports, options.folder, options.seed, options.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
