"""The mutants: the reference with one small named change each, and the verdicts that each must get, exactly.

A mutant declares its algorithm, the sentence it breaks (``primary``), what else must speak (``also``) and at which
levels of control; CI compares the sets both ways, on the live run and on its stored trace. A crash is not a kill. At a
level where the change cannot be seen nobody speaks.

``python -m kvwire.peers.mutants NAME`` serves one, driven by the adapter protocol.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import msgspec

from kvwire.peers import answers, engines, frames, payloads
from kvwire.peers.adapter import Peer, chosen, options, serve
from kvwire.trace import ControlLevel

LEVELS: tuple[ControlLevel, ...] = ("passive", "replayable", "driven")
OPAQUE = {"algorithm": "opaque"}
"""Parity does not apply to a mutant whose change makes hashes that no function gives."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the reference.

    ``change`` says what it does, ``reason`` why ``also`` must speak. ``also`` holds ids that speak wherever
    ``primary`` does; ``extra`` those that speak at one level only. ``levels`` are the levels at which ``primary``
    speaks. ``peer`` holds the fields of ``kvwire.peers.adapter.Peer`` that it sets.
    """

    name: str
    primary: str
    change: str
    peer: Mapping[str, Any]
    also: tuple[str, ...] = ()
    extra: Mapping[ControlLevel, tuple[str, ...]] = msgspec.field(default_factory=dict)
    levels: tuple[ControlLevel, ...] = LEVELS
    reason: str = ""

    def expected(self, level: ControlLevel) -> frozenset[str]:
        """The ids that must be FAIL or WARN at a level: all of them, and no other."""
        speaks = {self.primary, *self.also} if level in self.levels else set()
        return frozenset(speaks | set(self.extra.get(level, ())))


def _short(requirement: str) -> str:
    return requirement if requirement.startswith("KVW-") else f"KVW-{requirement}"


def _mutant(
    name: str,
    primary: str,
    change: str,
    *,
    also: str = "",
    passive: str = "",
    replayable: str = "",
    driven: str = "",
    levels: tuple[ControlLevel, ...] = LEVELS,
    reason: str = "",
    **peer: Any,
) -> Mutant:
    """Ids are written without ``KVW-``; those of a list are separated by blanks."""
    per_level: dict[ControlLevel, str] = {"passive": passive, "replayable": replayable, "driven": driven}
    return Mutant(
        name=name,
        primary=_short(primary),
        change=change,
        also=tuple(map(_short, also.split())),
        extra={level: tuple(map(_short, ids.split())) for level, ids in per_level.items() if ids},
        levels=levels,
        reason=reason,
        peer=peer,
    )


DRIVEN: tuple[ControlLevel, ...] = ("driven",)
REPLAYED: tuple[ControlLevel, ...] = ("replayable", "driven")

ALL: tuple[Mutant, ...] = (
    # envelope
    _mutant("two-frames", "ENV-001", "live messages have no topic frame", make_publisher=frames.TwoFrames),
    _mutant(
        "topic-per-message",
        "ENV-002",
        "the topic changes from message to message",
        make_publisher=frames.TopicPerMessage,
        also='ENV-003',
        reason='the topic is declared',
    ),
    _mutant("other-topic", "ENV-003", "another topic than the configured one", make_publisher=frames.OtherTopic),
    _mutant("topic-not-text", "ENV-004", "a topic that is not UTF-8", make_publisher=frames.TopicNotText),
    _mutant(
        "little-endian-number",
        "ENV-005",
        "the number's lowest byte comes first",
        make_publisher=frames.LittleEndianNumber,
        also='ENV-003',
        reason='the topic is declared',
        driven='SEQ-002',
        reason='read in big-endian order the numbers do not count the offers',
    ),
    _mutant("trailing-byte", "ENV-006", "one byte after the payload's value", make_publisher=frames.TrailingByte),
    # sequence
    _mutant("first-is-one", "SEQ-001", "numbers begin at 1", make_publisher=frames.FirstIsOne, levels=REPLAYED),
    _mutant(
        "skips-numbers",
        "SEQ-002",
        "a number is burnt though nothing was offered",
        make_publisher=frames.SkipsNumbers,
        levels=DRIVEN,
        driven='SEQ-007',
        reason='the life after the restart begins at 1 too',
    ),
    _mutant(
        "loses-without-a-hole",
        "SEQ-002",
        "a batch is lost and its number given to the next one",
        make_publisher=frames.LosesWithoutAHole,
        levels=DRIVEN,
        driven='SEQ-009',
        reason='what was lost had been accepted',
    ),
    _mutant(
        "fills-holes", "SEQ-003", "a batch is sent after the one that follows it", make_publisher=frames.FillsHoles
    ),
    _mutant("reuses-numbers", "SEQ-004", "two batches are sent under one number", make_publisher=frames.ReusesNumbers),
    _mutant("falls-back", "SEQ-004", "the number falls without a disconnect", make_publisher=frames.FallsBack),
    _mutant(
        "goes-on-after-restart",
        "SEQ-007",
        "a new incarnation carries the number on",
        make_publisher=frames.GoesOnAfterRestart,
        levels=DRIVEN,
        replayable='REP-001',
        driven='REP-001 SEQ-002',
        reason='replay holds the second batch of a number, the first live one was another',
    ),
    _mutant(
        "no-leading-clear",
        "SEQ-008",
        "a stream does not begin with a clear",
        make_publisher=frames.without_clear,
        levels=REPLAYED,
    ),
    _mutant(
        "loses-every-third",
        "SEQ-009",
        "every third batch is lost, its number burnt",
        make_publisher=frames.Loses,
        levels=DRIVEN,
    ),
    # batch
    _mutant("batch-of-two", "BAT-001", "the rank is left out", make_publisher=payloads.BatchOfTwo),
    _mutant("integer-ts", "BAT-002", "ts is an integer", make_publisher=payloads.IntegerTs),
    _mutant("nan-ts", "BAT-003", "ts is not a number now and then", make_publisher=payloads.NanTs),
    _mutant("millisecond-ts", "BAT-003", "ts counts milliseconds", make_publisher=payloads.MillisecondTs),
    _mutant("ts-goes-back", "BAT-004", "ts falls by ten seconds now and then", make_publisher=payloads.TsGoesBack),
    _mutant("events-in-map", "BAT-005", "events is a map now and then", make_publisher=payloads.EventsInMap),
    # event
    _mutant("array-event", "EVT-001", "stores are tagged arrays", make_publisher=payloads.ArrayEvent),
    _mutant("integer-key", "EVT-002", "a map key is an integer", make_publisher=payloads.IntegerKey),
    _mutant("key-twice", "EVT-003", "the key medium stands there twice", make_publisher=payloads.KeyTwice),
    _mutant("ext-type", "EVT-004", "locality is an ext value", make_publisher=payloads.ExtType),
    _mutant("no-lora-name", "EVT-005", "lora_name is left out", make_publisher=payloads.NoLoraName),
    _mutant(
        "removed-without-medium", "EVT-006", "removals have no medium", make_publisher=payloads.RemovedWithoutMedium,
        also='RES-001',
        replayable='RES-002',
        driven='RES-002',
        reason='an absent medium is one of its own: nothing was stored there, and what was stored elsewhere stays',
    ),
    _mutant("bytes-hashes", "EVT-007", "hashes are raw bytes", make_publisher=payloads.BytesHashes),
    _mutant("unsigned-hashes", "EVT-008", "hashes are unsigned", make_publisher=payloads.UnsignedHashes),
    _mutant("zero-hash", "EVT-009", "one block is called 0", make_publisher=payloads.ZeroHash, statement=OPAQUE),
    _mutant("negative-token", "EVT-010", "a token is −1 now and then", make_publisher=payloads.NegativeToken),
    _mutant(
        "digests-without-keys",
        "EVT-012",
        "digest tokens have no mm_keys",
        make_publisher=payloads.DigestsWithoutKeys,
        multimodal=True,
    ),
    _mutant(
        "partial-blocks",
        "EVT-013",
        "blocks that are not full are announced",
        make_engine=engines.AnnouncesPartialBlocks,
        make_publisher=engines.Unchecked,
        driven='RES-003',
        reason='the engine does not count partial blocks as held',
    ),
    _mutant(
        "other-block-size",
        "EVT-014",
        "blocks are called half as long now and then",
        make_publisher=payloads.OtherBlockSize,
        statement=OPAQUE,
        driven='RES-003',
        reason='the engine does not hold the blocks that were made up',
    ),
    _mutant(
        "empty-medium", "EVT-015", "the medium of removals is an empty string", make_publisher=payloads.EmptyMedium,
    ),
    _mutant("lower-case-medium", "EVT-016", "the medium is called gpu", make_publisher=payloads.LowerCaseMedium),
    _mutant(
        "other-group-on-removal",
        "EVT-017",
        "removals name another group than stores",
        make_publisher=payloads.OtherGroupOnRemoval,
    ),
    _mutant("leaks-salt", "EVT-019", "the salt stands in extra_keys", make_engine=engines.LeaksSalt, levels=DRIVEN),
    _mutant("text-lora-id", "EVT-021", "lora_id is a string", make_publisher=payloads.TextLoraId),
    # chain
    _mutant(
        "nil-parent",
        "CHN-001",
        "continuing stores have no parent",
        make_publisher=payloads.NilParent,
        levels=DRIVEN,
        statement=OPAQUE,
    ),
    _mutant(
        "dangling-window-parent",
        "CHN-002",
        "a parent in a window group was never stored",
        make_publisher=payloads.DanglingWindowParent,
    ),
    _mutant("dangling-parent", "CHN-003", "a parent is not resident", make_publisher=payloads.DanglingParent),
    _mutant(
        "child-of-capped",
        "CHN-003",
        "children of blocks that the limit shed are announced",
        make_engine=engines.AnnouncesChildrenOfCapped,
    ),
    _mutant("self-parent", "CHN-004", "a block is its own parent", make_publisher=payloads.SelfParent),
    # hashing
    _mutant("switches-width", "HSH-001", "token width changes in mid-stream", make_engine=engines.SwitchesWidth),
    _mutant(
        "no-wrap",
        "HSH-002",
        "v1_block_key without the 32-bit wrap",
        make_engine=engines.NoWrap,
        algorithm="v1_block_key",
        also='CHN-003',
        reason='the block is not resident when it is named',
    ),
    _mutant(
        "last-eight-bytes",
        "HSH-002",
        "the last eight bytes of the key are declared as the first",
        make_engine=engines.LastEightBytes,
    ),
    _mutant(
        "announces-other-width", "HSH-002", "/u64 is announced and /u32 computed", make_publisher=payloads.Announces,
    ),
    _mutant("changing-label", "HSH-003", "two labels are announced in turn", make_publisher=payloads.ChangingLabel),
    _mutant("bare-label", "HSH-004", "the label does not say the token width", make_publisher=payloads.BareLabel),
    _mutant(
        "ignores-scope",
        "HSH-005",
        "all reuse scopes have the same hashes",
        make_engine=engines.IgnoresScope,
        levels=DRIVEN,
        passive='RES-001',
        replayable='RES-001 RES-002',
        driven='RES-001 RES-002',
        reason='one hash is stored and removed for several blocks',
    ),
    _mutant(
        "hashes-anew",
        "HSH-006",
        "a block that comes back has another hash",
        make_engine=engines.HashesAnew,
        levels=DRIVEN,
        statement=OPAQUE,
    ),
    _mutant(
        "eight-byte-tokens",
        "HSH-007",
        "eight-byte tokens are hashed and announced",
        algorithm="v2_sha256_64/u64",
        make_publisher=payloads.Announces,
    ),
    _mutant(
        "ignores-last-token",
        "HSH-008",
        "the last token of a block is not hashed",
        make_engine=engines.IgnoresLastToken,
        statement=OPAQUE,
    ),
    # residency
    _mutant("stores-twice", "RES-001", "a store is repeated", make_publisher=payloads.StoresTwice),
    _mutant(
        "removes-unannounced",
        "RES-002",
        "blocks that were never announced are removed",
        make_engine=engines.RemovesUnannounced,
        levels=REPLAYED,
        reason='a late joiner does not know what was stored before',
    ),
    _mutant(
        "evicts-silently",
        "RES-003",
        "every fifth eviction is not announced",
        make_engine=engines.EvictsSilently,
        levels=DRIVEN,
        passive='RES-001',
        replayable='RES-001',
        driven='RES-001',
        reason='a block that comes back was never said to be gone',
    ),
    _mutant(
        "removes-twice",
        "RES-004",
        "counted residency, and every removal comes twice",
        make_publisher=payloads.RemovesTwice,
        statement={"residency": "counted"},
        levels=REPLAYED,
        reason='a late joiner does not know what was stored before',
    ),
    _mutant(
        "clears-without-reset",
        "RES-005",
        "a clear is sent though the cache is kept",
        make_engine=engines.ClearsWithoutReset,
        levels=DRIVEN,
        passive='RES-002',
        replayable='RES-002',
        driven='RES-002',
        reason='what was cleared is removed later',
    ),
    _mutant(
        "resets-silently", "RES-006", "a reset is not announced", make_engine=engines.ResetsSilently, levels=DRIVEN
        passive='RES-001',
        replayable='RES-001',
        driven='RES-001 RES-003',
        reason='what comes back was never said to be gone, nor what did not',
    ),
    _mutant(
        "resets-late",
        "RES-006",
        "a reset shows only with the next store",
        make_engine=engines.ResetsLate,
        levels=DRIVEN,
    ),
    # replay
    _mutant(
        "replay-without-topic",
        "REP-001",
        "replayed batches have no topic frame",
        make_publisher=answers.ReplayWithoutTopic,
        levels=REPLAYED,
    ),
    _mutant(
        "replay-rewritten",
        "REP-001",
        "replayed batches are stamped anew",
        make_publisher=answers.ReplayRewritten,
        levels=REPLAYED,
    ),
    _mutant(
        "replay-twice",
        "REP-002",
        "every tenth batch is replayed twice",
        make_publisher=answers.ReplayTwice,
        levels=REPLAYED,
    ),
    _mutant(
        "replay-without-end",
        "REP-003",
        "no end marker after batches",
        make_publisher=answers.ReplayWithoutEnd,
        levels=REPLAYED,
    ),
    _mutant("replay-two-ends", "REP-003", "two end markers", make_publisher=answers.ReplayTwoEnds, levels=REPLAYED),
    _mutant(
        "replay-silent-on-future",
        "REP-004",
        "no answer when nothing is retained",
        make_publisher=answers.ReplaySilentOnFuture,
        levels=REPLAYED,
    ),
    _mutant(
        "replay-any-frames",
        "REP-005",
        "a request with frames to spare is answered",
        make_publisher=answers.ReplayAnyFrames,
        levels=REPLAYED,
    ),
    _mutant(
        "replay-any-start",
        "REP-006",
        "delimiter and length of the start are not looked at",
        make_publisher=answers.ReplayAnyStart,
        levels=REPLAYED,
    ),
    _mutant(
        "replay-sulks",
        "REP-007",
        "the request after a malformed one is ignored",
        make_publisher=answers.ReplaySulks,
        levels=REPLAYED,
    ),
    _mutant(
        "replay-truncated",
        "REP-008",
        "the end marker comes after twenty batches",
        make_publisher=answers.ReplayTruncated,
        levels=REPLAYED,
    ),
    _mutant(
        "replay-forgets",
        "REP-013",
        "every eighth batch is not retained",
        make_publisher=answers.ReplayForgets,
        levels=REPLAYED,
    ),
    _mutant(
        "replay-end-payload",
        "REP-014",
        "the end marker has a payload",
        make_publisher=answers.ReplayEndPayload,
        levels=REPLAYED,
    ),
    # rank
    _mutant("nil-rank", "RNK-001", "the rank is nil", make_publisher=payloads.NilRank),
    _mutant("switching-rank", "RNK-002", "the rank changes now and then", make_publisher=payloads.SwitchingRank, also='RNK-003', reason='the rank is declared'),
    _mutant("wrong-rank", "RNK-003", "another rank than the declared one", make_publisher=payloads.WrongRank),
)
"""Every mutant, in the order of the areas."""

MUTANTS: Mapping[str, Mutant] = {mutant.name: mutant for mutant in ALL}
"""Every mutant by name."""


def killed_by(requirement: str) -> tuple[Mutant, ...]:
    """The mutants whose primary sentence this is."""
    return tuple(mutant for mutant in ALL if mutant.primary == requirement)


def peer_of(name: str, **chosen_fields: Any) -> Peer:
    """The peer of one mutant; what the mutant sets prevails over what the user chose."""
    return Peer(**{"name": f"mutant {name}", **chosen_fields, **MUTANTS[name].peer})


def main(argv: list[str] | None = None) -> None:
    """Serve one mutant."""
    parser = argparse.ArgumentParser(description="The reference with one small change.")
    parser.add_argument("name", choices=tuple(MUTANTS), metavar="NAME")
    options(parser)
    arguments = parser.parse_args(argv)
    serve(peer_of(arguments.name, **chosen(arguments)))


if __name__ == "__main__":
    main()
