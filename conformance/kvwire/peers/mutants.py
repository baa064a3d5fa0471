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

from kvwire.peers import answers, endings, engines, frames, lapses, payloads, places, pressed, reported, shedding
from kvwire.peers.adapter import Peer, chosen, options, serve
from kvwire.trace import ControlLevel

LEVELS: tuple[ControlLevel, ...] = ("passive", "replayable", "driven")
OPAQUE = {"algorithm": "opaque"}
"""Parity does not apply to a mutant whose change makes hashes that no function gives."""

PARTS: Mapping[str, Mapping[str, Any]] = {
    "two-frames": {"make_publisher": frames.TwoFrames},
    "topic-per-message": {"make_publisher": frames.TopicPerMessage},
    "other-topic": {"make_publisher": frames.OtherTopic},
    "topic-not-text": {"make_publisher": frames.TopicNotText},
    "little-endian-number": {"make_publisher": frames.LittleEndianNumber},
    "trailing-byte": {"make_publisher": frames.TrailingByte},
    "first-is-one": {"make_publisher": frames.FirstIsOne},
    "skips-numbers": {"make_publisher": frames.SkipsNumbers},
    "loses-without-a-hole": {"make_publisher": frames.LosesWithoutAHole},
    "fills-holes": {"make_publisher": frames.FillsHoles},
    "reuses-numbers": {"make_publisher": frames.ReusesNumbers},
    "falls-back": {"make_publisher": frames.FallsBack},
    "goes-on-after-restart": {"make_publisher": frames.GoesOnAfterRestart},
    "no-leading-clear": {"make_publisher": frames.without_clear},
    "loses-every-third": {"make_publisher": frames.Loses},
    "numbers-what-it-keeps": {"make_publisher": shedding.NumbersWhatItKeeps},
    "numbers-what-it-encodes": {"make_publisher": shedding.NumbersWhatItEncodes},
    "stalls-after-a-failure": {"make_publisher": shedding.StallsAfterAFailure},
    "sheds-single-events": {"make_publisher": shedding.ShedsSingleEvents},
    "blocks-its-caller": {"make_publisher": shedding.BlocksItsCaller},
    "no-heartbeat": {"make_publisher": shedding.without_heartbeat, "heartbeat": 0.2},
    "batch-of-two": {"make_publisher": payloads.BatchOfTwo},
    "integer-ts": {"make_publisher": payloads.IntegerTs},
    "nan-ts": {"make_publisher": payloads.NanTs},
    "millisecond-ts": {"make_publisher": payloads.MillisecondTs},
    "ts-goes-back": {"make_publisher": payloads.TsGoesBack},
    "events-in-map": {"make_publisher": payloads.EventsInMap},
    "array-event": {"make_publisher": payloads.ArrayEvent},
    "integer-key": {"make_publisher": payloads.IntegerKey},
    "key-twice": {"make_publisher": payloads.KeyTwice},
    "ext-type": {"make_publisher": payloads.ExtType},
    "no-lora-name": {"make_publisher": payloads.NoLoraName},
    "removed-without-medium": {"make_publisher": payloads.RemovedWithoutMedium},
    "bytes-hashes": {"make_publisher": payloads.BytesHashes},
    "unsigned-hashes": {"make_publisher": payloads.UnsignedHashes},
    "zero-hash": {"make_publisher": payloads.ZeroHash, "statement": OPAQUE},
    "negative-token": {"make_publisher": payloads.NegativeToken},
    "digests-without-keys": {"make_publisher": payloads.DigestsWithoutKeys, "multimodal": True},
    "partial-blocks": {"make_engine": engines.AnnouncesPartialBlocks, "make_publisher": engines.Unchecked},
    "other-block-size": {"make_publisher": payloads.OtherBlockSize, "statement": OPAQUE},
    "empty-medium": {"make_publisher": payloads.EmptyMedium},
    "lower-case-medium": {"make_publisher": payloads.LowerCaseMedium},
    "other-group-on-removal": {"make_publisher": payloads.OtherGroupOnRemoval},
    "leaks-salt": {"make_engine": engines.LeaksSalt},
    "text-lora-id": {"make_publisher": payloads.TextLoraId},
    "nil-parent": {"make_publisher": payloads.NilParent, "statement": OPAQUE},
    "dangling-window-parent": {"make_publisher": payloads.DanglingWindowParent},
    "dangling-parent": {"make_publisher": payloads.DanglingParent},
    "child-of-capped": {"make_engine": engines.AnnouncesChildrenOfCapped},
    "self-parent": {"make_publisher": payloads.SelfParent, "statement": OPAQUE},
    "switches-width": {"make_engine": engines.SwitchesWidth},
    "no-wrap": {"make_engine": engines.NoWrap, "algorithm": "v1_block_key"},
    "last-eight-bytes": {"make_engine": engines.LastEightBytes},
    "announces-other-width": {"make_publisher": payloads.Announces},
    "changing-label": {"make_publisher": payloads.ChangingLabel},
    "bare-label": {"make_publisher": payloads.BareLabel},
    "ignores-scope": {"make_engine": engines.IgnoresScope},
    "hashes-anew": {"make_engine": engines.HashesAnew, "statement": OPAQUE},
    "eight-byte-tokens": {"make_publisher": payloads.Announces, "algorithm": "v2_sha256_64/u64"},
    "ignores-last-token": {"make_engine": engines.IgnoresLastToken, "statement": OPAQUE},
    "stores-twice": {"make_publisher": payloads.StoresTwice},
    "removes-unannounced": {"make_engine": engines.RemovesUnannounced},
    "evicts-silently": {"make_engine": engines.EvictsSilently},
    "removes-twice": {"make_publisher": payloads.RemovesTwice, "statement": {"residency": "counted"}},
    "clears-without-reset": {"make_engine": engines.ClearsWithoutReset},
    "resets-silently": {"make_engine": engines.ResetsSilently},
    "resets-late": {"make_engine": engines.ResetsLate},
    "caps-removals": {"make_engine": lapses.CapsRemovals},
    "never-announces-late": {"make_engine": lapses.NeverAnnouncesLate},
    "removes-on-split": {"make_engine": lapses.RemovesOnSplit},
    "removes-first-copy": {"make_engine": lapses.RemovesFirstCopy},
    "recomputes-silently": {"make_engine": lapses.RecomputesSilently},
    "hashes-content-only": {"make_engine": lapses.HashesContentOnly, "statement": OPAQUE},
    "seeded-hashes": {"make_engine": reported.SeededHashes},
    "zero-parent": {"make_publisher": reported.ZeroParent},
    "zero-for-nil": {"make_publisher": reported.ZeroForNil},
    "bigram-tokens": {"make_publisher": reported.BigramTokens},
    "spans-skipped-blocks": {"make_publisher": reported.SpansSkippedBlocks},
    "halves-block-size": {"make_publisher": reported.HalvesBlockSize},
    "tokenless-tier": {"make_publisher": reported.TokenlessTier},
    "finer-tier": {"make_publisher": reported.FinerTier, "statement": OPAQUE},
    "removes-late": {"make_engine": lapses.RemovesLate},
    "replay-without-topic": {"make_publisher": answers.ReplayWithoutTopic},
    "replay-rewritten": {"make_publisher": answers.ReplayRewritten},
    "replay-twice": {"make_publisher": answers.ReplayTwice},
    "replay-without-end": {"make_publisher": answers.ReplayWithoutEnd},
    "replay-two-ends": {"make_publisher": answers.ReplayTwoEnds},
    "replay-silent-on-future": {"make_publisher": answers.ReplaySilentOnFuture},
    "replay-any-frames": {"make_publisher": answers.ReplayAnyFrames},
    "replay-any-start": {"make_publisher": answers.ReplayAnyStart},
    "replay-sulks": {"make_publisher": answers.ReplaySulks},
    "replay-shuns": {"make_publisher": answers.ReplayShuns},
    "replay-truncated": {"make_publisher": answers.ReplayTruncated},
    "replay-forgets": {"make_publisher": answers.ReplayForgets},
    "replay-end-payload": {"make_publisher": answers.ReplayEndPayload},
    "replay-gives-up": {"make_publisher": pressed.gives_up},
    "replay-drops-silently": {"make_publisher": pressed.DropsSilently},
    "replay-skips": {"make_publisher": pressed.ReplaySkips},
    "replay-ends-early": {"make_publisher": pressed.ReplayEndsEarly},
    "replay-first": {"make_publisher": pressed.ReplayFirst},
    "replay-one-at-a-time": {"make_publisher": pressed.ReplayOneAtATime},
    "replay-dies-with-client": {"make_publisher": pressed.ReplayDiesWithClient},
    "replay-hoards": {"make_publisher": pressed.ReplayHoards},
    "replay-breaks-off": {"make_publisher": pressed.ReplayBreaksOff},
    "replay-counts-places": {"make_publisher": pressed.ReplayCountsPlaces},
    "nil-rank": {"make_publisher": payloads.NilRank},
    "switching-rank": {"make_publisher": payloads.SwitchingRank},
    "wrong-rank": {"make_publisher": payloads.WrongRank},
    "only-rank-zero": {"make_publisher": places.OnlyRankZero},
    "always-rank-zero": {"make_publisher": places.AlwaysRankZero},
    "shares-counter": {"make_publisher": places.SharesCounter},
    "dials": {"make_publisher": places.Dials},
    "ignores-rank-in-port": {"make_publisher": places.IgnoresRankInPort},
    "ignores-rank-in-path": {"make_publisher": places.IgnoresRankInPath},
    "guesses-port": {"make_publisher": places.GuessesPort},
    "wraps-ports": {"make_publisher": places.WrapsPorts},
    "looks-at-its-own-rank": {"make_publisher": places.LooksAtItsOwnRank},
    "any-scheme": {"make_publisher": places.AnyScheme},
    "empty-is-any": {"make_publisher": places.EmptyIsAny},
    "alone-on-its-host": {"make_publisher": places.AloneOnItsHost},
    "shares-its-path": {"make_publisher": places.SharesItsPath},
    "cuts-paths": {"make_publisher": places.CutsPaths},
    "names-nothing": {"make_publisher": places.NamesNothing},
    "checks-late": {"make_publisher": places.ChecksLate},
    "reports-what-was-asked": {"make_publisher": places.ReportsWhatWasAsked},
    "no-ipv6": {"make_publisher": places.NoIPv6},
    "stops-at-once": {"make_publisher": endings.StopsAtOnce},
    "forgets-the-rest": {"make_publisher": endings.ForgetsTheRest},
    "keeps-its-port": {"make_publisher": endings.KeepsItsPort},
    "wide-by-default": {"statement": {"default_endpoint": "tcp://*:5557"}},
    "binds-everywhere": {"make_publisher": places.BindsEverywhere},
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
