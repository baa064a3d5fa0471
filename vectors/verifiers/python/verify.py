"""Verify a folder of vectors: ``python verify.py FOLDER``. Standard library only, from the standard's text alone."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import consumer
import hashing
import rules

from wire import canonical

ANSWERS = {
    "hash": hashing.answer,
    "wire": rules.answer_wire,
    "envelope": rules.answer_envelope,
    "replay": rules.answer_replay,
    "endpoint": rules.answer_endpoint,
    "consumer": consumer.answer,
}


def verify_test(kind: str, group: dict[str, Any], test: dict[str, Any]) -> str:
    """What is wrong with a test, or nothing."""
    expected, result = test["expected"], test.get("result", "valid")
    answer, breaks = ANSWERS[kind](group, test["input"])
    left_out = {"fault", "layer", "also", "form" if kind == "wire" else ""}
    wanted = {name: value for name, value in expected.items() if name not in left_out}
    got = {name: answer[name] for name in wanted if name in answer}
    if canonical(got) != canonical(wanted):
        return f"expected {canonical(wanted)}, got {canonical(got)}"
    allowed = set() if result == "valid" else {expected.get("fault"), *test["requirements"]}
    if not set(breaks) <= allowed or (result == "invalid" and not breaks):
        return f"expected {expected.get('fault', 'no fault')}, got {', '.join(sorted(set(breaks))) or 'none'}"
    return ""


def verify_file(listed: dict[str, Any], data: bytes) -> Counter[str]:
    """How many tests of a file passed, failed and were skipped, and why; prints what failed."""
    count = Counter({"passed": 0, "failed": 0})

    def fail(name: str, wrong: str) -> None:
        print(f"FAIL {listed['path']} {name}: {wrong}")
        count["failed"] += 1

    if (digest := hashlib.sha256(data).hexdigest()) != listed["sha256"]:
        fail("sha256", f"expected {listed['sha256']}, got {digest}")
    kind = listed["schema"].split("/")[2]
    if kind not in ANSWERS:
        count["skipped (sha256 only)"] = listed["count"]
        return count
    file = json.loads(data)
    known = [{"algorithm": one["algorithm"], "tests": [{**one, "input": one}]} for one in file.get("answers", [])]
    tests = [(group, test) for group in file.get("groups", known) for test in group["tests"]]
    if [test["id"] for _, test in tests] != listed["ids"] or not len(tests) == listed["count"] == file["count"]:
        fail("ids", "expected the tests that the manifest lists, got others")
    for group, test in tests:
        try:
            wrong = verify_test(kind, group, test)
        except hashing.Skipped as reason:
            count[f"skipped ({reason})"] += 1
            continue
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            wrong = f"expected an answer, got {error!r}"
        if wrong:
            fail(test["id"], wrong)
        else:
            count["passed"] += 1
    return count


def main(folder: Path) -> int:
    failed = 0
    for listed in json.loads((folder / "MANIFEST.json").read_bytes())["files"]:
        count = verify_file(listed, (folder / listed["path"]).read_bytes())
        print(f"{listed['path']}: " + ", ".join(f"{number} {what}" for what, number in count.items()))
        failed += count["failed"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
