"""Wire vectors: projections by a second decoder, every encoding, exactly one fault, and what consumers do."""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec
import pytest

from kvwire.standard import schemas
from kvwire.vectors import access
from kvwire.vectors.model import Test, WireExpected, WireFile, WireInput
from kvwire.wire import dialect
from kvwire.wire.projection import plain_event, read_float
from kvwire_generators import consumers, corpus
from kvwire_generators.wire import msgpack_forms
from kvwire_reference import wire as reference

NAMES = [name for name in access.names() if name.startswith("wire/")]
FILES: dict[str, WireFile] = {name: cast("WireFile", access.load(name)) for name in NAMES}
WireTest = Test[WireInput, WireExpected]
EDITION = [*FILES["wire/valid"].tests, *FILES["wire/encodings"].tests]
BAD = [*FILES["wire/invalid"].tests, *FILES["wire/legacy"].tests]
FOUND = [*FILES["wire/corpus"].tests, *FILES["wire/captured"].tests]

SHOULD = {"hash-unsigned", "hash-zero", "medium-name"}
"""What the harness calls a flaw and the standard a SHOULD."""
CODES: dict[str, set[str]] = {
    "truncated": {"msgpack"},
    "reserved-byte": {"msgpack"},
    "trailing-bytes": {"trailing"},
    "not-utf-8": set(),
    "not-an-array": {"batch", "hidden"},
    "batch-length": {"batch", "hidden"},
    "ts-type": {"ts-type"},
    "ts-range": {"ts-finite"},
    "events-type": {"events"},
    "rank-type": {"rank"},
    "rank-range": {"rank"},
    "event-type": {"not-a-map"},
    "no-type": {"untagged"},
    "type-not-string": {"untagged"},
    "key-not-string": {"key-not-string"},
    "key-twice": {"key-twice"},
    "ext": {"ext"},
    "key-missing": {"missing-key"},
    "hashes-type": {"hash-type"},
    "hash-type": {"hash-type"},
    "tokens-type": {"token"},
    "token-type": {"token"},
    "token-range": {"token"},
    "digest-string": {"token"},
    "mm-keys-missing": {"mm-missing"},
    "mm-keys-count": {"mm-missing"},
    "mm-keys-type": {"mm-missing"},
    "mm-key-type": {"mm-key"},
    "mm-key-content": set(),
    "extra-keys-type": {"extra-keys"},
    "extra-keys-count": {"extra-keys"},
    "scope-form": set(),
    "no-tokens": {"block-size", "length"},
    "token-count": {"length"},
    "no-hashes": {"length"},
    "block-size-type": {"block-size"},
    "block-size-range": {"block-size"},
    "medium-type": {"medium"},
    "medium-empty": {"medium"},
    "field-type": {"type"},
    "field-range": {"type"},
    "v-type": set(),
    "salt-in-clear": set(),
    "own-parent": set(),
    "hash-twice": set(),
    "announced-twice": set(),
}
"""Fault → what the harness's reader may say of the payload alone; more is a second fault."""
JUDGED_ELSEWHERE = {"wire-ts-negative", "wire-ts-milliseconds", "wire-ts-limit", "wire-token-2e31-u32"}
"""Faults that the harness's reader leaves to its judges."""
JSON_CANNOT_TELL = {
    "wire-ts-float32",
    "wire-key-nested",
    "wire-key-twice-nested",
    "wire-ext-unknown-key",
    "wire-ext-timestamp",
    "wire-ext-extra-keys",
    "wire-hash-string",
    "wire-parent-string",
    "wire-lora-id-string",
    "wire-digest-line-end",
    "wire-scope-line-end",
    "wire-ts-limit",
    "wire-batch-map",
    "wire-trailing-nil",
    "wire-trailing-batch",
    "wire-legacy-batch-map",
}
"""Payloads of the schema layer or below whose projection is that of a valid one: the bytes have to be looked at."""


DECLARED = {"block-size", "length"}
"""What the harness's reader says of a location update, which a publisher can declare."""


def codes(payload: str) -> set[str]:
    reading = dialect.read_slowly(bytes.fromhex(payload))
    return {flaw.code for flaw in (*reading.flaws, *(flaw for event in reading.events for flaw in event.flaws))}


# --- what is allowed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", EDITION, ids=lambda test: test.id)
def test_what_is_valid(test: WireTest) -> None:
    assert test.result == "valid"
    assert schemas.validate("batch", test.expected.projection) == []
    assert codes(test.input.payload) <= SHOULD | (DECLARED if "declared" in test.flags else set())
    reference.decode_lenient(bytes.fromhex(test.input.payload))


def plain(projected: Any) -> Any:
    """The value of a projected batch as plain Python values."""
    ts, events, rank = projected["ts"], projected["events"], projected["data_parallel_rank"]
    return [read_float(ts), [plain_event(event) for event in events], rank]


@pytest.mark.parametrize(
    "test",
    [t for t in EDITION if "key-unknown-hex" not in t.id and "key-unknown-int" not in t.id],
    ids=lambda test: test.id,
)
def test_a_second_decoder_reads_the_same(test: WireTest) -> None:
    wanted = plain(test.expected.projection)
    for payload in (test.input.payload, *test.input.encodings):
        assert msgspec.msgpack.decode(bytes.fromhex(payload)) == wanted


@pytest.mark.parametrize("test", FILES["wire/encodings"].tests, ids=lambda test: test.id)
def test_encodings_are_other_bytes(test: WireTest) -> None:
    every = (test.input.payload, *test.input.encodings)
    assert len(set(every)) == len(every) > 1
    for payload in test.input.encodings:
        assert codes(payload) == codes(test.input.payload)


def test_every_form_is_there() -> None:
    assert len(msgpack_forms.int_forms(0)) == 9
    assert len(msgpack_forms.int_forms(-1)) == 5
    assert len(msgpack_forms.int_forms(2**63)) == 1
    assert [len(msgpack_forms.array_heads(n)) for n in (15, 16, 65536)] == [3, 2, 1]
    assert [len(msgpack_forms.str_heads(n)) for n in (31, 32, 256, 65536)] == [4, 3, 2, 1]
    assert [len(msgpack_forms.map_heads(n)) for n in (15, 16)] == [3, 2]
    assert [len(msgpack_forms.bin_heads(n)) for n in (0, 256, 65536)] == [3, 2, 1]
    by_id = {test.id: test for test in EDITION}
    assert len(by_id["wire-encodings-hash-0"].input.encodings) == 9  # eight longer forms, and everything longest
    for value in (0, 127, 128, -1, -32, -33, 2**31, -(2**63), 2**64 - 1):
        for form in msgpack_forms.int_forms(value):
            assert msgspec.msgpack.decode(form) == value
    with pytest.raises(LookupError):
        list(msgpack_forms.variants([1], (7,)))


def test_every_shape_has_a_test() -> None:
    events = [event for test in FILES["wire/valid"].tests for event in test.expected.projection["events"]]
    keys = {key for event in events for key in event}
    assert keys >= set(schemas.load()["block-stored"]["properties"])
    assert {event["type"] for event in events} >= {"BlockStored", "BlockRemoved", "AllBlocksCleared"}
    for kind, schema in (("BlockRemoved", "block-removed"), ("AllBlocksCleared", "all-blocks-cleared")):
        for key in schemas.load()[schema]["properties"]:
            assert any(event["type"] == kind and key in event for event in events)


# --- what is not --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", BAD, ids=lambda test: test.id)
def test_exactly_its_faults(test: WireTest) -> None:
    faults = (test.expected.fault or "", *test.expected.also)
    allowed = set().union(*(CODES[fault] for fault in faults))
    found = codes(test.input.payload) - SHOULD
    assert found <= allowed
    if all(CODES[fault] for fault in faults) and test.id not in JUDGED_ELSEWHERE:
        assert found
    if not test.id.startswith("wire-legacy-"):
        assert test.expected.also == ()


@pytest.mark.parametrize("test", BAD, ids=lambda test: test.id)
def test_layers(test: WireTest) -> None:
    """Below the schema layer there may be no value, on it a schema refuses it, above it none does."""
    expected = test.expected
    if expected.layer == "msgpack" and expected.fault in ("truncated", "reserved-byte"):
        assert expected.projection is msgspec.UNSET
        return
    refused = expected.projection is msgspec.UNSET or bool(schemas.validate("batch", expected.projection))
    if expected.layer == "semantics":
        assert not refused or expected.fault in ("no-hashes", "token-count")
    else:
        assert refused != (test.id in JSON_CANNOT_TELL)


def test_each_fault_has_a_test_and_each_must_a_fault() -> None:
    broken = {requirement for test in BAD for requirement in test.requirements}
    assert {f"KVW-EVT-{n:03}" for n in (*range(1, 8), *range(10, 16), 21, *range(28, 32))} <= broken
    assert {"KVW-ENV-006", "KVW-BAT-001", "KVW-BAT-002", "KVW-BAT-003", "KVW-BAT-005", "KVW-RNK-001"} <= broken
    assert {test.expected.fault for test in BAD} == set(CODES)


def test_legacy_forms_are_recognised() -> None:
    for test in FILES["wire/legacy"].tests:
        assert test.expected.form is not None
        if test.expected.form.startswith("array-") or test.expected.form == "mixed":
            assert dialect.read_slowly(bytes.fromhex(test.input.payload)).form == test.expected.form


# --- from elsewhere -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", FOUND, ids=lambda test: test.id)
def test_classification_of_what_was_found(test: WireTest) -> None:
    faults = () if test.expected.fault is None else (test.expected.fault, *test.expected.also)
    found = codes(test.input.payload) - (DECLARED if "declared" in test.flags else set())
    assert found - SHOULD <= set().union(*(CODES[fault] for fault in faults))
    assert bool(found & SHOULD) == ("should" in test.flags)
    for fault in faults:
        assert not CODES[fault] or CODES[fault] & found
    assert (test.result == "valid") == (not faults)


def test_the_corpus_is_whole() -> None:
    tests = FILES["wire/corpus"].tests
    assert len(tests) == 120
    assert all(len(row.seen) == len(consumers.MATRIX) == 8 for row in corpus.corpus())
    captured = FILES["wire/captured"].tests
    assert sum("captured" in test.flags for test in captured) == 13
    assert sum("msgspec" in test.flags for test in captured) == 8


def test_consumers() -> None:
    file = consumers.build()
    known = {consumer.id for consumer in file.consumers}
    assert [observation.id for observation in file.observations] == [test.id for test in FILES["wire/corpus"].tests]
    for observation in file.observations:
        verdicts = [*observation.accepted, *observation.rejected, *observation.emptied, *observation.partly]
        assert len(set(verdicts)) == len(verdicts)
        assert known >= set(verdicts) >= {consumer.id for consumer in consumers.MATRIX}
    assert sum(o.accepted.count("llmd-vllm") for o in file.observations) == 75
    by_id = {observation.id: observation for observation in file.observations}
    assert by_id["corpus-08"].accepted == ()
    assert set(by_id["corpus-30"].accepted) == {consumer.id for consumer in consumers.MATRIX} | {"smg"}
    assert by_id["corpus-25"].emptied == ("llmd-vllm", "llmd-sglang")


def test_floats_are_what_they_say() -> None:
    for test in EDITION:
        ts = test.expected.projection["ts"]
        assert math.copysign(1, float(ts["float"])) == math.copysign(1, read_float(ts))
        assert float(ts["float"]) == read_float(ts)
