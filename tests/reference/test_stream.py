"""The consumer's state machine on the vectors of `vectors/consumer/`; its counters and bounds, and odd visitors."""

from typing import cast

import msgspec
import pytest

from kvwire.vectors import access
from kvwire.vectors.model import ConsumerExpected, ConsumerFile, ConsumerInput, Test
from kvwire_generators.following.scripts import Player
from kvwire_reference.hashing import ALGORITHMS, Algorithm, hash_chain, signed
from kvwire_reference.residents import Residents
from kvwire_reference.stream import Stream
from kvwire_reference.wire import SNAPSHOT_START, AllBlocksCleared, Batch, BlockStored, encode

FILES = [cast("ConsumerFile", access.load(f"consumer/{name}")) for name in ("resynchronisation", "residency", "lookup")]
TESTS = {test.id: test for file in FILES for test in file.tests}


def players(test: Test[ConsumerInput, ConsumerExpected]) -> dict[str, Player]:
    """Consumers that have gone through all steps, each of which left them in the state that is expected."""
    found = {one.name: Player(one) for one in test.input.streams}
    for number, (step, wanted) in enumerate(zip(test.input.steps, test.expected.steps, strict=True)):
        assert found[step.stream].take(step, test.input.batches) == wanted, f"step {number}: {step}"
    return found


@pytest.mark.parametrize("test", TESTS.values(), ids=lambda test: test.id)
def test_the_reference_consumer_knows_what_it_has_to(test: Test[ConsumerInput, ConsumerExpected]) -> None:
    players(test)


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("join-evicted", {"missing": 3}),
        ("join-nothing-retained", {"missing": 5}),
        ("duplicate-live", {"duplicates": 2}),
        ("duplicate-kept-back", {"duplicates": 1}),
        ("hole-filled", {}),
        ("hole-two-final", {"missing": 3}),
        ("hole-not-final-yet", {"incomplete": 1}),
        ("hole-open-adjacent", {}),
        ("disconnect-same-life", {}),
        ("restart-above-whole", {"restarts": 1}),
        ("restart-open", {"missing": 4}),
        ("restart-twice", {"restarts": 1}),
        ("epoch-other", {"restarts": 1}),
        ("deadline-twice", {"incomplete": 2}),
        ("silent-gap", {"given_up": 2, "missing": 1}),
        ("unreadable", {"unreadable": 1}),
    ],
)
def test_what_happened_is_counted(name: str, counted: dict[str, int]) -> None:
    counters = players(TESTS[f"consumer-{name}"])["s"].stream.counters
    found = {name: getattr(counters, name) for name in counters.__dataclass_fields__ if name != "applied"}
    assert {name: count for name, count in found.items() if count} == counted


def store(number: int, life: int = 1) -> BlockStored:
    return BlockStored(
        block_hashes=(life * 10**12 + number,),
        parent_block_hash=None,
        token_ids=(1,),
        block_size=1,
        lora_id=None,
        medium="GPU",
        lora_name=None,
    )


def payload(number: int) -> bytes:
    return encode(Batch(0.0, (store(number),), 0))


def held(stream: Stream) -> set[int]:
    return {value % 10**12 for table in stream.residents.tables().values() for value in table}


def answered(stream: Stream, *numbers: int) -> None:
    assert stream.ask() is not None
    for number in numbers:
        stream.replayed(number, payload(number))
    stream.ended()


def joined(*numbers: int) -> Stream:
    stream = Stream(Residents())
    answered(stream, *(numbers or range(4)))
    return stream


def test_after_several_answers_without_an_end_it_goes_on_as_over_a_hole() -> None:
    stream = joined()
    stream.live(6, payload(6))
    for _ in range(stream.patience):
        assert stream.ask() == 3
        stream.unanswered()
    assert not stream.asking
    assert (held(stream), stream.residents.complete) == ({6}, False)
    assert (stream.counters.incomplete, stream.counters.given_up, stream.counters.missing) == (3, 1, 2)


def test_an_answer_that_nobody_asked_for_says_nothing() -> None:
    stream = joined()
    stream.replayed(9, payload(9))
    stream.ended()
    stream.unanswered()
    assert (held(stream), stream.last, stream.sure) == ({0, 1, 2, 3}, 3, True)


def test_what_an_answer_holds_below_its_start_is_not_read() -> None:
    stream = joined()
    stream.disconnected()
    assert stream.ask() == 3
    for number in range(1, 5):
        stream.replayed(number, payload(number + 50 * (number < 3)))
    stream.ended()
    assert (held(stream), stream.sure) == ({0, 1, 2, 3, 4}, True)


@pytest.mark.parametrize("retained", [2, 1])
def test_the_reserved_start_is_never_asked_from(retained: int) -> None:
    """Its number is asked for from the one before, and compared all the same."""
    stream = joined(*range(SNAPSHOT_START + 1 - retained, SNAPSHOT_START + 1))
    assert stream.last == SNAPSHOT_START
    stream.disconnected()
    assert stream.ask() == SNAPSHOT_START - 1
    for number in (SNAPSHOT_START - 1, SNAPSHOT_START, SNAPSHOT_START + 1):
        stream.replayed(number, payload(number))
    stream.ended()
    assert stream.last == SNAPSHOT_START + 1
    assert stream.counters.restarts == 0
    assert len(held(stream)) == retained + 1


def test_a_clear_may_name_another_epoch_each_time_and_no_question_is_asked_for_ever() -> None:
    stream = Stream(Residents())
    batches = {
        number: encode(Batch(0.0, (AllBlocksCleared(epoch=str(number)), store(number)), 0)) for number in range(5)
    }

    def asked() -> bool:
        start = stream.ask()
        if start is None:
            return False
        for number in range(start, 5):
            stream.replayed(number, batches[number])
        stream.ended()
        return True

    while asked():
        assert stream.counters.restarts < 20
    stream.live(5, encode(Batch(0.0, (AllBlocksCleared(epoch="5"), store(5)), 0)))
    assert stream.asking
    while asked():
        assert stream.counters.restarts < 20
    assert held(stream) == {5}


def test_memory_is_bounded() -> None:
    stream = Stream(Residents(), remembered=10, buffered=20)
    answered(stream)
    for number in range(1000):
        stream.live(number, payload(number))
    assert len(stream._recent) == 10
    for number in range(2000, 2021):
        stream.live(number, payload(number))
    assert not stream._buffer
    assert stream.last == 2020
    assert stream.counters.given_up == 1
    stream.live(900, payload(900))  # long forgotten: read again rather than guess
    assert stream.ask() == 0
    assert stream.counters.restarts == 1


def life(function: Algorithm) -> list[bytes]:
    """A clear, and a block under the bare label, which does not say by which of two functions it is hashed."""
    state = next(hash_chain(function, [[1, 2, 3, 4]]))
    event = msgspec.structs.replace(
        store(0),
        block_hashes=(signed(state.hash or 0),),
        token_ids=(1, 2, 3, 4),
        block_size=4,
        hash_algo="v2_sha256_64",
    )
    return [encode(Batch(0.0, (AllBlocksCleared(),), 0)), encode(Batch(0.0, (event,), 0))]


def test_what_a_bare_label_means_is_open_again_where_the_life_is_open() -> None:
    stream = Stream(Residents())
    stream.ask()
    for number, batch in enumerate(life(ALGORITHMS["v2_sha256_64/u64"])):
        stream.replayed(number, batch)
    stream.ended()
    assert stream.residents.prefix([1, 2, 3, 4], "GPU") == 1
    stream.disconnected()
    stream.ask()
    stream.replayed(2, life(ALGORITHMS["v2_sha256_64/u32"])[1])
    stream.ended()
    assert stream.counters.restarts == 0
    assert stream.residents.prefix([1, 2, 3, 4], "GPU") == 1
