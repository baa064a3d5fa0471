"""Scripts of what happens to a consumer, as steps, and the states that the reference consumer goes through.

A script is a list of steps with semicolons: ``back`` (connected), ``gone`` (disconnected), ``live a3 a4``,
``replay a3 a4``, ``end``, ``deadline``, ``look NAME``. A step of another stream than ``s`` begins with its name and a
colon. ``> 3`` at its end says that it leads to a request from 3; no other step leads to one. ``a3`` is batch 3 of life
``a``, which stores one block of that name if nothing else is said of it. ``joined`` stands for a consumer that has read
``a0`` to ``a3``.

The end of each scenario is written by hand; what lies between comes from the reference, and the verifiers derive it
again from the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kvwire.vectors.model import (
    ConsumerExpected,
    ConsumerInput,
    ConsumerStream,
    Group,
    Held,
    State,
    Step,
    Test,
)
from kvwire_generators.making import VectorError
from kvwire_generators.wire.msgpack_forms import pack
from kvwire_reference.residents import Residents
from kvwire_reference.stream import Stream

ConsumerTest = Test[ConsumerInput, ConsumerExpected]
ConsumerGroup = Group[ConsumerInput, ConsumerExpected]
Event = dict[str, Any]

JOINED = "back > 0; replay a0 a1 a2 a3; end"
EVENTS: dict[str, Any] = {
    "back": "connected",
    "gone": "disconnected",
    "live": "live",
    "replay": "replayed",
    "end": "ended",
    "deadline": "deadline",
    "look": "look",
}
TS = 1735689600.0
_NAME = re.compile(r"([a-z])(\d+)")


def block(name: str) -> int:
    """The hash of a block that is named by a letter and a number: ``b12`` is 2000000000012."""
    letter, number = _parts(name)
    return (ord(letter) - ord("a") + 1) * 10**12 + number


def blocks(names: str) -> list[int]:
    """Hashes of several names."""
    return [block(name) for name in names.split()]


def stored(names: str, *, parent: str | None = None, size: int = 1, **more: Any) -> Event:
    """A ``BlockStored`` of these blocks."""
    hashes = blocks(names)
    return {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": None if parent is None else block(parent),
        "token_ids": [value % 50_000 for value in hashes for _ in range(size)],
        "block_size": size,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        **more,
    }


def moved(names: str, medium: str = "CPU", **more: Any) -> Event:
    """A location update."""
    return stored(names, size=0, medium=medium, **more)


def removed(names: str, **more: Any) -> Event:
    """A ``BlockRemoved`` of these blocks."""
    return {"type": "BlockRemoved", "block_hashes": blocks(names), "medium": "GPU", **more}


def cleared(**more: Any) -> Event:
    """An ``AllBlocksCleared``."""
    return {"type": "AllBlocksCleared", **more}


def _parts(name: str) -> tuple[str, int]:
    found = _NAME.fullmatch(name)
    if found is None:
        raise VectorError(f"{name!r} is no letter and number")
    return found[1], int(found[2])


class Player:
    """The reference consumer of one stream, fed with steps."""

    def __init__(self, followed: ConsumerStream) -> None:
        self.replay = followed.replay
        self.stream = Stream(Residents(followed.algorithm, counted=followed.residency == "counted"))
        self._connected = False
        self._reading = False

    def take(self, step: Step, batches: Mapping[str, str]) -> State:
        """What it knows after a step.

        Raises:
            VectorError: when it asks in the middle of a step.
        """
        restarts = self.stream.counters.restarts
        for at, (number, name) in enumerate(step.messages):
            take = self.stream.live if step.event == "live" else self.stream.replayed
            take(int(number), bytes.fromhex(batches[name]))
            if self.replay and self.stream.asking and self._connected and at + 1 < len(step.messages):
                raise VectorError(f"it asks at {name}, in the middle of a step")
        match step.event:
            case "connected" | "disconnected":
                self._connected = step.event == "connected"
                if not self._connected:
                    self.stream.disconnected()
            case "ended":
                self.stream.ended()
            case "deadline":
                self.stream.unanswered()
        if self._connected and self.stream.asking and not self.replay:
            self.stream.give_up()
        asks = self.stream.ask() if self._connected else None
        self._reading = (self._reading or step.event == "replayed") and not (
            self.stream.settled or self.stream.counters.restarts > restarts
        )
        return self._state(step, asks)

    def _state(self, step: Step, asks: int | None) -> State:
        stream, residents = self.stream, self.stream.residents
        looks = step.event == "look"
        return State(
            asks=None if asks is None else str(asks),
            last=None if stream.last < 0 or self._reading else str(stream.last),
            sure=stream.sure,
            holds=msgspec.UNSET if self._reading else tuple(_held(residents)),
            finds=_found(residents, step) if looks else None,
            reproduces=residents.reproduces if looks else None,
        )


def _held(residents: Residents) -> Iterable[Held]:
    for place, hashes in sorted(residents.tables().items(), key=lambda item: [(x is None, str(x)) for x in item[0]]):
        yield Held(
            medium=place.medium,
            group=place.group,
            locality=place.locality,
            ownership=place.ownership,
            algorithm=place.algorithm,
            hashes=tuple(map(str, sorted(hashes))),
        )


def _found(residents: Residents, step: Step) -> int:
    return residents.prefix(
        step.tokens,
        step.medium,
        group=step.group,
        lora_id=None if step.lora_id is None else int(step.lora_id),
        lora_name=step.lora_name,
        salt=step.salt,
    )


def _told(state: State, names: Mapping[int, str]) -> str:
    """What is held, in words: ``a0 a1`` in group 0 of GPU, or ``CPU/1@REMOTE+pool a0 | …``."""
    if isinstance(state.holds, msgspec.UnsetType):
        return "reading"
    told = []
    for held in state.holds:
        place = (held.medium or "nil") + (f"/{held.group}" if held.group else "")
        place += f"@{held.locality}" * bool(held.locality) + f"+{held.ownership}" * bool(held.ownership)
        told.append(" ".join([place, *(names.get(int(value), value) for value in held.hashes)]))
    return told[0].removeprefix("GPU ") if len(told) == 1 else " | ".join(told)


def _features(streams: Iterable[ConsumerStream], batches: Iterable[list[Event] | bytes]) -> Iterable[str]:
    """What a test asks of a consumer beyond the least, as flags."""
    followed, contents = list(streams), list(batches)
    events = [event for batch in contents if isinstance(batch, list) for event in batch]
    features = {
        "streams": len(followed) > 1,
        "no-replay": not all(one.replay for one in followed),
        "counted": any(one.residency == "counted" for one in followed),
        "unreadable": b"\x93" in contents,
        "epoch": any(event.get("epoch") for event in events),
        "location": any(event.get("ownership") or event.get("locality") for event in events),
        "location-update": any(event.get("block_size") == 0 for event in events),
        "partial-entry": any(event.get("block_size") == 2 for event in events),
        "scope-tag": any("scope" in event for event in events),
    }
    return [name for name, shown in features.items() if shown]


def scenario(
    slug: str,
    comment: str,
    script: str,
    holds: str | None = None,
    last: int | None = None,
    *requirements: str,
    sure: bool = True,
    flags: str = "",
    batches: Mapping[str, list[Event] | bytes] | None = None,
    streams: Iterable[ConsumerStream] = (ConsumerStream(name="s"),),
    looks: Mapping[str, dict[str, Any]] | None = None,
    found: str = "",
) -> ConsumerTest:
    """A test from a script, and what is held, applied last and sure at its end, of the stream of its last step.

    ``batches`` says what batches hold, ``looks`` what is looked up under a name, and ``found`` what all look-ups find.

    Raises:
        VectorError: when the reference ends otherwise, or asks otherwise.
    """
    followed = {one.name: one for one in streams}
    players = {name: Player(one) for name, one in followed.items()}
    contents: dict[str, str] = {}
    names: dict[int, str] = {}
    steps, states = [], []
    shown = {*flags.split(), *_features(followed.values(), (batches or {}).values())}

    def content(name: str) -> str:
        letter, number = _parts(name)
        given = (batches or {}).get(name, [stored(name)])
        names[block(name)] = name
        if isinstance(given, bytes):
            return given.hex()
        for event in given:
            hashes = [value for value in event.get("block_hashes", ()) if isinstance(value, int)]
            names.update({h: f"{chr(96 + h // 10**12)}{h % 10**12}" for h in hashes if 0 < h // 10**12 < 27})
        return pack([TS + 10_000 * (ord(letter) - ord("a")) + number, given, 0]).hex()

    for text in script.replace("joined", JOINED).split(";"):
        words, _, asked = text.partition(">")
        stream, _, rest = words.rpartition(":")
        verb, *given = rest.split()
        messages = []
        for name in given if verb in ("live", "replay") else ():
            contents.setdefault(name, content(name))
            messages.append((str(_parts(name)[1]), name))
        looked = (looks or {})[given[0]] if verb == "look" else {}
        step = Step(
            stream=stream.strip() or next(iter(followed)), event=EVENTS[verb], messages=tuple(messages), **looked
        )
        state = players[step.stream].take(step, contents)
        if state.asks != (asked.strip() or None):
            raise VectorError(f"{slug}: {text.strip()}: the reference asks {state.asks}")
        steps.append(step)
        states.append(state)
    end = states[-1]
    ends = (None if holds is None else _told(end, names), end.last, end.sure)
    if ends != (holds, None if last is None else str(last), sure):
        raise VectorError(f"{slug}: the reference ends with {ends}")
    if " ".join(str(state.finds) for state in states if state.finds is not None) != found:
        raise VectorError(f"{slug}: the reference finds {[state.finds for state in states]}")
    return Test(
        id=f"consumer-{slug}",
        comment=comment,
        flags=tuple(sorted(shown)),
        requirements=tuple(sorted(f"KVW-{name}" for name in set(requirements))),
        result="valid",
        input=ConsumerInput(
            streams=tuple(followed.values()), batches=dict(sorted(contents.items())), steps=tuple(steps)
        ),
        expected=ConsumerExpected(steps=tuple(states)),
    )
