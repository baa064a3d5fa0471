"""What a consumer asks, holds and is sure of (consumer.md), and which prompts it finds. Standard library only."""

from __future__ import annotations

import math
from typing import Any

import hashing
from rules import named

from wire import Reader

WIDTHS: dict[str, tuple[int, ...]] = {"v1_block_key": (4, 8), "v2_sha256_64": (4, 8)}
WIDTHS |= {f"{name}/u{8 * w}": (w,) for name in ("v2_sha256_64", "v2_sha256_low64") for w in (4, 8)}
"""Bytes of a token that each label can mean."""
PLACE = ("algorithm", "medium", "group", "locality", "ownership")
Place = tuple[Any, ...]


class Table:
    """Residency by location, and what is known of hash functions, for one incarnation."""

    def __init__(self, declared: str | None, counted: bool) -> None:
        self.algorithm, self.counted, self.sure = declared, counted, False
        self.held: dict[Place, dict[int, list[str | None]]] = {}
        self.settled: dict[str, list[int]] = {}
        self.sizes: dict[int, int] = {}
        self.adapters: dict[str, int | None] = {}
        self.reproduces: bool | None = None

    def drop(self, sure: bool) -> None:
        self.held, self.sure = {}, sure

    def apply(self, event: dict[str, Any]) -> None:
        kind, group = event.get("type"), event.get("group_idx") or 0
        if kind == "AllBlocksCleared":
            named_keys = [key for key in ("medium", "ownership") if key in event]
            if not named_keys:
                self.drop(True)
            for place in list(self.held):
                if all(place[PLACE.index(key)] == event[key] for key in named_keys):
                    del self.held[place]
        if kind not in ("BlockStored", "BlockRemoved"):
            return
        self.algorithm = event.get("hash_algo") or self.algorithm
        place = (self.algorithm, event["medium"], group, event.get("locality"), event.get("ownership"))
        copies = self.held.setdefault(place, {})
        for value in (value % 2**64 for value in event["block_hashes"]):
            if kind == "BlockStored":
                one = copies.setdefault(value, [])
                if not one or self.counted:
                    one.append(event.get("scope"))
            elif value in copies:
                copies[value].pop()
                if not copies[value]:
                    del copies[value]
        if kind == "BlockStored":
            self.sizes[group] = max(self.sizes.get(group, 0), event["block_size"])
            if event["lora_name"] is not None:
                self.adapters[event["lora_name"]] = event["lora_id"]
            self.settle(event, group)

    def hashes(self, label: str, width: int, tokens: Any, size: int, lora: Any = None, salt: Any = None) -> list[int]:
        """Of each block of a prompt; none where the function does not take its tokens."""
        if label.startswith("v2") and width == 4 and max(tokens) >= 2**31:
            return []
        unit = math.gcd(*self.sizes.values())
        cut = [tuple(tokens[at : at + unit]) for at in range(0, len(tokens) - unit + 1, unit)]
        found = [value for value, _ in hashing.chain(label, cut, width, lora_id=lora, salt_id=salt)] if cut else []
        return found[size // unit - 1 :: size // unit]

    def settle(self, event: dict[str, Any], group: int) -> None:
        """Hold a root against the functions that the label can mean (KVW-HSH-013, KVW-HSH-015)."""
        size, tokens, label = event["block_size"], event["token_ids"], self.algorithm
        whole = event["parent_block_hash"] is None and 0 < size * len(event["block_hashes"]) == len(tokens)
        if label not in WIDTHS or not whole or "scope" in event or size != self.sizes[group]:
            return
        wanted = [value % 2**64 for value in event["block_hashes"]]

        def reproduced(name: str, width: int) -> int:
            pairs = zip(self.hashes(name, width, tokens, size, event["lora_id"]), wanted, strict=False)
            return next((at for at, (one, other) in enumerate(pairs) if one != other), len(wanted))

        found = {width: reproduced(label, width) for width in self.settled.get(label, WIDTHS[label])}
        best = max(found.values())
        if best:
            self.settled[label] = [width for width, count in found.items() if count == best]
            self.reproduces = self.reproduces is not False and best == len(wanted)
        elif any(reproduced(name, width) for name in WIDTHS for width in WIDTHS[name]):
            self.reproduces = False

    def look(self, step: dict[str, Any]) -> int:
        group, label, name = step.get("group", 0), self.algorithm, step.get("lora_name")
        held = self.held.get((label, step.get("medium"), group, None, None), {})
        if label not in WIDTHS or not held or not self.sizes.get(group) or (name and name not in self.adapters):
            return 0
        lora = self.adapters[name] if name else int(step["lora_id"]) if "lora_id" in step else None
        salt, tag = step.get("salt"), None
        if salt is not None:
            tag, salt = hashing.sha256(b"kvwire-scope-1\0", salt.encode())[:8].hex(), hashing.salt_id(salt)
        best = 0
        for width in self.settled.get(label, WIDTHS[label]):
            found = self.hashes(label, width, step["tokens"], self.sizes[group], lora, salt)
            there = [value in held and held[value][0] in (None, tag) for value in found]
            best = max(best, there.index(False) if False in there else len(there))
        return best

    def told(self) -> list[dict[str, Any]]:
        found = []
        for place in sorted(self.held, key=lambda place: [(part is None, str(part)) for part in place]):
            one = dict(zip(PLACE, place, strict=True))
            shown = {key: one[key] for key in ("medium", "group")}
            shown |= {key: one[key] for key in ("locality", "ownership", "algorithm") if one[key] is not None}
            if self.held[place]:
                found.append({**shown, "hashes": list(map(str, sorted(self.held[place])))})
        return found


class Follower:
    """One stream: what was applied, what waits, and the request that is open."""

    def __init__(self, stream: dict[str, Any]) -> None:
        self.replay, self.connected = stream.get("replay", True), False
        self.stream, self.lives = stream, 0
        self.begin()

    def new(self) -> Table:
        return Table(self.stream.get("algorithm"), self.stream.get("residency") == "counted")

    def begin(self) -> None:
        """A new incarnation, or the first one: nothing is known, and replay is asked for from 0."""
        self.table, self.last = self.new(), -1
        self.epoch: str | None = None
        self.applied: dict[int, bytes] = {}
        self.live: dict[int, bytes] = {}
        self.lives += 1
        self.ask()

    def ask(self) -> None:
        self.open, self.sent, self.heard = True, False, -1
        self.answer: dict[int, bytes] = {}

    def take(self, step: dict[str, Any], batches: dict[str, str]) -> dict[str, Any]:
        lives, event = self.lives, step["event"]
        for number, name in step.get("messages", []):
            (self.on_live if event == "live" else self.on_replayed)(int(number), bytes.fromhex(batches[name]))
        if event in ("connected", "disconnected"):
            self.connected = event == "connected"
            if not self.connected:
                self.live = {}
                self.ask()
        elif event == "ended" and self.sent:
            self.on_end()
        elif event == "deadline" and self.sent:
            self.on_deadline()
        if self.open and self.connected and not self.replay:
            if self.last >= 0:
                self.table = self.new()
            self.open = False
            self.splice(self.live, max(self.live, default=-1), False)
        asks = self.open and self.connected and not self.sent
        if asks:
            self.sent, self.heard = True, max(self.live, default=-1)
        self.reading = self.open and lives == self.lives and (event == "replayed" or getattr(self, "reading", False))
        state: dict[str, Any] = {"asks": str(max(self.last, 0))} if asks else {}
        state |= {"last": str(self.last)} if self.last >= 0 and not self.reading else {}
        state["sure"] = self.table.sure and not self.open
        state |= {} if self.reading else {"holds": self.table.told()}
        if event == "look":
            state["finds"] = self.table.look(step)
            state |= {} if self.table.reproduces is None else {"reproduces": self.table.reproduces}
        return state

    def on_live(self, number: int, payload: bytes) -> None:
        known = self.applied.get(number, self.live.get(number))
        if known == payload:
            return
        if known is not None or number <= self.last:
            was_open = self.open
            self.begin()
            self.open = was_open or number > 0
        self.live[number] = payload
        if not self.open:
            self.splice(self.live, -1, False)

    def on_replayed(self, number: int, payload: bytes) -> None:
        if self.sent and self.open and number >= max(self.last, 0):
            self.answer[number] = payload
            if self.applied.get(number, self.live.get(number, payload)) != payload:
                self.begin()

    def on_deadline(self) -> None:
        """What came in order from the last number on is applied, if it is of the same life."""
        if self.last < 0 or self.last in self.answer:
            while self.last + 1 in self.answer:
                self.apply(self.last + 1, self.answer[self.last + 1], True)
        self.ask()

    def on_end(self) -> None:
        answer, first, whole = self.answer, min(self.answer, default=-1), self.last <= 0
        self.open = False
        if self.last >= 0 and not answer:
            self.begin()
            return
        if self.last >= 0 and first > self.last:
            self.table = self.new()
            self.live = {number: payload for number, payload in self.live.items() if number >= first}
        waiting = {**self.live, **answer}
        self.splice(waiting, max(self.heard, max(answer, default=-1)), whole)

    def splice(self, waiting: dict[int, bytes], bound: int, whole: bool) -> None:
        """Apply in order of numbers: over holes up to the bound, and what follows without a gap. A gap is asked for."""
        self.live = {number: payload for number, payload in waiting.items() if number > self.last}
        while self.live and (min(self.live) <= bound or min(self.live) == self.last + 1):
            number = min(self.live)
            if number > self.last + 1:
                self.table.drop(False)
            if not self.apply(number, self.live.pop(number), whole):
                return
        if self.live:
            self.ask()

    def apply(self, number: int, payload: bytes, whole: bool) -> bool:
        """Whether it was applied; a new epoch that was not read from 0 is asked for instead."""
        if number == 0:
            self.table.drop(True)
        try:
            events = list(map(named, Reader(payload).value()[1]))
        except EOFError:
            self.table.drop(False)
            events = []
        told = [event["epoch"] for event in events if event.get("type") == "AllBlocksCleared" and event.get("epoch")]
        if told and self.epoch not in (None, told[-1]):
            if not whole:
                later = {number: payload, **self.live}
                self.begin()
                self.live = later
                return False
            self.table = self.new()
        self.epoch = told[-1] if told else self.epoch
        for event in events:
            self.table.apply(event)
        self.last, self.applied[number] = number, payload
        return True


def answer(_: Any, given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    followers = {stream["name"]: Follower(stream) for stream in given["streams"]}
    return {"steps": [followers[step["stream"]].take(step, given["batches"]) for step in given["steps"]]}, []
