"""The proposals of spec/adoption.md, each as a stream: what is tolerated or adopted is honest, and the rest is heard.

Every row of the table has its stories here, and a warning that a row speaks of is the only one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.stories import (
    END_MARKER,
    T0,
    Event,
    Story,
    blocks,
    cleared,
    number_frame,
    pack,
    removed,
    stored,
)

from kvwire.judges.verdict import Verdict
from kvwire.standard import resources
from kvwire.standard.statement import Group, Medium, Statement
from kvwire.trace.calls import CacheCall
from kvwire_reference.wire import SNAPSHOT_START

Tell = Callable[[], Story]
SALT = "tenant-7f3a"
DIGEST = "ab" * 32

STORIES: dict[str, list[tuple[Tell, str, str]]] = {}
"""By the first cell of a row: its streams, who speaks of each, and the sentence whose judge is awaited."""
ELSEWHERE = {
    "`schema_version` at discovery (vLLM#50033)": "it is told where an address is found, not on a stream",
    "snapshot on an endpoint of its own, with epoch (vLLM#57789, SGLang#34407)": "another endpoint than a stream has",
    "gRPC, HTTP, Kafka": "other carriers",
}
"""Rows of which no stream can tell anything, and why."""


def row(name: str, speaks: str = "", awaits: str = "") -> Callable[[Tell], Tell]:
    """Add a stream to the row that begins so; ``speaks``: the sentences that are broken or warned about."""

    def add(tell: Tell) -> Tell:
        STORIES.setdefault(name, []).append((tell, speaks, awaits))
        return tell

    return add


def told(*events: Event, more: tuple[Event, ...] = (), **statement: Any) -> Story:
    """A life of a leading clear, these events in one batch, and more in another."""
    story = Story(statement=Statement(ring=1000, **statement)).begin()
    story.send(*events)
    if more:
        story.send(*more)
    return story


def salted(*events: Event, **statement: Any) -> Story:
    """A life in which a prompt with a salt was cached before these events."""
    story = Story(statement=Statement(ring=1000, **statement)).begin()
    story.note(CacheCall(tokens=(1, 2, 3, 4), salt=SALT, cached_tokens=0))
    story.send(*events)
    return story


def table() -> list[str]:
    """The first cells of the proposals."""
    text = (resources.spec() / "adoption.md").read_text(encoding="utf-8")
    rows = text.split("## Proposals")[1].split("\n## ")[0].splitlines()
    cells = [re.split(r"(?<!\\)\|", line)[1].strip() for line in rows if line.startswith("| ")]
    return [cell for cell in cells if cell != "proposal"]


# --- salts -------------------------------------------------------------------------------------------------------

SALTED = "salt as bare string in `extra_keys` (vLLM#33304)"
TOP_LEVEL = "top-level `cache_salt` (SGLang#37482, Dynamo#8197)"


@row(SALTED)
def salt_in_extra_keys() -> Story:
    """In the first block of the chain."""
    return salted(stored("ab", extra_keys=[[SALT], None]), stored("c", "b", extra_keys=[None]), salt="clear")


@row(SALTED, "EVT-019")
def salt_in_extra_keys_without_a_word() -> Story:
    """The same, undeclared."""
    return salted(stored("ab", extra_keys=[[SALT], None]), stored("c", "b", extra_keys=[None]))


@row(TOP_LEVEL)
def salt_in_a_key() -> Story:
    """In every store of the chain."""
    return salted(stored("ab", cache_salt=SALT), stored("c", "b", cache_salt=SALT), salt="clear")


@row(TOP_LEVEL, "EVT-019")
def salt_in_a_key_without_a_word() -> Story:
    """The same, undeclared."""
    return salted(stored("ab", cache_salt=SALT))


@row("salts per token range (vLLM#52655)")
def salts_per_range() -> Story:
    """Another salt from the second block on: the chain is of the scope of its first block."""
    return salted(stored("ab", extra_keys=[[SALT], ["tenant-b"]]), stored("c", "b"), salt="clear")


# --- keys --------------------------------------------------------------------------------------------------------

NIL = "nil `lora_name` and `medium` always sent (SGLang#40601)"


@row(NIL)
def nil_keys() -> Story:
    """Both nil."""
    return told(stored("ab", medium=None), removed("b", medium=None))


@row(NIL, "EVT-005 EVT-006")
def absent_keys() -> Story:
    """Both left out."""
    events = [stored("ab"), removed("b")]
    return told(
        *({key: value for key, value in event.items() if key not in ("lora_name", "medium")} for event in events)
    )


@row("typed extra keys (vLLM#55487, closed)")
def typed_extra_keys() -> Story:
    """Maps with a type."""
    keys = [[{"type": "lora", "name": "poems"}, {"type": "mm", "hash": DIGEST, "offset": 0}], None]
    return told(stored("ab", extra_keys=keys))


@row("`event_version` (vLLM#55488, closed)")
def event_version() -> Story:
    """On every event."""
    return told(stored("ab", event_version=1), removed("b", event_version=1), {**cleared(), "event_version": 1})


@row("`session_id` (vLLM#51381, SGLang#37482)")
def session() -> Story:
    """Of the request that caused the store; nil where it had none."""
    return told(stored("ab", session_id="s-1"), stored("c", "b", session_id="s-2"), stored("d", session_id=None))


@row("`session_ids` (SGLang#37734), `continuation_id` (vLLM#48501), `reason` (SGLang#39604)")
def sessions_and_reasons() -> Story:
    """Keys that this edition does not define."""
    store = stored("ab", session_ids=["s-1", "s-2"], continuation_id="c-1")
    return told(store, removed("b", reason="evicted"), {**cleared(), "reason": "reset"})


@row("`origin` (vLLM#51699), `remaining_copy_counts` (vLLM#48933)")
def origin_and_counts() -> Story:
    """Where a block came from, and how many copies are left."""
    return told(stored("ab", origin="prefill"), removed("b", remaining_copy_counts=[0]))


# --- locations and policies --------------------------------------------------------------------------------------

OWNED = "`ownership` (vLLM#52067), `locality` (vLLM#48281)"
AGAIN = "hit blocks announced again (vLLM#45261), components restated (SGLang#32514)"
COPIES = "one removal per copy, or after the last copy (vLLM#55092)"
SPARED = "clears that spare shared tiers"


@row(OWNED)
def owned_elsewhere() -> Story:
    """The engine's copy and a connector's, and one on another host: each comes and goes by itself."""
    return told(
        stored("ab"),
        stored("ab", ownership="pool"),
        stored("ab", medium="CPU", locality="REMOTE"),
        more=(removed("b"), removed("b", ownership="pool"), removed("b", medium="CPU", locality="REMOTE")),
    )


@row(OWNED, "RES-002")
def removed_for_another_owner() -> Story:
    """The engine removes what only the pool holds."""
    return told(stored("ab", ownership="pool"), removed("b"))


@row(AGAIN)
def hit_blocks_again() -> Story:
    """A request hits a and b, and adds c: all three are announced."""
    return told(stored("ab"), more=(stored("abc"), removed("cb"), stored("b", "a")), residency="refresh")


@row(AGAIN)
def hit_blocks_again_on_the_host() -> Story:
    """Only the host's memory does so."""
    story = told(stored("ab"), stored("ab", medium="CPU"), media=(Medium(medium="CPU", residency="refresh"),))
    story.send(stored("ab", medium="CPU"), removed("ba", medium="CPU"))
    return story


@row(AGAIN, "RES-001")
def hit_blocks_again_without_a_word() -> Story:
    """The same on the device, undeclared."""
    return told(stored("ab"), more=(stored("abc"),))


@row(COPIES)
def a_removal_for_each_copy() -> Story:
    """Two requests compute a; one copy goes, then the other."""
    return told(stored("a"), stored("a"), removed("a"), more=(stored("b", "a"), removed("ba")), residency="counted")


@row(COPIES)
def a_removal_after_the_last_copy() -> Story:
    """The first copy is announced, and the last one's end."""
    return told(stored("ab"), more=(removed("ba"),))


@row(SPARED)
def device_cleared() -> Story:
    """The device is emptied; what lies on the host is still there, and leaves it later."""
    clear = {**cleared(), "medium": "GPU"}
    return told(stored("ab"), stored("ab", medium="CPU"), clear, more=(removed("ba", medium="CPU"), stored("ab")))


@row(SPARED)
def engine_cleared() -> Story:
    """The engine's own copies go, those of the pool stay."""
    clear = {**cleared(), "ownership": None}
    story = told(stored("ab"), stored("ab", ownership="pool"), clear)
    story.send(removed("ba", ownership="pool"), stored("ab"))
    return story


# --- stores that are no full blocks ------------------------------------------------------------------------------

UPDATES = "placeholders without tokens (vLLM#43468)"
PARTIAL = "partial entries (vLLM#45939, vLLM#58119)"
SPARSE = "sparse blocks with tokens left in (vLLM#44451)"
SKIPPED = "`skipped_*` (vLLM#44488)"


def placeholder(names: str, medium: str = "CPU") -> Event:
    """A location update."""
    return stored(names, size=0, medium=medium)


@row(UPDATES)
def location_updates() -> Story:
    """Of blocks that were announced, and of one that never was; one of them leaves again."""
    return told(stored("ab"), placeholder("abz"), more=(removed("a", medium="CPU"),), extensions=("location_updates",))


@row(UPDATES, "EVT-013 EVT-014")
def location_updates_without_a_word() -> Story:
    """The same, undeclared."""
    return told(stored("ab"), placeholder("ab"))


@row(PARTIAL)
def partial_entries() -> Story:
    """Two entries at finer boundaries, under parents that nobody announced."""
    declared = {"extensions": ("partial_entries",), "groups": (Group(idx=0, kind="full_attention", block_size=16),)}
    finer = [stored("p", "x", size=4), stored("q", "y", size=8)]
    return told(stored("ab", size=16), *finer, more=(removed("pq"),), **declared)


@row(PARTIAL, "CHN-003 EVT-014")
def partial_entries_without_a_word() -> Story:
    """The same, undeclared."""
    return told(stored("ab", size=16), stored("p", "x", size=4))


@row(SPARSE, "EVT-013")
def sparse_blocks() -> Story:
    """Two hashes, and the tokens of three blocks."""
    return told({**stored("ac"), "token_ids": list(range(12))})


@row(SKIPPED)
def skipped_keys() -> Story:
    """The reserved keys, on full blocks: they mean nothing yet."""
    return told(stored("ab", skipped_token_ids=[], skipped_parent_block_hash=None, skipped_extra_keys=None))


@row(SKIPPED, "EVT-013")
def skipped_blocks() -> Story:
    """A gap in the list of hashes, whose tokens stand in another key."""
    return told({**stored("ac"), "token_ids": list(range(6)), "skipped_token_ids": list(range(6))})


# --- hashes and tokens -------------------------------------------------------------------------------------------


@row("`lookahead_token_ids` (vLLM#50438)")
def lookahead() -> Story:
    """Tokens of the next block enter the hash, and stand in a key of their own."""
    return told(stored("ab", lookahead_token_ids=[7, 8]), stored("c", "b", lookahead_token_ids=[9]), algorithm="opaque")


@row("token pairs (SGLang, bigrams)", "EVT-010")
def bigrams() -> Story:
    """Each token with the next one."""
    event = stored("a")
    tokens = event["token_ids"]
    return told({**event, "token_ids": [[one, one + 1] for one in tokens]})


@row("tagged extra keys in the hash (vLLM 0.31)")
def kinds_in_the_hash() -> Story:
    """A salted root as vLLM hashes it since 0.31."""
    event = {
        **stored("a", size=16),
        "block_hashes": [7027321370956117732],
        "token_ids": list(range(16)),
        "extra_keys": [["s1"]],
    }
    return told(event, algorithm="x-vllm-sha256/kinds", salt="clear")


# --- events and batches ------------------------------------------------------------------------------------------

UNKNOWN = "`BlockInactive` (vLLM#50732), `BlockTransferred` (ATOM)"
SOURCES = "several sources in one batch (`SourcedKVEventBatch`)"
HEARTBEATS = "numbered idle heartbeats (vLLM#57789)"


def inactive(names: str) -> Event:
    """Blocks that no request uses any more."""
    return {"type": "BlockInactive", "block_hashes": blocks(names), "medium": "GPU"}


@row(UNKNOWN)
def other_events() -> Story:
    """In batches of their own."""
    story = told(stored("ab"), more=(inactive("ab"),))
    story.send({"type": "BlockTransferred", "block_hashes": blocks("a"), "from": "GPU", "to": "CPU"})
    return story


@row(UNKNOWN, "EVT-034")
def other_events_among_ours() -> Story:
    """Beside a store: most readers lose it."""
    return told(stored("ab"), inactive("ab"))


@row(SOURCES, "BAT-001")
def several_sources() -> Story:
    """A fourth element that names them."""
    story = told(stored("ab"))
    story.send(content=pack([T0 + 9.0, [stored("c", "b")], 0, [{"source": "worker-1", "events": [0]}]]))
    return story


@row("topics that share one counter (LMCache#4768)", "ENV-002")
def shared_counter() -> Story:
    """Two topics in turn, one row of numbers."""
    story = Story(declared_topic=None).begin()
    story.send(stored("ab"))
    number, content = story.make(stored("c"))
    story.frames(b"kv@other", number_frame(number), content)
    story.send(stored("d"))
    return story


@row("`snapshot` on the replay socket (vLLM#50134)")
def snapshot_start() -> Story:
    """To a publisher that knows nothing of it, a start far in the future."""
    story = told(stored("ab"))
    client = story.ask(SNAPSHOT_START)
    story.answer(client, *END_MARKER)
    story.done(client)
    story.replay(0)
    return story


@row(HEARTBEATS)
def heartbeats() -> Story:
    """Empty batches, numbered like all others."""
    story = told(stored("ab"))
    story.send()
    story.send()
    return story


# --- media -------------------------------------------------------------------------------------------------------


@row("`CPU_PINNED`, lower case, names of products as `medium`", "EVT-016")
def names_of_media() -> Story:
    """Warned about, and nothing else."""
    return told(*(stored("ab", medium=name) for name in ("CPU_PINNED", "gpu", "lmcache-l2-redis")))


# --- all of them -------------------------------------------------------------------------------------------------

ALL = [
    pytest.param(
        tell,
        speaks,
        id=tell.__name__,
        marks=[pytest.mark.xfail(strict=True, reason=f"the judge of KVW-{awaits} is awaited")] if awaits else [],
    )
    for stories in STORIES.values()
    for tell, speaks, awaits in stories
]


@pytest.mark.parametrize(("tell", "speaks"), ALL)
def test_a_proposal_is_judged_as_its_row_says(tell: Tell, speaks: str) -> None:
    story = tell()
    assert sorted(story.spoken()) == sorted(speaks.split()), story.spoken()


def test_every_row_has_its_stream() -> None:
    assert {*STORIES, *ELSEWHERE} == set(table())
    assert not set(STORIES) & set(ELSEWHERE)


def test_what_is_tolerated_is_silent_and_what_is_forbidden_is_not() -> None:
    text = (resources.spec() / "adoption.md").read_text(encoding="utf-8")
    for name, stories in STORIES.items():
        (status,) = re.findall(rf"^\| {re.escape(name)} \| ([a-z]+)", text, re.MULTILINE)
        silent = [not speaks for _, speaks, _ in stories]
        if status == "warned":
            assert [speaks for _, speaks, _ in stories] == ["EVT-016"]
        else:
            assert any(silent) == (status != "forbidden"), name


def test_hashes_with_kinds_are_recomputed_and_not_only_overlooked() -> None:
    assert kinds_in_the_hash().verdict("HSH-002") == (Verdict.PASS, 1)
