"""Verify a folder of vectors: ``python verify.py FOLDER``. Standard library only, from the text of the standard alone."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hashing
import wire

# --- envelope.md, replay.md, endpoint.md -----------------------------------------------------------------------------

Answer = tuple[dict[str, Any], list[str]]
"""What is expected of a test, and the sentences that its input breaks."""
END = b"\xff" * 8


def answer_envelope(_: Any, given: dict[str, Any]) -> Answer:
    frames = list(map(bytes.fromhex, given["frames"]))
    if len(frames) != 3:
        return {}, ["KVW-ENV-001"]
    topic, number, payload = frames
    faults = {
        "KVW-ENV-004": topic.decode(errors="ignore").encode() != topic,
        "KVW-ENV-005": len(number) != 8,
        "KVW-ENV-006": not payload,
        "KVW-SEQ-006": number == END,
    }
    fields = {"topic": topic.hex(), "sequence": str(int.from_bytes(number, "big")), "payload": payload.hex()}
    return fields, [name for name, there in faults.items() if there]


def answer_replay(_: Any, given: dict[str, Any]) -> Answer:
    if "frames" in given:
        frames = list(map(bytes.fromhex, given["frames"]))
        if len(frames) != 2:
            return {}, ["KVW-REP-005"]
        wrong = bool(frames[0]) or len(frames[1]) != 8
        return {"start": str(int.from_bytes(frames[1], "big"))}, ["KVW-REP-006"] if wrong else []
    messages = [list(map(bytes.fromhex, message)) for message in given["messages"]]
    form = {3: "replay-bare", 4: "replay-topic"}.get(len(messages[0])) if messages else None
    live = {frames[1]: frames for frames in (list(map(bytes.fromhex, message)) for message in given.get("live", []))}
    numbers, ends, breaks = [], [], []
    for at, message in enumerate(messages):
        if len(message) != len(messages[0]) or form is None or message[0] or len(message[-2]) != 8:
            breaks.append("KVW-REP-001")
        elif message[-2] == END:
            ends.append(at)
            breaks += ["KVW-REP-003"] if any(message[1:-2]) else []
            breaks += ["KVW-REP-014"] if message[-1] and "end_payload" not in given.get("extensions", []) else []
        else:
            numbers.append(int.from_bytes(message[-2], "big"))
            sent = live.get(message[-2], message[1:])
            breaks += [] if sent[-len(message) + 1 :] == message[1:] else ["KVW-REP-001"]
    breaks += ["KVW-REP-003"] if len(ends) > 1 or ends not in ([], [len(messages) - 1]) else []
    rising = all(low < high for low, high in zip(numbers, numbers[1:], strict=False))
    breaks += [] if rising and min(numbers, default=2**64) >= int(given["start"]) else ["KVW-REP-002"]
    hole = bool(numbers) and numbers[-1] - numbers[0] >= len(numbers)
    outcome = "no-end" if not ends else "empty" if not numbers else "hole" if hole else "complete"
    return {"form": form, "outcome": outcome, "numbers": list(map(str, numbers))}, breaks


def answer_endpoint(_: Any, given: dict[str, Any]) -> Answer:
    rank, world, here = given["rank"], given["world"], given["ranks_per_host"]
    breaks, bound, ports = [], {}, []
    for role, endpoint in (("publish", given["endpoint"]), ("replay", given.get("replay"))):
        if endpoint is None:
            continue
        scheme, _, place = endpoint.partition("://")
        bound[role] = endpoint + (f"_dp{rank}" if rank else "")
        if not endpoint:
            breaks.append("KVW-END-008")
        elif scheme not in ("tcp", "ipc", "inproc") or "://" not in endpoint:
            breaks.append("KVW-END-007")
        elif scheme == "ipc":
            highest = place + (f"_dp{world - 1}" if world > 1 else "")
            breaks += ["KVW-END-011"] if len(highest.encode()) > 107 else []
        elif scheme == "tcp":
            host, colon, text = place.rpartition(":")
            if not colon or not (text.isascii() and text.isdigit()):
                breaks.append("KVW-END-004")
                continue
            port = int(text)
            if port > 65535 or (port == 0 and not given.get("ephemeral")):
                breaks.append("KVW-END-005")
            elif port + world - 1 > 65535:
                breaks.append("KVW-END-006")
            ports.append(port)
            bound[role] = f"tcp://{host}:{port + rank}"
    if given["endpoint"] == given.get("replay"):
        breaks.append("KVW-END-010")
    elif len(ports) == 2 and abs(ports[0] - ports[1]) < here:
        breaks.append("KVW-END-009")
    return {} if breaks else bound, breaks


# --- files -----------------------------------------------------------------------------------------------------------

ANSWERS = {
    "hash": hashing.answer,
    "wire": wire.answer,
    "envelope": answer_envelope,
    "replay": answer_replay,
    "endpoint": answer_endpoint,
}


def verify_test(kind: str, group: dict[str, Any], test: dict[str, Any]) -> str:
    """What is wrong with a test, or nothing."""
    expected, result = test["expected"], test.get("result", "valid")
    answer, breaks = ANSWERS[kind](group, test["input"])
    got = {name: answer[name] for name in expected if name in answer}
    wanted = {name: expected[name] for name in expected if name not in ("fault", "layer", "also", "names")}
    if wire.canonical(got) != wire.canonical(wanted):
        return f"expected {wire.canonical(wanted)}, got {wire.canonical(got)}"
    allowed = {expected.get("fault"), *test.get("requirements", ())} if result != "valid" else set()
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
