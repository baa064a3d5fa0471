"""The mutants: the reference with one small named change each, and the verdicts that each must get, exactly.

``mutants.toml`` says what a mutant changes, the sentence that it breaks, what else must speak and why; CI compares the
sets both ways, on the live run and on its stored trace. A crash is not a kill. At a level where the change cannot be
seen nobody may speak.

``python -m kvwire.peers.mutants NAME`` serves one, driven by the adapter protocol.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec

from kvwire.peers import (
    endpoint_faults,
    engine_faults,
    frame_faults,
    payload_faults,
    pressure_faults,
    queue_faults,
    replay_faults,
    reported_faults,
    residency_faults,
    stop_faults,
)
from kvwire.peers.adapter import Peer, chosen, options, serve
from kvwire.standard.registry import ControlLevel

LEVELS: tuple[ControlLevel, ...] = ("passive", "replayable", "driven")
OPAQUE = {"algorithm": "opaque"}
"""Parity does not apply to a mutant whose change makes hashes that no function gives."""

PARTS: Mapping[str, Mapping[str, Any]] = {
    "two-frames": {"make_publisher": frame_faults.TwoFrames},
    "topic-per-message": {"make_publisher": frame_faults.TopicPerMessage},
    "other-topic": {"make_publisher": frame_faults.OtherTopic},
    "topic-not-text": {"make_publisher": frame_faults.TopicNotText},
    "little-endian-number": {"make_publisher": frame_faults.LittleEndianNumber},
    "trailing-byte": {"make_publisher": frame_faults.TrailingByte},
    "first-is-one": {"make_publisher": frame_faults.FirstIsOne},
    "skips-numbers": {"make_publisher": frame_faults.SkipsNumbers},
    "loses-without-a-hole": {"make_publisher": frame_faults.LosesWithoutAHole},
    "fills-holes": {"make_publisher": frame_faults.FillsHoles},
    "reuses-numbers": {"make_publisher": frame_faults.ReusesNumbers},
    "falls-back": {"make_publisher": frame_faults.FallsBack},
    "goes-on-after-restart": {"make_publisher": frame_faults.GoesOnAfterRestart},
    "no-leading-clear": {"make_publisher": frame_faults.without_clear},
    "loses-every-third": {"make_publisher": frame_faults.Loses},
    "numbers-what-it-keeps": {"make_publisher": queue_faults.NumbersWhatItKeeps},
    "numbers-what-it-encodes": {"make_publisher": queue_faults.NumbersWhatItEncodes},
    "stalls-after-a-failure": {"make_publisher": queue_faults.StallsAfterAFailure},
    "sheds-single-events": {"make_publisher": queue_faults.ShedsSingleEvents},
    "blocks-its-caller": {"make_publisher": queue_faults.BlocksItsCaller},
    "no-heartbeat": {"make_publisher": queue_faults.without_heartbeat, "heartbeat": 0.2},
    "batch-of-two": {"make_publisher": payload_faults.BatchOfTwo},
    "integer-ts": {"make_publisher": payload_faults.IntegerTs},
    "nan-ts": {"make_publisher": payload_faults.NanTs},
    "millisecond-ts": {"make_publisher": payload_faults.MillisecondTs},
    "ts-goes-back": {"make_publisher": payload_faults.TsGoesBack},
    "events-in-map": {"make_publisher": payload_faults.EventsInMap},
    "array-event": {"make_publisher": payload_faults.ArrayEvent},
    "integer-key": {"make_publisher": payload_faults.IntegerKey},
    "key-twice": {"make_publisher": payload_faults.KeyTwice},
    "ext-type": {"make_publisher": payload_faults.ExtType},
    "no-lora-name": {"make_publisher": payload_faults.NoLoraName},
    "removed-without-medium": {"make_publisher": payload_faults.RemovedWithoutMedium},
    "bytes-hashes": {"make_publisher": payload_faults.BytesHashes},
    "unsigned-hashes": {"make_publisher": payload_faults.UnsignedHashes},
    "zero-hash": {"make_publisher": payload_faults.ZeroHash, "statement": OPAQUE},
    "negative-token": {"make_publisher": payload_faults.NegativeToken},
    "digests-without-keys": {"make_publisher": payload_faults.DigestsWithoutKeys, "multimodal": True},
    "partial-blocks": {"make_engine": engine_faults.AnnouncesPartialBlocks, "make_publisher": engine_faults.Unchecked},
    "other-block-size": {"make_publisher": payload_faults.OtherBlockSize, "statement": OPAQUE},
    "empty-medium": {"make_publisher": payload_faults.EmptyMedium},
    "lower-case-medium": {"make_publisher": payload_faults.LowerCaseMedium},
    "other-group-on-removal": {"make_publisher": payload_faults.OtherGroupOnRemoval},
    "leaks-salt": {"make_engine": engine_faults.LeaksSalt},
    "text-lora-id": {"make_publisher": payload_faults.TextLoraId},
    "nil-parent": {"make_publisher": payload_faults.NilParent, "statement": OPAQUE},
    "dangling-window-parent": {"make_publisher": payload_faults.DanglingWindowParent},
    "dangling-parent": {"make_publisher": payload_faults.DanglingParent},
    "child-of-capped": {"make_engine": engine_faults.AnnouncesChildrenOfCapped},
    "self-parent": {"make_publisher": payload_faults.SelfParent, "statement": OPAQUE},
    "switches-width": {"make_engine": engine_faults.SwitchesWidth},
    "no-wrap": {"make_engine": engine_faults.NoWrap, "algorithm": "v1_block_key"},
    "last-eight-bytes": {"make_engine": engine_faults.LastEightBytes},
    "announces-other-width": {"make_publisher": payload_faults.Announces},
    "changing-label": {"make_publisher": payload_faults.ChangingLabel},
    "bare-label": {"make_publisher": payload_faults.BareLabel},
    "ignores-scope": {"make_engine": engine_faults.IgnoresScope},
    "hashes-anew": {"make_engine": engine_faults.HashesAnew, "statement": OPAQUE},
    "eight-byte-tokens": {"make_publisher": payload_faults.Announces, "algorithm": "v2_sha256_64/u64"},
    "ignores-last-token": {"make_engine": engine_faults.IgnoresLastToken, "statement": OPAQUE},
    "stores-twice": {"make_publisher": payload_faults.StoresTwice},
    "removes-unannounced": {"make_engine": engine_faults.RemovesUnannounced},
    "evicts-silently": {"make_engine": engine_faults.EvictsSilently},
    "removes-twice": {"make_publisher": payload_faults.RemovesTwice, "statement": {"residency": "counted"}},
    "clears-without-reset": {"make_engine": engine_faults.ClearsWithoutReset},
    "resets-silently": {"make_engine": engine_faults.ResetsSilently},
    "resets-late": {"make_engine": engine_faults.ResetsLate},
    "caps-removals": {"make_engine": residency_faults.CapsRemovals},
    "never-announces-late": {"make_engine": residency_faults.NeverAnnouncesLate},
    "removes-on-split": {"make_engine": residency_faults.RemovesOnSplit},
    "removes-first-copy": {"make_engine": residency_faults.RemovesFirstCopy},
    "recomputes-silently": {"make_engine": residency_faults.RecomputesSilently},
    "hashes-content-only": {"make_engine": residency_faults.HashesContentOnly, "statement": OPAQUE},
    "seeded-hashes": {"make_engine": reported_faults.SeededHashes},
    "zero-parent": {"make_publisher": reported_faults.ZeroParent},
    "zero-for-nil": {"make_publisher": reported_faults.ZeroForNil},
    "bigram-tokens": {"make_publisher": reported_faults.BigramTokens},
    "spans-skipped-blocks": {"make_publisher": reported_faults.SpansSkippedBlocks},
    "halves-block-size": {"make_publisher": reported_faults.HalvesBlockSize},
    "tokenless-tier": {"make_publisher": reported_faults.TokenlessTier},
    "finer-tier": {"make_publisher": reported_faults.FinerTier, "statement": OPAQUE},
    "removes-late": {"make_engine": residency_faults.RemovesLate},
    "replay-without-topic": {"make_publisher": replay_faults.ReplayWithoutTopic},
    "replay-rewritten": {"make_publisher": replay_faults.ReplayRewritten},
    "replay-twice": {"make_publisher": replay_faults.ReplayTwice},
    "replay-without-end": {"make_publisher": replay_faults.ReplayWithoutEnd},
    "replay-two-ends": {"make_publisher": replay_faults.ReplayTwoEnds},
    "replay-silent-on-future": {"make_publisher": replay_faults.ReplaySilentOnFuture},
    "replay-any-frames": {"make_publisher": replay_faults.ReplayAnyFrames},
    "replay-any-start": {"make_publisher": replay_faults.ReplayAnyStart},
    "replay-sulks": {"make_publisher": replay_faults.ReplaySulks},
    "replay-shuns": {"make_publisher": replay_faults.ReplayShuns},
    "replay-truncated": {"make_publisher": replay_faults.ReplayTruncated},
    "replay-forgets": {"make_publisher": replay_faults.ReplayForgets},
    "replay-end-payload": {"make_publisher": replay_faults.ReplayEndPayload},
    "replay-gives-up": {"make_publisher": pressure_faults.gives_up},
    "replay-drops-silently": {"make_publisher": pressure_faults.DropsSilently},
    "replay-skips": {"make_publisher": pressure_faults.ReplaySkips},
    "replay-ends-early": {"make_publisher": pressure_faults.ReplayEndsEarly},
    "replay-first": {"make_publisher": pressure_faults.ReplayFirst},
    "replay-one-at-a-time": {"make_publisher": pressure_faults.ReplayOneAtATime},
    "replay-dies-with-client": {"make_publisher": pressure_faults.ReplayDiesWithClient},
    "replay-hoards": {"make_publisher": pressure_faults.ReplayHoards},
    "replay-breaks-off": {"make_publisher": pressure_faults.ReplayBreaksOff},
    "replay-counts-places": {"make_publisher": pressure_faults.ReplayCountsPlaces},
    "nil-rank": {"make_publisher": payload_faults.NilRank},
    "switching-rank": {"make_publisher": payload_faults.SwitchingRank},
    "wrong-rank": {"make_publisher": payload_faults.WrongRank},
    "only-rank-zero": {"make_publisher": endpoint_faults.OnlyRankZero},
    "always-rank-zero": {"make_publisher": endpoint_faults.AlwaysRankZero},
    "shares-counter": {"make_publisher": endpoint_faults.SharesCounter},
    "dials": {"make_publisher": endpoint_faults.Dials},
    "ignores-rank-in-port": {"make_publisher": endpoint_faults.IgnoresRankInPort},
    "ignores-rank-in-path": {"make_publisher": endpoint_faults.IgnoresRankInPath},
    "guesses-port": {"make_publisher": endpoint_faults.GuessesPort},
    "wraps-ports": {"make_publisher": endpoint_faults.WrapsPorts},
    "looks-at-its-own-rank": {"make_publisher": endpoint_faults.LooksAtItsOwnRank},
    "any-scheme": {"make_publisher": endpoint_faults.AnyScheme},
    "empty-is-any": {"make_publisher": endpoint_faults.EmptyIsAny},
    "alone-on-its-host": {"make_publisher": endpoint_faults.AloneOnItsHost},
    "shares-its-path": {"make_publisher": endpoint_faults.SharesItsPath},
    "cuts-paths": {"make_publisher": endpoint_faults.CutsPaths},
    "names-nothing": {"make_publisher": endpoint_faults.NamesNothing},
    "checks-late": {"make_publisher": endpoint_faults.ChecksLate},
    "reports-what-was-asked": {"make_publisher": endpoint_faults.ReportsWhatWasAsked},
    "no-ipv6": {"make_publisher": endpoint_faults.NoIPv6},
    "stops-at-once": {"make_publisher": stop_faults.StopsAtOnce},
    "forgets-the-rest": {"make_publisher": stop_faults.ForgetsTheRest},
    "keeps-its-port": {"make_publisher": stop_faults.KeepsItsPort},
    "wide-by-default": {"statement": {"default_endpoint": "tcp://*:5557"}},
    "binds-everywhere": {"make_publisher": endpoint_faults.BindsEverywhere},
}
"""The fields of ``kvwire.peers.adapter.Peer`` that each mutant sets."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    primary: str
    change: str
    also: str = ""
    passive: str = ""
    replayable: str = ""
    driven: str = ""
    levels: tuple[ControlLevel, ...] = LEVELS
    reason: str = ""
    reports: str = ""


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the reference, and who must speak of it: ``expected`` holds the ids per level of control.

    ``reports`` are the public reports of that fault, each ``repository#number``.
    """

    name: str
    primary: str
    change: str
    expected: Mapping[ControlLevel, frozenset[str]]
    levels: tuple[ControlLevel, ...]
    reason: str
    reports: tuple[str, ...]
    peer: Mapping[str, Any]


def _ids(text: str) -> frozenset[str]:
    return frozenset(f"KVW-{part}" for part in text.split())


def _mutant(name: str, entry: _Entry) -> Mutant:
    speaks = _ids(f"{entry.primary} {entry.also}")
    extra = {level: _ids(getattr(entry, level)) for level in LEVELS}
    return Mutant(
        name=name,
        primary=f"KVW-{entry.primary}",
        change=entry.change,
        expected={level: (speaks if level in entry.levels else frozenset()) | extra[level] for level in LEVELS},
        levels=entry.levels,
        reason=entry.reason,
        reports=tuple(entry.reports.split()),
        peer=PARTS[name],
    )


def _load() -> Mapping[str, Mutant]:
    raw = tomllib.loads(resources.files("kvwire.peers").joinpath("mutants.toml").read_text(encoding="utf-8"))
    entries = msgspec.convert(raw, dict[str, _Entry])
    assert set(entries) == set(PARTS), f"mutants.toml and PARTS differ: {set(entries) ^ set(PARTS)}"
    return {name: _mutant(name, entry) for name, entry in entries.items()}


MUTANTS: Mapping[str, Mutant] = _load()
"""Every mutant by name, in the order of the areas."""


def killed_by(requirement: str) -> tuple[Mutant, ...]:
    """The mutants whose primary sentence this is."""
    return tuple(mutant for mutant in MUTANTS.values() if mutant.primary == requirement)


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
