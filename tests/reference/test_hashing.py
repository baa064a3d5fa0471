"""Hashing against every known answer, against itself across the 4 KiB seam, and at the edges of its ranges."""

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvwire_reference import hashing as h

KNOWN = Path(__file__).parents[2] / "vectors" / "hash" / "known-answers.json"
DOCUMENT = json.loads(KNOWN.read_text())
ANSWERS: list[dict[str, Any]] = DOCUMENT["answers"]
WIDTHS: tuple[h.Width, ...] = (4, 8)


def number(answer: dict[str, Any], name: str) -> int | None:
    return int(answer[name]) if name in answer else None


def scope(answer: dict[str, Any]) -> dict[str, int | None]:
    return {"lora_id": number(answer, "lora_id"), "salt_id": number(answer, "salt_id")}


def last_state(answer: dict[str, Any]) -> h.ChainState:
    """Our answer about the last block, partial or full."""
    algorithm = h.ALGORITHMS[answer["algorithm"]]
    full, partial = h.split_blocks(answer["tokens"], answer["block_size"])
    state = algorithm.root(**scope(answer))
    if "parent" in answer:
        state = h.join(int(answer["parent"]), state.lora_id)
    for block in [*full, partial] if partial else full:
        state = algorithm.next(state, block)
    return state


def no_wrap(tokens: list[int], parent: int, salt_id: int | None) -> int:
    """The mistaken variant: `v1_block_key` without the 32-bit wrap, written out independently."""
    seed = len(tokens) ^ (parent * 0xBF58476D1CE4E5B9) % 2**64
    if parent == 0 and salt_id is not None:
        v = (salt_id ^ (salt_id >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        v = (v ^ (v >> 27)) * 0x94D049BB133111EB % 2**64
        v = (v ^ (v >> 31)) + 0x9E3779B9
        seed ^= (v + (seed << 6) + (seed >> 2)) % 2**64
    for token in tokens:
        v = ((token >> 16) ^ token) * 0x45D9F3B % 2**32
        v = ((v >> 16) ^ v) * 0x45D9F3B % 2**32
        v = ((v >> 16) ^ v) + 0x9E3779B9
        seed ^= (v + (seed << 6) + (seed >> 2)) % 2**64
    return seed


def own(answer: dict[str, Any]) -> bool:
    return answer["algorithm"] in h.ALGORITHMS


def ids(answers: list[dict[str, Any]]) -> list[str]:
    return [answer["id"] for answer in answers]


OWN = [answer for answer in ANSWERS if own(answer)]
MISTAKES = [answer for answer in ANSWERS if "mistake" in answer["flags"]]


def test_the_file_describes_itself() -> None:
    assert DOCUMENT["count"] == len(ANSWERS) == len({answer["id"] for answer in ANSWERS})
    assert DOCUMENT["spec_edition"] == "1"
    for answer in ANSWERS:
        expected = answer["expected"]
        assert expected.keys() <= {"unsigned", "signed", "key"}
        if "unsigned" in expected:
            assert h.signed(int(expected["unsigned"])) == int(expected["signed"])
            assert h.unsigned(int(expected["signed"])) == int(expected["unsigned"])


def test_every_answer_is_used() -> None:
    kinds = {"salt_id", "v2_sha256/root", *h.ALGORITHMS}
    for answer in ANSWERS:
        assert answer["algorithm"] in kinds or {"mistake", "foreign"} & set(answer["flags"]), answer["id"]


@pytest.mark.parametrize("answer", OWN, ids=ids(OWN))
def test_known_answer(answer: dict[str, Any]) -> None:
    state, expected = last_state(answer), answer["expected"]
    assert state.hash == int(expected["unsigned"])
    if "key" in expected:
        assert state.key == bytes.fromhex(expected["key"])


@pytest.mark.parametrize("answer", [a for a in ANSWERS if a["algorithm"] == "v2_sha256/root"], ids=str)
def test_known_root_key(answer: dict[str, Any]) -> None:
    assert h.root_key(**scope(answer)).hex() == answer["expected"]["key"]


def test_known_salt_id() -> None:
    (answer,) = (a for a in ANSWERS if a["algorithm"] == "salt_id")
    assert h.salt_id(answer["salt"]) == int(answer["expected"]["unsigned"])


@pytest.mark.parametrize("answer", MISTAKES, ids=ids(MISTAKES))
def test_known_mistake_is_not_ours(answer: dict[str, Any]) -> None:
    parent, salt = number(answer, "parent") or 0, number(answer, "salt_id")
    expected = int(answer["expected"]["unsigned"])
    assert no_wrap(answer["tokens"], parent, salt) == expected
    assert h.v1_block_hash(answer["tokens"], parent=parent, salt_id=salt) != expected


@pytest.mark.parametrize(
    ("key", "tag"), [(None, "5e40b1feca4586cb"), (b"k", "e48b7fa0fb96a5e4")], ids=["no key", "deployment key"]
)
def test_the_scope_tag_of_the_standard(key: bytes | None, tag: str) -> None:
    assert h.scope_tag("tenant-a", key) == tag
    assert h.scope_tag("tenant-b", key) != tag
    assert h.scope_tag("", key) != h.scope_tag("\0", key)


def test_sglang_is_our_chain_without_a_root() -> None:
    """Known answers that none of us computed, on inputs that our own rows do not cover."""
    for answer in (a for a in ANSWERS if a["algorithm"] == "x-sglang-sha256" and "salt" not in a):
        blocks, _ = h.split_blocks(answer["tokens"], answer["block_size"])
        key = hashlib.sha256(b"".join(int(t).to_bytes(4, "little") for t in blocks[0])).digest()
        for block in blocks[1:]:
            key = h.block_key(key, block, 4)
        assert h.truncate_first(key) == int(answer["expected"]["unsigned"])


# --- batched against token-wise ---------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("size", [1, 4, 511, 512, 513, 1023, 1024, 1025, 2048])
def test_batches_change_nothing_at_the_seam(width: h.Width, size: int) -> None:
    rng = random.Random(size * width)
    parent = h.root_key(salt_id=size)
    tokens: list[h.Token] = [rng.randrange(2**31) for _ in range(size)]
    assert h.block_key(parent, tokens, width) == h.block_key_tokenwise(parent, tokens, width)
    for place in {place for place in (0, 510, 511, 512, 513, 1022, 1023, 1024, 1025, size - 1) if place < size}:
        mixed = [*tokens[:place], rng.randbytes(32), *tokens[place + 1 :]]
        assert h.block_key(parent, mixed, width) == h.block_key_tokenwise(parent, mixed, width)
    digests: list[h.Token] = [rng.randbytes(32) for _ in range(size)]
    assert h.block_key(parent, digests, width) == h.block_key_tokenwise(parent, digests, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_batches_change_nothing_on_a_thousand_random_chains(width: h.Width) -> None:
    rng = random.Random(width)
    for number_of_chain in range(1000):
        size = rng.choice((3, 17, 64, 511, 512, 513)) if number_of_chain % 20 else rng.choice((1023, 1024, 1025, 2048))
        lora, salt = rng.choice((None, 0, 7)), rng.choice((None, 0, 2**64 - 1))
        blocks: list[list[h.Token]] = [
            [rng.randbytes(32) if rng.random() < 0.01 else rng.getrandbits(31) for _ in range(size)]
            for _ in range(rng.randint(1, 3))
        ]
        key, expected = h.root_key(lora, salt), []
        for block in blocks:
            key = h.block_key_tokenwise(key, block, width)
            expected.append(key)
        assert h.v2_chain(blocks, width=width, lora_id=lora, salt_id=salt) == expected


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 2**31 - 1), st.binary(min_size=32, max_size=32)), max_size=40),
    st.sampled_from(WIDTHS),
)
def test_key_is_sha256_of_the_plain_concatenation(tokens: list[h.Token], width: h.Width) -> None:
    parent = h.root_key()
    plain = parent + b"".join(t if isinstance(t, bytes) else t.to_bytes(width, "little") for t in tokens)
    assert h.block_key(parent, tokens, width) == hashlib.sha256(plain).digest()


# --- chains and scopes ------------------------------------------------------------------------------------


def test_whole_chains_agree_with_block_by_block() -> None:
    blocks = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    for lora, salt in ((None, None), (0, None), (None, 0), (7, 123)):
        v1 = [state.hash for state in h.hash_chain(h.ALGORITHMS["v1_block_key"], blocks, lora_id=lora, salt_id=salt)]
        assert v1 == h.v1_chain(blocks, lora_id=lora, salt_id=salt)
        for width in WIDTHS:
            keys = h.v2_chain(blocks, width=width, lora_id=lora, salt_id=salt)
            for label, cut in (("v2_sha256_64", h.truncate_first), ("v2_sha256_low64", h.truncate_last)):
                algorithm = h.ALGORITHMS[f"{label}/u{8 * width}"]
                states = list(h.hash_chain(algorithm, blocks, lora_id=lora, salt_id=salt))
                assert [state.key for state in states] == keys
                assert [state.hash for state in states] == [cut(key) for key in keys]


@pytest.mark.parametrize("label", h.ALGORITHMS)
def test_scopes_are_namespaces(label: str) -> None:
    scopes = [(None, None), (0, None), (None, 0), (0, 0), (7, None), (None, 7), (7, 7)]
    chains = [
        tuple(s.hash for s in h.hash_chain(h.ALGORITHMS[label], [[1, 2], [3, 4]], lora_id=lora, salt_id=salt))
        for lora, salt in scopes
    ]
    assert len({value for chain in chains for value in chain}) == 2 * len(scopes)


def test_v1_mixes_the_salt_into_first_blocks_only_and_lora_into_all() -> None:
    assert h.v1_block_hash([5, 6], parent=9, salt_id=1) == h.v1_block_hash([5, 6], parent=9)
    assert h.v1_block_hash([5, 6], parent=9, lora_id=1) != h.v1_block_hash([5, 6], parent=9)


@pytest.mark.parametrize("offset", [0, 1, 2**64 - 1])
def test_v1_mixes_a_multimodal_key_as_eight_words_and_an_offset(offset: int) -> None:
    """A key is mixed as eight more tokens and one more id would be, but for the length in the seed."""
    item = bytes(range(32))
    words = [int.from_bytes(item[at : at + 4], "little") for at in range(0, 32, 4)]
    parent = (10 ^ 2) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64  # turns the length 10 into 2
    assert h.v1_block_hash([1, 2], mm_keys=[(item, offset)]) == h.v1_block_hash(
        [1, 2, *words], parent=parent, lora_id=offset
    )


def test_v1_keeps_the_order_of_keys_and_counts_an_extra_id_of_zero() -> None:
    first, second = (bytes(32), 0), (bytes(32), 1)
    assert h.v1_block_hash([1], mm_keys=[first, second]) != h.v1_block_hash([1], mm_keys=[second, first])
    assert h.v1_block_hash([1], extra_ids=[0]) == h.v1_block_hash([1], lora_id=0) != h.v1_block_hash([1])
    state = h.ALGORITHMS["v1_block_key"].root()
    with_key = h.ALGORITHMS["v1_block_key"].next(state, [1], [first])
    assert with_key.hash == h.v1_block_hash([1], mm_keys=[first])


@pytest.mark.parametrize("width", WIDTHS)
def test_v1_falls_back_from_a_digest_on(width: h.Width) -> None:
    item = h.digest_tokens(bytes(range(32)), 5, 32000)
    tokens: list[h.Token] = [1, 2, 3, 4, 5, 6, 7, *item, *range(8, 20)]
    blocks, partial = h.split_blocks(tokens, 4)
    assert not partial
    v1 = next(a for a in h.candidates("v1_block_key") if a.width == width)
    states = list(h.hash_chain(v1, blocks, salt_id=5))
    keys = h.v2_chain(blocks, width=width, salt_id=5)
    text = h.v1_chain(blocks[:1], salt_id=5)
    assert [state.hash for state in states] == [*text, *(h.truncate_first(key) for key in keys[1:])]
    assert [state.fallback for state in states] == [False, *[True] * 5]
    assert [state.key for state in states] == keys


def test_an_unknown_key_stays_unknown() -> None:
    block: list[h.Token] = [1, 2, 3, 4]
    v1, v2 = h.ALGORITHMS["v1_block_key"], h.ALGORITHMS["v2_sha256_64/u32"]
    parent = h.join(-5)
    assert parent.hash == 2**64 - 5
    assert v2.next(parent, block).hash is None
    assert v2.next(v2.next(parent, block), block).hash is None
    assert v1.next(parent, block).hash == h.v1_block_hash(block, parent=2**64 - 5)
    after_digest = v1.next(v1.next(parent, [bytes(32), 2, 3, 4]), block)
    assert after_digest.hash is None
    assert after_digest.fallback


def test_labels() -> None:
    assert [a.label for a in h.candidates("v2_sha256_64")] == ["v2_sha256_64/u32", "v2_sha256_64/u64"]
    assert [a.width for a in h.candidates("v1_block_key")] == [4, 8]
    assert h.candidates("v2_sha256_low64/u64") == (h.ALGORITHMS["v2_sha256_low64/u64"],)
    assert h.candidates("opaque") == h.candidates("v2_sha256") == ()


def test_digest_tokens_and_blocks() -> None:
    digest = bytes(32)
    assert h.digest_tokens(digest, 3, 100) == [digest, 101, 102]
    assert h.digest_tokens(digest, 1, 2**32 - 1) == [digest]
    assert h.split_blocks([1, 2, 3, 4, 5], 2) == ([[1, 2], [3, 4]], [5])
    assert h.split_blocks([], 2) == ([], [])


def test_width_has_no_framing() -> None:
    """At 8 bytes a token t is t, 0 at 4: why the width must be known, and constant."""
    parent = h.root_key()
    assert h.block_key(parent, [7, 9], 8) == h.block_key(parent, [7, 0, 9, 0], 4)


# --- ranges -----------------------------------------------------------------------------------------------

ROOT = h.root_key()


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: h.block_key(ROOT, [1, 2**31], 4), h.RangeError, r"tokens\[1\]: 2147483648 is outside 0…2147483647"),
        (lambda: h.block_key_tokenwise(ROOT, [2**31], 4), h.RangeError, r"tokens\[0\]: 2147483648"),
        (lambda: h.block_key(ROOT, [2**32], 8), h.RangeError, r"tokens\[0\]: 4294967296 is outside 0…4294967295"),
        (lambda: h.block_key(ROOT, [*[1] * 600, -1], 8), h.RangeError, r"tokens\[600\]: -1 is outside"),
        (lambda: h.block_key(ROOT, [1, bytes(31)], 4), h.RangeError, r"tokens\[1\]: 31 bytes"),
        (lambda: h.block_key(ROOT, [bytes(32), -1], 4), h.RangeError, r"tokens\[1\]: -1"),
        (lambda: h.block_key(ROOT, [1.0], 4), TypeError, r"tokens\[0\]: 1.0 is not an integer"),  # type: ignore[list-item]
        (lambda: h.block_key(ROOT[:31], [1], 4), h.RangeError, "parent_key: 31 bytes"),
        (lambda: h.block_key("x" * 32, [1], 4), TypeError, "parent_key"),  # type: ignore[arg-type]
        (lambda: h.truncate_first(b""), h.RangeError, "key: 0 bytes"),
        (lambda: h.truncate_last(b""), h.RangeError, "key: 0 bytes"),
        (lambda: h.root_key(lora_id=2**64), h.RangeError, "lora_id: 18446744073709551616 is outside"),
        (lambda: h.root_key(salt_id=-1), h.RangeError, "salt_id: -1 is outside 0…18446744073709551615"),
        (lambda: h.v1_block_hash([1, 2**32]), h.RangeError, r"tokens\[1\]: 4294967296 is outside 0…4294967295"),
        (lambda: h.v1_block_hash([1, -1]), h.RangeError, r"tokens\[1\]: -1"),
        (lambda: h.v1_block_hash([bytes(32)]), TypeError, r"tokens\[0\].* is not an integer"),
        (lambda: h.v1_block_hash([1], parent=-1), h.RangeError, "parent: -1 is outside"),
        (lambda: h.v1_block_hash([1], lora_id=-1), h.RangeError, "lora_id: -1"),
        (lambda: h.v1_block_hash([1], salt_id=True), TypeError, "salt_id: True"),
        (lambda: h.v1_block_hash([1], extra_ids=[1, 2]), h.RangeError, "extra_ids: 2 ids given for 1 tokens"),
        (lambda: h.v1_block_hash([1], extra_ids=[2**64]), h.RangeError, r"extra_ids\[0\]"),
        (lambda: h.v1_block_hash([1], mm_keys=[(b"", 0)]), h.RangeError, r"mm_keys\[0\].hash"),
        (lambda: h.v1_block_hash([1], mm_keys=[(bytes(32), -1)]), h.RangeError, r"mm_keys\[0\].start_offset"),
        (lambda: h.signed(2**64), h.RangeError, "value: 18446744073709551616 is outside 0…"),
        (lambda: h.signed(-1), h.RangeError, "value: -1"),
        (lambda: h.unsigned(2**64), h.RangeError, "value"),
        (lambda: h.unsigned(-(2**63) - 1), h.RangeError, "value: -9223372036854775809 is outside -9223372036854775808"),
        (lambda: h.digest_tokens(bytes(32), 0, 5), h.RangeError, "n: 0"),
        (lambda: h.digest_tokens(bytes(32), 2, 2**32 - 1), h.RangeError, "id_offset"),
        (lambda: h.split_blocks([1], 0), h.RangeError, "block_size: 0"),
    ],
)
def test_range_errors_name_argument_value_and_range(
    call: Callable[[], object], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        call()


def test_v1_takes_every_32_bit_token_at_either_width() -> None:
    for algorithm in h.candidates("v1_block_key"):
        assert algorithm.next(algorithm.root(), [2**32 - 1]).hash == h.v1_block_hash([2**32 - 1])


def test_hashing_needs_the_standard_library_only() -> None:
    code = (
        "import sys, kvwire_reference.hashing;"
        "sys.exit(any(name.split('.')[0] in ('zmq', 'msgspec', 'kvwire') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("key", "tag"), [(None, "5e40b1feca4586cb"), (b"k", "e48b7fa0fb96a5e4")])
def test_scope_tags_of_the_standard(key: bytes | None, tag: str) -> None:
    assert h.scope_tag("tenant-a", key) == tag
