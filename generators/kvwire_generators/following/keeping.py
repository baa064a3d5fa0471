"""What events do to what is held: locations, groups, clears, ranks, policies, and what has to be put up with."""

from __future__ import annotations

from typing import Any

from kvwire.vectors.model import ConsumerStream, Group
from kvwire_generators.following.scripts import (
    ConsumerGroup,
    ConsumerTest,
    Event,
    cleared,
    moved,
    removed,
    scenario,
    stored,
)

Batch = list[Event] | bytes
WINDOW: dict[str, Any] = {"group_idx": 1, "kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 8}


def kept(
    slug: str, comment: str, holds: str, ids: str, *batches: Batch, sure: bool = True, **more: Any
) -> ConsumerTest:
    """A stream that is known from its leading clear on, and says this, batch by batch."""
    told = {f"a{n}": batch for n, batch in enumerate(([cleared()], *batches))}
    script = "; ".join(["back > 0", "end", *(f"live {name}" for name in told)])
    return scenario(slug, comment, script, holds, len(batches), *ids.split(), sure=sure, batches=told, **more)


def locations() -> list[ConsumerTest]:
    """Medium, locality, ownership."""
    key, clear = "RES-010", "RES-011"
    return [
        kept(
            "medium-removed",
            "a removal in one medium",
            "CPU b1",
            key,
            [stored("b1"), stored("b1", medium="CPU"), removed("b1")],
        ),
        kept(
            "medium-other",
            "a removal in a medium where the block is not",
            "b1",
            f"{key} RES-014",
            [stored("b1"), removed("b1", medium="CPU")],
        ),
        kept(
            "medium-unknown",
            "a medium that nobody knows is none of those that are known",
            "GPU b2 | x-tape b1",
            f"{key} EVT-027",
            [stored("b1", medium="x-tape"), stored("b2"), removed("b1", medium="GPU")],
        ),
        kept(
            "medium-case",
            "names are compared in their case",
            "gpu b1",
            f"{key} EVT-027",
            [stored("b1", medium="gpu"), removed("b1")],
        ),
        kept(
            "medium-nil",
            "the unspecified medium is none of the others",
            "nil b1",
            f"{key} EVT-027",
            [stored("b1", medium=None), removed("b1")],
        ),
        kept(
            "medium-nil-removed",
            "and has removals of its own",
            "b1",
            key,
            [stored("b1", medium=None), stored("b1"), removed("b1", medium=None)],
        ),
        kept(
            "tier-demotion",
            "a block moves to the host: a store there, a removal here",
            "CPU b2 | GPU b1",
            key,
            [stored("b1 b2")],
            [stored("b2", parent="b1", medium="CPU"), removed("b2")],
        ),
        kept(
            "tier-promotion",
            "and back, while the copy stays",
            "CPU b1 | GPU b1",
            key,
            [stored("b1")],
            [stored("b1", medium="CPU"), removed("b1")],
            [stored("b1")],
        ),
        kept(
            "ownership-apart",
            "a copy that another worker owns comes and goes by itself",
            "GPU+pool b1",
            key,
            [stored("b1"), stored("b1", ownership="pool"), removed("b1")],
        ),
        kept(
            "ownership-removed",
            "a removal of that copy",
            "b1",
            key,
            [stored("b1"), stored("b1", ownership="pool"), removed("b1", ownership="pool")],
        ),
        kept(
            "ownership-nil", "nil is the engine, as absence is", "", key, [stored("b1", ownership=None), removed("b1")]
        ),
        kept(
            "locality-apart",
            "here and on another host",
            "CPU@REMOTE b1",
            key,
            [stored("b1", medium="CPU", locality="LOCAL"), stored("b1", medium="CPU", locality="REMOTE")],
            [removed("b1", medium="CPU", locality="LOCAL")],
        ),
        kept(
            "clear-medium",
            "a clear of one medium",
            "b1",
            clear,
            [stored("b1"), stored("b1", medium="CPU"), cleared(medium="CPU")],
        ),
        kept(
            "clear-medium-groups",
            "it empties each group and owner there",
            "CPU b2",
            clear,
            [stored("b1"), stored("b1", **WINDOW), stored("b1", ownership="pool"), stored("b2", medium="CPU")],
            [cleared(medium="GPU")],
        ),
        kept(
            "clear-medium-nil",
            "nil names the unspecified medium, and no other",
            "b1",
            clear,
            [stored("b1"), stored("b2", medium=None), cleared(medium=None)],
        ),
        kept(
            "clear-owner",
            "a clear of one owner",
            "b1",
            clear,
            [stored("b1"), stored("b2", ownership="pool"), cleared(ownership="pool")],
        ),
        kept(
            "clear-owner-nil",
            "nil names the engine: shared copies survive its reset",
            "GPU+pool b2",
            clear,
            [stored("b1"), stored("b2", ownership="pool"), cleared(ownership=None)],
        ),
        kept(
            "clear-both",
            "one owner in one medium",
            "CPU b1 | GPU+pool b1 | GPU b1",
            clear,
            [
                stored("b1"),
                stored("b1", medium="CPU"),
                stored("b1", ownership="pool"),
                stored("b1", medium="CPU", ownership="pool"),
            ],
            [cleared(medium="CPU", ownership="pool")],
        ),
        kept(
            "clear-all",
            "a clear without keys empties every location",
            "",
            clear,
            [stored("b1"), stored("b1", medium="CPU", ownership="pool"), stored("b1", **WINDOW)],
            [cleared()],
        ),
        scenario(
            "clear-medium-unsure",
            "a clear that names a medium makes nothing known of the others",
            "back > 0; replay a4; end; live a5; live a6",
            "a6",
            6,
            "RES-011",
            batches={"a5": [cleared(medium="GPU")]},
            sure=False,
        ),
    ]


def groups_of_blocks() -> list[ConsumerTest]:
    """Cache groups."""
    return [
        kept(
            "group-apart",
            "a block leaves one group",
            "GPU/1 b1",
            "RES-010",
            [stored("b1"), stored("b1", **WINDOW), removed("b1")],
        ),
        kept(
            "group-removed",
            "the removal names the group",
            "b1",
            "RES-010",
            [stored("b1"), stored("b1", **WINDOW), removed("b1", group_idx=1)],
        ),
        kept(
            "group-0",
            "an absent group is group 0, and so is nil",
            "",
            "RES-010",
            [stored("b1", group_idx=0), stored("b2", group_idx=None), removed("b1"), removed("b2", group_idx=0)],
        ),
        kept(
            "group-coarse",
            "a coarse block has the hash of its last fine one, and residency of its own",
            "b1 b2 b3 b4",
            "RES-010",
            [stored("b1 b2 b3 b4", size=4), stored("b4", size=16, **WINDOW)],
            [removed("b4", group_idx=1)],
        ),
        kept(
            "group-unknown-kind",
            "a group of a kind that nobody knows",
            "GPU/2 b1",
            "RES-010",
            [
                stored("b1", group_idx=2, kv_cache_spec_kind="x-mine"),
                stored("b2", group_idx=2),
                removed("b2", group_idx=2),
            ],
        ),
        kept(
            "group-window-parent",
            "a window group goes on below a block that is gone",
            "GPU/1 b2",
            "RES-010",
            [stored("b1", **WINDOW)],
            [removed("b1", group_idx=1)],
            [stored("b2", parent="b1", **WINDOW)],
        ),
    ]


def policies() -> list[ConsumerTest]:
    """Stores of what is resident, removals of what is not."""
    counted: dict[str, Any] = {"streams": (ConsumerStream(name="s", residency="counted"),)}
    return [
        kept(
            "removal-unknown",
            "a removal of a hash that was never stored",
            "b1",
            "RES-014",
            [stored("b1"), removed("b9")],
        ),
        kept("removal-twice", "a removal twice", "b2", "RES-014", [stored("b1 b2"), removed("b1")], [removed("b1")]),
        kept(
            "removal-after-clear",
            "a removal of what a clear ended",
            "",
            "RES-014",
            [stored("b1")],
            [cleared()],
            [removed("b1")],
        ),
        kept(
            "removal-mixed",
            "known and unknown hashes in one removal",
            "b2",
            "RES-014",
            [stored("b1 b2"), removed("b8 b1 b9")],
        ),
        kept(
            "refresh",
            "a hit block is announced again: one removal ends its residency",
            "",
            "RES-010",
            [stored("b1")],
            [stored("b1")],
            [removed("b1")],
        ),
        kept(
            "refresh-chain",
            "a chain is announced again, with a new block behind",
            "b1 b2 b3",
            "RES-010",
            [stored("b1 b2")],
            [stored("b1 b2 b3")],
        ),
        kept(
            "counted-one-left",
            "two copies, one removal",
            "b1",
            "RES-010",
            [stored("b1")],
            [stored("b1")],
            [removed("b1")],
            **counted,
        ),
        kept(
            "counted-none-left",
            "two copies, two removals",
            "",
            "RES-010",
            [stored("b1"), stored("b1")],
            [removed("b1")],
            [removed("b1")],
            **counted,
        ),
        kept(
            "counted-locations",
            "copies are counted location by location",
            "CPU b1",
            "RES-010",
            [stored("b1"), stored("b1", medium="CPU"), removed("b1")],
            **counted,
        ),
        kept(
            "counted-clear",
            "a clear ends every copy",
            "",
            "RES-011",
            [stored("b1"), stored("b1"), cleared(), stored("b1"), removed("b1")],
            **counted,
        ),
        kept(
            "location-update",
            "known blocks are in host memory too, and leave it",
            "CPU b2 | GPU b1 b2",
            "RES-010",
            [stored("b1 b2")],
            [moved("b1 b2")],
            [removed("b1", medium="CPU")],
        ),
        kept(
            "location-update-unknown",
            "and so are blocks whose tokens nobody has told",
            "STORAGE b1",
            "RES-010",
            [moved("b1", "STORAGE")],
        ),
        kept(
            "partial-entry",
            "a partial entry is held like a block, and goes like one",
            "b1",
            "RES-010",
            [stored("b1", size=16)],
            [stored("b2", size=2, parent="b9")],
            [removed("b2")],
        ),
    ]


def contents() -> list[ConsumerTest]:
    """What stands in a batch."""
    odd = {"type": "BlockMigrated", "block_hashes": "not even a list", "to": None}
    return [
        kept(
            "order",
            "the events of a batch in their order",
            "b2",
            "EVT-026",
            [stored("b1"), removed("b1"), stored("b2"), removed("b3"), stored("b3"), removed("b3")],
        ),
        kept("order-clear", "a clear between two stores", "b2", "EVT-026", [stored("b1"), cleared(), stored("b2")]),
        kept(
            "type-unknown",
            "an event of an unknown type is skipped, and no other",
            "b1 b2",
            "EVT-024",
            [stored("b1"), odd, stored("b2")],
        ),
        kept("type-unknown-alone", "a batch that holds nothing else", "b1", "EVT-024", [stored("b1")], [odd]),
        kept(
            "key-unknown",
            "keys that nobody knows",
            "b2",
            "EVT-023",
            [
                stored("b1 b2", zzz={"a": [1, None]}),
                removed("b1", remaining_copy_counts=[0]),
                {**cleared(medium="DISK"), "reason": "reset"},
            ],
        ),
        kept(
            "session",
            "a session is no part of what a block is",
            "",
            "EVT-023",
            [stored("b1", session_id="one"), stored("b1", session_id="two"), removed("b1")],
        ),
        kept("empty-batch", "a heartbeat: no events", "b1", "SEQ-015", [stored("b1")], []),
        kept(
            "parent-unknown",
            "the blocks are there, although their parent was never announced",
            "b2",
            "RES-010",
            [stored("b2", parent="b1")],
        ),
        kept(
            "hash-signed",
            "signed and unsigned integers of equal bits are one hash",
            "",
            "HSH-010",
            [{**stored("b1"), "block_hashes": [-5]}, {**removed("b1"), "block_hashes": [2**64 - 5]}],
        ),
        kept(
            "hash-unsigned",
            "what is held is unsigned",
            str(2**64 - 5),
            "HSH-010",
            [{**stored("b1"), "block_hashes": [-5]}],
        ),
        kept(
            "hash-0",
            "0 is a hash, and a parent of 0 no root",
            "0 b1",
            "CHN-005",
            [{**stored("b1"), "block_hashes": [0]}, {**stored("b1"), "parent_block_hash": 0}],
        ),
        kept("widths", "every legal width", "2000000000001", "EVT-025", wide()),
        kept(
            "unreadable",
            "a batch that cannot be read is as good as lost",
            "b2",
            "SEQ-018",
            [stored("b1")],
            b"\x93",
            [stored("b2")],
            sure=False,
        ),
    ]


def wide() -> bytes:
    """A store of ``b1`` in the longest form of everything."""
    from kvwire_generators.wire.msgpack_forms import encode, longest

    return encode([1735689601.0, [stored("b1")], 0], longest)


def ranks() -> list[ConsumerTest]:
    """Several streams, each with a cache of its own."""
    two = (ConsumerStream(name="rank0"), ConsumerStream(name="rank1"))
    joined = "rank0: back > 0; rank0: end; rank1: back > 0; rank1: end; rank0: live a0; rank1: live b0"
    look: dict[str, dict[str, Any]] = {"all": {"tokens": (1,), "medium": "GPU"}}
    return [
        scenario(
            "ranks-clear",
            "the clear of one rank says nothing about another",
            f"{joined}; rank0: live a1; rank1: live b1; rank0: look all; rank1: look all",
            "b0 b1",
            1,
            "RES-011",
            streams=two,
            batches={"a1": [cleared()]},
            looks=look,
            found="0 0",
        ),
        scenario(
            "ranks-removal",
            "nor does its removal, although both hold the block",
            f"{joined}; rank0: live a1; rank1: live b1; rank0: look all; rank1: look all",
            "b0 b5",
            1,
            "RES-010",
            streams=two,
            batches={"a1": [stored("b5"), removed("b5")], "b1": [stored("b5")]},
            looks=look,
            found="0 0",
        ),
        scenario(
            "ranks-numbers",
            "each has numbers of its own: a gap of one is none of the other",
            f"{joined}; rank0: live a5 > 0; rank1: live b1; rank0: replay a1 a2 a3 a4 a5; rank0: end; rank1: live b2",
            "b0 b1 b2",
            2,
            "SEQ-012",
            streams=two,
        ),
        scenario(
            "ranks-restart",
            "one restarts, the other goes on",
            f"{joined}; rank1: live b1; rank0: live c0; rank1: live b2",
            "b0 b1 b2",
            2,
            "SEQ-014",
            streams=two,
            batches={"a0": [cleared()], "c0": [cleared()]},
        ),
    ]


def groups() -> list[ConsumerGroup]:
    """All of them, by subject."""
    told = (
        ("locations", "Medium, locality and ownership: stores, removals and clears.", locations()),
        ("groups", "Cache groups.", groups_of_blocks()),
        ("policies", "Stores of what is resident, removals of what is not, stores without tokens.", policies()),
        ("contents", "What stands in a batch, and what a consumer has to put up with.", contents()),
        ("ranks", "Several streams.", ranks()),
    )
    return [Group(name=name, comment=comment, tests=tuple(tests)) for name, comment, tests in told]
