"""Tables of what is resident: places, functions by label, and prefixes."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kvwire_reference import hashing as h
from kvwire_reference.residents import Place, Residents
from kvwire_reference.wire import AllBlocksCleared, Batch, BlockRemoved, BlockStored, Event, MmKey, signed

TOKENS = list(range(1000, 1012))
DIGEST = bytes(range(32))
U32, U64 = h.ALGORITHMS["v2_sha256_64/u32"], h.ALGORITHMS["v2_sha256_64/u64"]
V1 = h.ALGORITHMS["v1_block_key"]


def store(
    algorithm: h.Algorithm, tokens: Sequence[h.Token], *, lora: int | None = None, salt: int | None = None, **more: Any
) -> BlockStored:
    """A chain of blocks of four tokens, hashed by `algorithm`, as one event."""
    blocks, _ = h.split_blocks(tokens, 4)
    states = h.hash_chain(algorithm, blocks, lora_id=lora, salt_id=salt)
    fields: dict[str, Any] = {"medium": "GPU", "hash_algo": algorithm.label, **more}
    return BlockStored(
        block_hashes=tuple(signed(state.hash) for state in states if state.hash is not None),
        parent_block_hash=None,
        token_ids=tuple(t.hex() if isinstance(t, bytes) else t for t in tokens),
        block_size=4,
        lora_id=lora,
        lora_name=None,
        **fields,
    )


def taken(*events: Event, algorithm: str | None = None) -> Residents:
    residents = Residents(algorithm)
    residents.apply(Batch(0.0, events, 0))
    return residents


def plain(*values: int, medium: str | None = "GPU", **more: Any) -> BlockStored:
    return BlockStored(
        block_hashes=values,
        parent_block_hash=7,
        token_ids=(1,) * len(values),
        block_size=1,
        lora_id=None,
        medium=medium,
        lora_name=None,
        **more,
    )


def gone(*values: int, medium: str | None = "GPU", **more: Any) -> BlockRemoved:
    return BlockRemoved(block_hashes=values, medium=medium, **more)


def moved(*values: int) -> BlockStored:
    """A location update: keys that are also in host memory."""
    return msgspec.structs.replace(plain(*values, medium="CPU"), parent_block_hash=None, token_ids=(), block_size=0)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([plain(1, 2), gone(1)], {(None, "GPU", 0): {2}}),
        ([plain(-1), gone(2**64 - 1)], {}),
        ([plain(1), gone(1, medium="CPU")], {(None, "GPU", 0): {1}}),
        ([plain(1), gone(1, medium="gpu")], {(None, "GPU", 0): {1}}),
        ([plain(1), gone(1, medium=None)], {(None, "GPU", 0): {1}}),
        ([plain(1, medium=None), gone(1, medium=None)], {}),
        ([plain(1, medium="x-tape")], {(None, "x-tape", 0): {1}}),
        ([plain(1), plain(1, medium="CPU"), gone(1)], {(None, "CPU", 0): {1}}),
        ([plain(1, group_idx=1), gone(1)], {(None, "GPU", 1): {1}}),
        ([plain(1, group_idx=1), gone(1, group_idx=1)], {}),
        ([plain(1), gone(1, group_idx=0)], {}),
        ([plain(1, group_idx=1), plain(2, medium="CPU"), AllBlocksCleared()], {}),
        ([AllBlocksCleared(), plain(1)], {(None, "GPU", 0): {1}}),
        ([gone(5)], {}),
        ([plain(1, hash_algo="a"), plain(2, hash_algo="b")], {("a", "GPU", 0): {1}, ("b", "GPU", 0): {2}}),
        ([plain(1, hash_algo="a"), gone(1)], {}),
        ([plain(1, locality="LOCAL"), gone(1)], {(None, "GPU", 0, "LOCAL"): {1}}),
        ([plain(1, locality="REMOTE"), gone(1, locality="REMOTE")], {}),
        ([plain(1), plain(1, ownership="shared"), gone(1)], {(None, "GPU", 0, None, "shared"): {1}}),
        ([plain(1, ownership="shared"), gone(1, ownership="shared")], {}),
        ([plain(1), plain(1), gone(1)], {}),
        ([plain(1), plain(2, medium="CPU"), AllBlocksCleared(medium="CPU")], {(None, "GPU", 0): {1}}),
        ([plain(1), plain(2, medium=None), AllBlocksCleared(medium=None)], {(None, "GPU", 0): {1}}),
        ([plain(1), plain(1, group_idx=1), AllBlocksCleared(medium="GPU")], {}),
        (
            [plain(1), plain(2, ownership="shared"), AllBlocksCleared(ownership=None)],
            {(None, "GPU", 0, None, "shared"): {2}},
        ),
        (
            [
                plain(1, ownership="x"),
                plain(2, medium="CPU", ownership="x"),
                plain(3, medium="CPU"),
                AllBlocksCleared(medium="CPU", ownership="x"),
            ],
            {(None, "GPU", 0, None, "x"): {1}, (None, "CPU", 0): {3}},
        ),
        ([plain(1), moved(1, 2)], {(None, "GPU", 0): {1}, (None, "CPU", 0): {1, 2}}),
        ([moved(1, 2), gone(1, medium="CPU")], {(None, "CPU", 0): {2}}),
    ],
)
def test_places(events: list[Event], expected: dict[Any, set[int]]) -> None:
    assert taken(*events).tables() == {Place(*place): frozenset(table) for place, table in expected.items()}


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([plain(1), plain(1), gone(1)], {1}),
        ([plain(1), plain(1), gone(1), gone(1)], set()),
        ([plain(1), plain(1, medium="CPU"), gone(1)], set()),
        ([plain(1), plain(1), AllBlocksCleared(medium="GPU"), plain(1), gone(1)], set()),
        ([plain(1), plain(1), AllBlocksCleared(), plain(1), gone(1)], set()),
        ([gone(1), plain(1), gone(1)], set()),
    ],
)
def test_under_counted_residency_each_copy_goes_by_itself(events: list[Event], left: set[int]) -> None:
    residents = Residents(counted=True)
    residents.apply(Batch(0.0, tuple(events), 0))
    assert residents.tables().get(Place(None, "GPU", 0), frozenset()) == left


def test_a_clear_that_names_locations_says_nothing_about_the_others() -> None:
    residents = taken(plain(1), AllBlocksCleared(medium="CPU"))
    assert not residents.complete
    residents.apply(Batch(0.0, (AllBlocksCleared(), plain(1), AllBlocksCleared(medium="CPU")), 0))
    assert residents.complete


def test_what_is_absent_is_known_only_when_complete() -> None:
    residents = taken(plain(1))
    known = [residents.complete]
    residents.apply(Batch(0.0, (AllBlocksCleared(), plain(2)), 0))
    known.append(residents.complete)
    residents.forget()
    assert residents.tables() == {}
    known.append(residents.complete)
    residents.begin()
    known.append(residents.complete)
    assert known == [False, True, False, True]


@pytest.mark.parametrize("label", h.ALGORITHMS)
def test_prefix_by_announced_function(label: str) -> None:
    algorithm = h.ALGORITHMS[label]
    residents = taken(store(algorithm, TOKENS))
    assert residents.functions() == h.candidates(label)
    assert residents.prefix([*TOKENS, 1, 2], "GPU") == 3
    assert residents.prefix([*TOKENS[:4], 9, *TOKENS[5:]], "GPU") == 1
    assert residents.prefix(TOKENS[:3], "GPU") == 0
    assert residents.prefix(TOKENS, "CPU") == residents.prefix(TOKENS, None) == 0
    assert residents.prefix(TOKENS, "GPU", group=1) == 0
    assert residents.prefix(TOKENS, "GPU", lora_id=0) == residents.prefix(TOKENS, "GPU", salt_id=0) == 0


@pytest.mark.parametrize("label", h.ALGORITHMS)
def test_prefix_in_a_scope(label: str) -> None:
    residents = taken(store(h.ALGORITHMS[label], TOKENS, lora=7, salt=123))
    assert residents.prefix(TOKENS, "GPU", lora_id=7, salt_id=123) == 3
    assert residents.prefix(TOKENS, "GPU", lora_id=7) == 0
    assert residents.prefix(TOKENS, "GPU") == 0


@pytest.mark.parametrize("width", ["u32", "u64"])
def test_a_bare_label_settles_on_the_width_that_reproduces_a_root_block(width: str) -> None:
    function = h.ALGORITHMS[f"v2_sha256_64/{width}"]
    salted = store(function, TOKENS, salt=5, hash_algo="v2_sha256_64")
    residents = taken(salted)
    assert len(residents.functions()) == 2
    assert residents.prefix(TOKENS, "GPU", salt_id=5) == 3
    residents.apply(Batch(0.0, (store(function, TOKENS, lora=0, hash_algo="v2_sha256_64"),), 0))
    assert residents.functions() == (function,)
    residents.apply(Batch(0.0, (salted,), 0))
    assert residents.functions() == (function,)


def test_a_scope_tag_tells_what_is_of_another_scope() -> None:
    salt = "tenant-a"
    tag = h.scope_tag(salt)
    event = store(U32, TOKENS, salt=h.salt_id(salt), scope=tag)
    residents = taken(event)
    assert tally(residents) == (0, 0, 0, None), "its salt is known to be one, and not known"
    assert residents.prefix(TOKENS, "GPU", salt=salt) == 3
    assert residents.prefix(TOKENS, "GPU", salt_id=h.salt_id(salt), scope=tag) == 3
    assert residents.prefix(TOKENS, "GPU", salt_id=h.salt_id(salt), scope=h.scope_tag("tenant-b")) == 0
    assert residents.prefix(TOKENS, "GPU", salt="tenant-b") == residents.prefix(TOKENS, "GPU") == 0
    untagged = taken(store(U32, TOKENS, salt=h.salt_id(salt)))
    assert untagged.prefix(TOKENS, "GPU", salt=salt) == 3, "a stream that has no tags"


def test_a_tag_under_a_deployment_key_is_given_by_the_caller() -> None:
    residents = taken(store(U32, TOKENS, salt=h.salt_id("tenant-a"), scope=h.scope_tag("tenant-a", b"k")))
    assert residents.prefix(TOKENS, "GPU", salt="tenant-a") == 0
    assert residents.prefix(TOKENS, "GPU", salt="tenant-a", scope=h.scope_tag("tenant-a", b"k")) == 3


def test_an_adapter_is_its_name_and_an_equal_id_on_two_streams_says_nothing() -> None:
    def of(name: str) -> Residents:
        return taken(msgspec.structs.replace(store(U32, TOKENS, lora=7), lora_name=name))

    first, second = of("summaries"), of("poems")
    assert [one.prefix(TOKENS, "GPU", lora_name="poems") for one in (first, second)] == [0, 3]
    assert first.prefix(TOKENS, "GPU", lora_name="unheard of") == 0
    assert first.prefix(TOKENS, "GPU", lora_id=7) == 3
    first.restart()
    assert first.prefix(TOKENS, "GPU", lora_name="summaries") == 0, "the next life may number its adapters anew"


def test_a_partial_entry_leaves_the_block_size_of_its_group() -> None:
    partial = msgspec.structs.replace(store(U32, TOKENS[:2]), block_size=2, parent_block_hash=99, block_hashes=(5,))
    for events in ((store(U32, TOKENS), partial), (partial, store(U32, TOKENS))):
        residents = taken(*events)
        assert residents.prefix(TOKENS, "GPU") == 3
        assert residents.tables()[Place(U32.label, "GPU", 0)] > {5}
    at_root = msgspec.structs.replace(partial, parent_block_hash=None)
    assert tally(taken(store(U32, TOKENS), at_root)) == (1, 0, 0, True)


def test_a_location_update_is_found_once_the_stream_tells_its_function() -> None:
    event = store(U32, TOKENS)
    residents = taken(event, moved(*event.block_hashes[:2]))
    assert residents.prefix(TOKENS, "CPU") == 2
    assert residents.prefix(TOKENS, "GPU") == 3


def test_locations_are_looked_up_one_by_one() -> None:
    residents = taken(store(U32, TOKENS, ownership="pool", locality="REMOTE"))
    assert residents.prefix(TOKENS, "GPU") == 0
    assert residents.prefix(TOKENS, "GPU", ownership="pool", locality="REMOTE") == 3


def test_a_bare_label_settles_on_tokens_that_one_width_does_not_take() -> None:
    function = h.ALGORITHMS["v2_sha256_64/u64"]
    residents = taken(store(function, [2**31, 1, 2, 3], hash_algo="v2_sha256_64"))
    assert residents.functions() == (function,)


@pytest.mark.parametrize("width", [4, 8])
def test_v1_settles_its_fallback_width_on_a_digest(width: int) -> None:
    v1 = next(a for a in h.candidates("v1_block_key") if a.width == width)
    residents = taken(store(v1, TOKENS))
    assert len(residents.functions()) == 2
    picture: list[h.Token] = [1, *h.digest_tokens(DIGEST, 4, 32000), 9, 9, 9]
    event = store(v1, picture, mm_keys=((MmKey(DIGEST.hex(), 0),), (MmKey(DIGEST.hex(), 3),)))
    residents.apply(Batch(0.0, (event,), 0))
    assert residents.functions() == (v1,)
    assert residents.prefix(picture, "GPU") == 2


def test_a_declared_function_serves_until_one_is_announced() -> None:
    u32, u64 = h.ALGORITHMS["v2_sha256_64/u32"], h.ALGORITHMS["v2_sha256_64/u64"]
    residents = taken(store(u32, TOKENS, hash_algo=None), algorithm=u32.label)
    assert residents.prefix(TOKENS, "GPU") == 3
    residents.apply(Batch(0.0, (store(u64, TOKENS),), 0))
    assert residents.algorithm == u64.label
    assert residents.prefix(TOKENS, "GPU") == 3
    assert {place.algorithm for place in residents.tables()} == {u32.label, u64.label}


@pytest.mark.parametrize("label", [None, "opaque", "v2_sha256", "x-sglang-sha256"])
def test_an_unknown_function_matches_no_prompt(label: str | None) -> None:
    residents = taken(store(h.ALGORITHMS["v1_block_key"], TOKENS, hash_algo=label))
    assert residents.functions() == ()
    assert residents.prefix(TOKENS, "GPU") == 0
    assert sum(map(len, residents.tables().values())) == 3


def tally(residents: Residents) -> tuple[int, int, int, bool | None]:
    return residents.reproduced, residents.mismatched, residents.unexplained, residents.reproduces


@pytest.mark.parametrize(
    ("label", "computed"),
    [
        ("v2_sha256_64/u32", "v2_sha256_64/u64"),
        ("v1_block_key", "v2_sha256_64/u32"),
        ("v2_sha256_64", "v1_block_key"),
        ("v2_sha256_64", "v2_sha256_low64/u32"),
    ],
)
@pytest.mark.parametrize("announced", [True, False])
def test_a_function_other_than_the_one_announced_or_declared_is_noticed(
    label: str, computed: str, announced: bool
) -> None:
    event = store(h.ALGORITHMS[computed], TOKENS, hash_algo=label if announced else None)
    residents = taken(event, algorithm=None if announced else label)
    assert residents.prefix(TOKENS, "GPU") == 0
    assert tally(residents) == (0, 1, 0, False)


def test_a_salted_scope_is_neither_for_nor_against_a_function() -> None:
    residents = taken(store(U32, TOKENS, salt=5))
    assert tally(residents) == (0, 0, 1, None)
    residents.apply(Batch(0.0, (store(U32, TOKENS, lora=7),), 0))
    assert tally(residents) == (1, 0, 1, True)
    residents.apply(Batch(0.0, (store(U64, TOKENS),), 0))
    assert residents.reproduces is True, "another label is another function"


def test_descendants_that_do_not_follow_from_their_root_are_noticed() -> None:
    event = store(U32, TOKENS)
    cut = msgspec.structs.replace(event, block_hashes=(event.block_hashes[0], 7, event.block_hashes[2]))
    assert tally(taken(cut)) == (0, 1, 0, False)
    assert tally(taken(event)) == (1, 0, 0, True)


@pytest.mark.parametrize(
    "more",
    [
        {"parent_block_hash": 7},
        {"extra_keys": (("x",), None, None)},
        {"mm_keys": ((MmKey(DIGEST.hex(), 0),), (), ())},
        {"token_ids": (1, 2, 3)},
        {"hash_algo": "opaque"},
        {"hash_algo": None},
    ],
    ids=["no root", "extra keys", "digest not in clear", "no tokens", "opaque", "no function"],
)
def test_what_cannot_be_recomputed_is_not_counted(more: dict[str, Any]) -> None:
    event = msgspec.structs.replace(store(U64, TOKENS, hash_algo=U32.label), **more)
    assert tally(taken(event)) == (0, 0, 0, None)


def test_what_was_learnt_of_an_incarnation_ends_with_it() -> None:
    bare = "v2_sha256_64"
    residents = taken(store(U64, TOKENS, hash_algo=bare), algorithm=V1.label)
    assert (residents.functions(), residents.reproduces) == ((U64,), True)
    residents.forget()
    assert residents.functions() == (U64,), "a hole is no new incarnation"
    residents.restart()
    assert (residents.algorithm, residents.reproduces, residents.complete) == (V1.label, None, False)
    residents.apply(Batch(0.0, (store(U32, TOKENS, hash_algo=bare),), 0))
    assert residents.functions() == (U32,)
    assert residents.prefix(TOKENS, "GPU") == 3


def test_odd_events_do_no_harm() -> None:
    """A consumer meets what a publisher must not send: no tokens, a block size of 0, no hashes."""
    odd = store(h.ALGORITHMS["v2_sha256_64/u32"], TOKENS, hash_algo="v2_sha256_64")
    for size, tokens, hashes in (
        (0, (), (1,)),
        (4, (), (1,)),
        (4, (1,), ()),
        (-1, (1, 2), (1,)),
        (1, ("no digest",), (1,)),
        (1, ("abcd",), (1,)),
        (1, (-1,), (1,)),
    ):
        event = BlockStored(
            block_hashes=hashes,
            parent_block_hash=None,
            token_ids=tokens,
            block_size=size,
            lora_id=None,
            medium="GPU",
            lora_name=None,
            hash_algo="v2_sha256_64",
        )
        residents = taken(event)
        assert len(residents.functions()) == 2
        assert residents.prefix(TOKENS, "GPU") == 0
        residents.apply(Batch(0.0, (odd,), 0))
        assert residents.prefix(TOKENS, "GPU") == 3
