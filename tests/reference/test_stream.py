"""The consumer's state machine as lists of arrivals.

A scenario is a script. `a3` is batch 3 of life `a`; it stores one block, named by life and number. `live a3`
arrives on the subscription; `ask 3` asserts that replay is asked for from 3, and sends the question; `replay a3 a4`
arrives as the answer, `end` is its end marker, `silence` its absence; `gone` is a disconnect; `quiet` asserts that
nothing waits to be asked; `nobody` gives up; `joined` stands for a consumer that has read `a0` to `a3`.
"""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvwire_reference.hashing import ALGORITHMS, Algorithm, hash_chain, signed
from kvwire_reference.residents import Residents
from kvwire_reference.stream import Stream
from kvwire_reference.wire import AllBlocksCleared, Batch, BlockStored, encode


def block(name: str) -> int:
    return ord(name[0]) * 1000 + int(name[1:])


def store(name: str) -> BlockStored:
    return BlockStored(
        block_hashes=(block(name),),
        parent_block_hash=None,
        token_ids=(1,),
        block_size=1,
        lora_id=None,
        medium="GPU",
        lora_name=None,
    )


def payload(name: str) -> bytes:
    return encode(Batch(0.0, (store(name),), 0))


SPECIAL = {
    "a_clear": encode(Batch(0.0, (AllBlocksCleared(),), 0)),
    "a_unknown": msgspec.msgpack.encode(
        [0.0, [{"type": "BlockMigrated"}, {**msgspec.to_builtins(store("a77")), "type": "BlockStored"}], 0]
    ),
    "a_broken": b"\x93",
}


def run(script: str, stream: Stream) -> None:
    for step in filter(None, map(str.strip, script.split(";"))):
        verb, *names = step.split()
        match verb:
            case "live" | "replay":
                take = stream.live if verb == "live" else stream.replayed
                for name in names:
                    number, _, special = name.partition("=")
                    take(int(number[1:]), SPECIAL[special] if special else payload(number))
            case "ask":
                assert stream.asking, step
                assert stream.ask() == int(names[0]), step
                assert stream.waiting
            case "end":
                stream.ended()
            case "silence":
                stream.unanswered()
            case "gone":
                stream.disconnected()
            case "quiet":
                assert not stream.asking, step
                assert stream.ask() is None
            case "nobody":
                stream.give_up()
            case _:
                raise AssertionError(verb)


def held(stream: Stream) -> set[int]:
    return {value for table in stream.residents.tables().values() for value in table}


def blocks(names: str) -> set[int]:
    return {block(name) for name in names.split()}


JOINED = "ask 0; replay a0 a1 a2 a3; end; quiet"
SCENARIOS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("stream_scenarios.toml").read_text(encoding="utf-8")
)["scenario"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_scenario(scenario: dict[str, Any]) -> None:
    stream = Stream(Residents())
    run(scenario["script"].replace("joined", JOINED), stream)
    assert held(stream) == blocks(scenario["held"])
    assert stream.last == scenario["last"]
    assert stream.residents.complete == scenario.get("complete", True)
    assert stream.settled == scenario.get("settled", True)
    counted = {name: getattr(stream.counters, name) for name in stream.counters.__dataclass_fields__}
    counted.pop("applied")
    assert {name: count for name, count in counted.items() if count} == scenario.get("counters", {})


def test_memory_is_bounded() -> None:
    stream = Stream(Residents(), remembered=10, buffered=20)
    run("ask 0; end", stream)
    for number in range(1000):
        stream.live(number, payload(f"a{number}"))
    assert len(stream._recent) == 10
    for number in range(2000, 2021):
        stream.live(number, payload(f"a{number}"))
    assert not stream._buffer
    assert stream.last == 2020
    assert stream.counters.given_up == 1
    stream.live(900, payload("a900"))  # long forgotten: read again rather than guess
    assert stream.ask() == 0
    assert stream.counters.restarts == 1


def life(function: Algorithm) -> list[bytes]:
    """A clear, and a block under the bare label, which does not say by which of two functions it is hashed."""
    state = next(hash_chain(function, [[1, 2, 3, 4]]))
    event = msgspec.structs.replace(
        store("a0"),
        block_hashes=(signed(state.hash or 0),),
        token_ids=(1, 2, 3, 4),
        block_size=4,
        hash_algo="v2_sha256_64",
    )
    return [encode(Batch(0.0, (AllBlocksCleared(),), 0)), encode(Batch(0.0, (event,), 0))]


def answered(stream: Stream, batches: list[bytes]) -> None:
    start = stream.ask()
    assert start is not None
    for number, batch in enumerate(batches):
        if number >= start:
            stream.replayed(number, batch)
    stream.ended()


@pytest.mark.parametrize("seen", ["differs", "open"])
def test_what_a_bare_label_means_is_settled_anew_in_each_incarnation(seen: str) -> None:
    stream = Stream(Residents())
    answered(stream, life(ALGORITHMS["v2_sha256_64/u64"]))
    assert stream.residents.prefix([1, 2, 3, 4], "GPU") == 1
    stream.disconnected()
    upgraded = life(ALGORITHMS["v2_sha256_64/u32"])
    if seen == "differs":
        answered(stream, upgraded)
        answered(stream, upgraded)
    else:
        stream.ask()
        stream.replayed(2, upgraded[1])
        stream.ended()
    assert stream.settled
    assert stream.counters.restarts == (seen == "differs")
    assert stream.residents.prefix([1, 2, 3, 4], "GPU") == 1
