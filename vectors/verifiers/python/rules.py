"""What a payload, a message or an endpoint says, and the sentences of the standard that it breaks, by their ids."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from wire import Odd, Pairs, Raw, Reader, canonical, project_payload

Answer = tuple[dict[str, Any], list[str]]
"""What is expected of a test, and the sentences that its input breaks."""

# --- batch.md, event.md, chain.md ------------------------------------------------------------------------------------

STORED = {"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"}
TEXTS = "lora_name kv_cache_spec_kind hash_algo locality ownership scope session_id epoch".split()  # noqa: SIM905
COUNTS = ("lora_id", "group_idx", "kv_cache_spec_sliding_window")
EVENTS = ("BlockStored", "BlockRemoved", "AllBlocksCleared")


def integer(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < high


def named(value: Any) -> dict[str, Any]:
    return {key: inner for key, inner in value if isinstance(key, str)} if isinstance(value, Pairs) else {}


def digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-fA-F]{64}", value) is not None


def everywhere(value: Any) -> Iterator[str]:
    """What may stand nowhere in a payload."""
    if isinstance(value, Raw):
        yield "KVW-ENV-006"
    elif isinstance(value, Pairs):
        keys = [key for key, _ in value if isinstance(key, str)]
        if len(keys) < len(value):
            yield "KVW-EVT-002"
        if len(set(keys)) < len(keys):
            yield "KVW-EVT-003"
        yield from everywhere([part for pair in value for part in pair])
    elif isinstance(value, list):
        for inner in value:
            yield from everywhere(inner)
    elif isinstance(value, Odd) and value.kind == "ext":
        yield "KVW-EVT-004"


def broken(payload: Any) -> Iterator[str]:
    """The sentences that a payload breaks."""
    yield from everywhere(payload)
    if type(payload) is not list or len(payload) != 3:
        yield "KVW-BAT-001"
        return
    ts, events, rank = payload
    if getattr(ts, "kind", "") != "float64":
        yield "KVW-BAT-002"
    elif not 0 <= struct.unpack(">d", bytes.fromhex(ts["bits"]))[0] < 1e11:
        yield "KVW-BAT-003"
    if not integer(rank, 0, 2**31):
        yield "KVW-RNK-001"
    if type(events) is not list:
        yield "KVW-BAT-005"
        return
    announced = set()
    for pairs in events:
        event = named(pairs)
        if not isinstance(event.get("type"), str):
            yield "KVW-EVT-001"
        if event.get("type") in EVENTS:
            yield from broken_event(event)
        if event.get("type") in EVENTS[:2]:
            announced.add(event.get("hash_algo"))
        if not integer(event.get("v", 1), 0, 2**64):
            yield "KVW-EVT-018"
        if "cache_salt" in event:
            yield "KVW-EVT-019"
    if len(announced) > 1:
        yield "KVW-HSH-003"


def broken_event(event: dict[str, Any]) -> Iterator[str]:
    stored, cleared = event["type"] == "BlockStored", event["type"] == "AllBlocksCleared"
    medium = event.get("medium")
    if medium is not None and not (isinstance(medium, str) and medium):
        yield "KVW-EVT-015"
    fields = [isinstance(event[name], str) for name in TEXTS if event.get(name) is not None]
    fields += [integer(event[name], 0, 2**64) for name in COUNTS if event.get(name) is not None]
    if not all(fields):
        yield "KVW-EVT-021"
    if cleared:
        return
    if not (STORED if stored else {"block_hashes", "medium"}) <= set(event):
        yield "KVW-EVT-005" if stored else "KVW-EVT-006"
        return
    hashes, parent = event["block_hashes"], event.get("parent_block_hash")
    chain = [*hashes, *([] if parent is None else [parent])] if type(hashes) is list else [""]
    if not all(integer(value, -(2**63), 2**64) for value in chain):
        yield "KVW-EVT-007"
    elif stored and not location(event) and len({value % 2**64 for value in chain}) < len(chain):
        yield "KVW-CHN-004"
    if stored:
        scope, extra = event.get("scope"), event.get("extra_keys")
        if isinstance(scope, str) and not re.fullmatch("[0-9a-f]{16}", scope):
            yield "KVW-EVT-028"
        if extra is not None and not (
            type(extra) is list
            and all(keys is None or type(keys) is list for keys in extra)
            and (type(hashes) is not list or len(extra) == len(hashes))
        ):
            yield "KVW-EVT-029"
        yield from broken_tokens(event, hashes if type(hashes) is list else None)


def location(event: dict[str, Any]) -> bool:
    """A location update: hashes that are in another medium than the device, and nothing more."""
    plain = event["token_ids"] == [] and integer(event["block_size"], 0, 1) and event["parent_block_hash"] is None
    return plain and bool(event["block_hashes"]) and isinstance(event["medium"], str) and event["medium"] != "GPU"


def broken_tokens(event: dict[str, Any], hashes: list[Any] | None) -> Iterator[str]:
    tokens, size, keys = event["token_ids"], event["block_size"], event.get("mm_keys")
    limit = 2**31 if str(event.get("hash_algo")).endswith("/u32") else 2**32
    if type(tokens) is not list or not all(isinstance(token, str) or integer(token, 0, limit) for token in tokens):
        yield "KVW-EVT-010"
    elif not all(digest(token) for token in tokens if isinstance(token, str)):
        yield "KVW-EVT-011"
    elif keys is None and any(isinstance(token, str) for token in tokens):
        yield "KVW-EVT-012"
    if location(event):
        return
    if not integer(size, 1, 2**64):
        yield "KVW-EVT-014"
    elif hashes is not None and type(tokens) is list and (not hashes or len(tokens) != size * len(hashes)):
        yield "KVW-EVT-013"
    if keys is None:
        return
    lists = type(keys) is list and all(type(block) is list for block in keys)
    if not lists or (hashes is not None and len(keys) != len(hashes)):
        yield "KVW-EVT-012"
    elif not all(mm_key(key) for block in keys for key in block):
        yield "KVW-EVT-030"
    elif type(tokens) is list and any(map(digest, tokens)) and integer(size, 1, 2**64):
        for index, block in enumerate(keys):
            begun = {key["hash"].lower() for key in map(named, block) if key["start_offset"] == 0}
            if begun != {token.lower() for token in tokens[index * size : (index + 1) * size] if digest(token)}:
                yield "KVW-EVT-031"


def mm_key(value: Any) -> bool:
    key = named(value)
    right = key.get("type") == "mm_key" and digest(key.get("hash")) and integer(key.get("start_offset"), 0, 2**64)
    known = right and set(key) <= {"type", "hash", "start_offset", "uuid"} and len(key) == len(value)
    return known and isinstance(key.get("uuid", ""), str)


def answer_wire(_: Any, given: dict[str, Any]) -> Answer:
    """The projection of a payload, if it begins with a value, and the sentences that it breaks."""
    found, breaks = [], []
    for payload in [given["payload"], *given.get("encodings", [])]:
        reader = Reader(bytes.fromhex(payload))
        try:
            value = reader.value()
        except EOFError:
            return {}, ["KVW-ENV-006"]
        found.append(project_payload(value))
        breaks += list(broken(value)) if reader.at == len(reader.data) else ["KVW-ENV-006"]
    breaks += ["KVW-EVT-025"] if len(set(map(canonical, found))) > 1 else []
    return {"projection": found[0]}, ["KVW-ENV-006"] if "KVW-ENV-006" in breaks else breaks


# --- envelope.md, replay.md, endpoint.md -----------------------------------------------------------------------------

END = b"\xff" * 8
WILDCARDS = {"*", "0.0.0.0", "[::]"}  # noqa: S104 - hosts that are refused


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
    bare = bool(messages) and all(len(message) == 3 for message in messages)
    live = {frames[1]: frames for frames in (list(map(bytes.fromhex, message)) for message in given.get("live", []))}
    numbers, ends, breaks = [], [], ["KVW-REP-001", "KVW-REP-003"] if bare else []
    for at, message in enumerate(messages):
        if len(message) != (3 if bare else 4) or message[0] or len(message[-2]) != 8:
            breaks.append("KVW-REP-001")
        elif message[-2] == END:
            ends.append(at)
            breaks += ["KVW-REP-003"] if any(message[1:-2]) else []
            if message[-1] and "end_payload" not in given.get("extensions", []):
                breaks.append("KVW-REP-014")
            elif message[-1] and not two_numbers(message[-1]):
                breaks.append("KVW-REP-015")
        else:
            numbers.append(int.from_bytes(message[-2], "big"))
            sent = live.get(message[-2], message[1:])
            breaks += [] if sent[-len(message) + 1 :] == message[1:] else ["KVW-REP-001"]
    breaks += ["KVW-REP-003"] if len(ends) > 1 or ends not in ([], [len(messages) - 1]) else []
    rising = all(low < high for low, high in pairwise(numbers))
    breaks += [] if rising and min(numbers, default=2**64) >= int(given["start"]) else ["KVW-REP-002"]
    hole = bool(numbers) and numbers[-1] - numbers[0] >= len(numbers)
    outcome = "no-end" if not ends else "empty" if not numbers else "hole" if hole else "complete"
    form = "replay-bare" if bare else "replay-topic"
    return {"form": form, "outcome": outcome, "numbers": list(map(str, numbers))}, breaks


def two_numbers(payload: bytes) -> bool:
    value = Reader(payload).value()
    return type(value) is list and len(value) == 2 and all(integer(number, 0, 2**64) for number in value)


def answer_endpoint(_: Any, given: dict[str, Any]) -> Answer:
    rank, world, here = given["rank"], given["world"], given["ranks_per_host"]
    replay, bound, ports, faults = given.get("replay"), {}, [], []
    if not 0 <= rank < world:
        return {}, ["KVW-END-017"]
    for role, endpoint in (("publish", given["endpoint"]), ("replay", replay)):
        if endpoint is None:
            continue
        scheme, separator, place = endpoint.partition("://")
        host, colon, digits = place.rpartition(":")
        suffix, highest = (f"_dp{index}" if index else "" for index in (rank, world - 1))
        bound[role] = endpoint + suffix
        if not endpoint or (separator and not place):
            faults.append(("KVW-END-008", endpoint))
        elif not separator or scheme not in ("tcp", "ipc", "inproc"):
            faults.append(("KVW-END-007", endpoint))
        elif scheme == "ipc" and len((place + highest).encode()) > 107:
            faults.append(("KVW-END-011", endpoint))
        elif scheme == "tcp" and (place.startswith(":") or ("[" in place) > ("]" in place)):
            faults.append(("KVW-END-016", endpoint))
        elif scheme == "tcp" and not (colon and digits.isascii() and digits.isdigit()):
            faults.append(("KVW-END-004", endpoint))
        elif scheme == "tcp":
            port = int(digits)
            if not 1 <= port <= 65535 and not (port == 0 and given.get("ephemeral")):
                faults.append(("KVW-END-005", endpoint))
            elif port + world - 1 > 65535:
                faults.append(("KVW-END-006", endpoint))
            ports.append((host, port))
            bound[role] = f"tcp://{host}:{port + rank}"
    pair = [given["endpoint"], replay]
    if given["endpoint"] == replay:
        faults.append(("KVW-END-010", replay))
    elif len(ports) == 2:
        (one, first), (other, second) = ports
        if abs(first - second) < here and (one == other or not WILDCARDS.isdisjoint({one, other})):
            faults += [("KVW-END-009", endpoint) for endpoint in pair]
    elif not ports and replay is not None:
        names = [{endpoint, *(f"{endpoint}_dp{index}" for index in range(1, here))} for endpoint in pair]
        if names[0] & names[1]:
            faults += [("KVW-END-010", endpoint) for endpoint in pair]
    return {**bound, "names": [endpoint for _, endpoint in faults]}, [name for name, _ in faults]
