"""Verify a folder of vectors: ``python verify.py FOLDER``. Standard library only, from the standard's text alone."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hashing
import rules
from wire import canonical

ANSWERS = {
    "hash": hashing.answer,
    "wire": rules.answer_wire,
    "envelope": rules.answer_envelope,
    "replay": rules.answer_replay,
    "endpoint": rules.answer_endpoint,
}


def verify_test(kind: str, group: dict[str, Any], test: dict[str, Any]) -> str:
    """What is wrong with a test, or nothing."""
    expected, result = test["expected"], test.get("result", "valid")
    answer, breaks = ANSWERS[kind](group, test["input"])
    left_out = {"fault", "layer", "also", "names", "form" if kind == "wire" else ""}
    wanted = {name: value for name, value in expected.items() if name not in left_out}
    got = {name: answer[name] for name in wanted if name in answer}
    if canonical(got) != canonical(wanted):
        return f"expected {canonical(wanted)}, got {canonical(got)}"
    allowed = set() if result == "valid" else {expected.get("fault"), *test["requirements"]}
    if not set(breaks) <= allowed or (result == "invalid" and not breaks):
        return f"expected {expected.get('fault', 'no fault')}, got {', '.join(sorted(set(breaks))) or 'none'}"
    return ""


def main(folder: Path) -> int:
    manifest, failures = json.loads((folder / "MANIFEST.json").read_bytes()), 0
    for listed in manifest["files"]:
        path, count = listed["path"], Counter({"passed": 0, "failed": 0})

        def fail(name: str, wrong: str, path: str = path, count: Counter[str] = count) -> None:
            print(f"FAIL {path} {name}: {wrong}")
            count["failed"] += 1

        data = (folder / path).read_bytes()
        if (digest := hashlib.sha256(data).hexdigest()) != listed["sha256"]:
            fail("sha256", f"expected {listed['sha256']}, got {digest}")
        file = json.loads(data)
        kind = file["schema"].split("/")[2]
        if kind not in ANSWERS:
            print(f"{path}: sha256 only")
            failures += count["failed"]
            continue
        inputs = ("tokens", "block_size", "parent", "lora_id", "salt", "salt_id")
        known = [{**a, "input": {name: a[name] for name in inputs if name in a}} for a in file.get("answers", [])]
        groups = file.get("groups") or [{"algorithm": test["algorithm"], "tests": [test]} for test in known]
        tests = [(group, test) for group in groups for test in group["tests"]]
        if [test["id"] for _, test in tests] != listed["ids"] or not len(tests) == listed["count"] == file["count"]:
            fail("ids", f"expected {listed['count']} tests as the manifest lists them, got others")
        for group, test in tests:
            try:
                wrong = verify_test(kind, group, test)
            except hashing.Skipped as reason:
                count[f"skipped ({reason})"] += 1
                continue
            if wrong:
                fail(test["id"], wrong)
            else:
                count["passed"] += 1
        print(f"{path}: " + ", ".join(f"{number} {what}" for what, number in count.items()))
        failures += count["failed"]
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
