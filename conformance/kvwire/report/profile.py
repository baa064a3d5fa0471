"""What is on a stream, in lines for people: the whole profile, or the few lines that a report has room for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from kvwire.conclusion.diagnosis.advice import listeners, troubles
from kvwire.conclusion.diagnosis.agreement import Agreement
from kvwire.conclusion.diagnosis.stream_profile import StreamProfile
from kvwire.conclusion.result import Result
from kvwire.report.words import counted, singular

STREAMS = 4
"""How many streams are described one by one at most."""


def _ordered(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in _ordered(counts))


def some(names: Sequence[str], count: int) -> str:
    """Which of so many streams."""
    if len(names) == count:
        return "every stream"
    return ", ".join(names) if len(names) <= STREAMS else f"{len(names)} streams"


def by_text(found: Sequence[tuple[str, str]], count: int) -> Iterator[str]:
    """Lines about streams, each text once, with the streams in front of it where there are several."""
    grouped: dict[str, list[str]] = {}
    for stream, text in found:
        grouped.setdefault(text, []).append(stream)
    for text, streams in grouped.items():
        yield f"{some(streams, count)}: {text}" if count > 1 and streams != [""] else text


def shown(report: Result) -> Sequence[StreamProfile]:
    """The profiles that are worth a look; none where the events are what the harness offered."""
    return () if "engine" in report.run.sets else [one for one in report.profiles if one.batches]


def causes(report: Result) -> list[str]:
    """What keeps a consumer from hits, of a run in which nothing was done to the publisher; of others nothing is said,
    for restarts and losses are the harness's there.
    """
    if report.run.level == "driven":
        return []
    found = [(one.name, text) for one in shown(report) for text in troubles(one)]
    return [*by_text(found, len(report.profiles)), *_partings(report.agreements)]


def _partings(agreements: Sequence[Agreement]) -> Iterator[str]:
    """Streams that hash one prompt differently, and why; of a fleet each reason once."""
    parted: dict[tuple[str, ...], list[Agreement]] = {}
    for one in agreements:
        if one.parting is not None:
            reasons = (_nameless(text, one.streams) for text in one.parting.why)
            parted.setdefault(tuple(reasons), []).append(one)
    for pairs in parted.values():
        first = pairs[0]
        assert first.parting is not None
        more = f", and {len(pairs) - 1} more pairs like this" if len(pairs) > 1 else ""
        yield f"{first.said}, because {'; '.join(first.parting.why)}{more}"


def _nameless(text: str, streams: tuple[str, str]) -> str:
    for name in streams:
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "", text)
    return text


def labelled(console: Console, label: str, text: str) -> None:
    """A line with its label in front, wrapped beside it."""
    _beside(console, Text("  ") + Text(label.ljust(12), style="dim"), text)


def pointed(console: Console, mark: str, style: str, text: str) -> None:
    """A line with a mark in front, wrapped beside it."""
    _beside(console, Text(mark.ljust(2), style=style), text)


def _beside(console: Console, lead: Text, text: str) -> None:
    for at, line in enumerate(Text(singular(text)).wrap(console, max(20, console.width - lead.cell_len))):
        line.rstrip()
        console.print(
            (lead if at == 0 else Text(" " * lead.cell_len)) + line, no_wrap=True, overflow="ignore", crop=False
        )


def brief(profile: StreamProfile) -> Iterator[tuple[str, str]]:
    """The few lines of a profile that tell one engine from another."""
    chosen = ("group", "media", "adapters", "extra_keys", "mm_keys", "scope", "hashes")
    for label, text in lines(profile):
        if label.startswith(chosen) and not (label == "media" and len(profile.media) == 1):
            yield label, text


def lines(profile: StreamProfile) -> Iterator[tuple[str, str]]:
    """What is on a stream: a label and a text each; nothing is said of what was not seen."""
    heard = f"{counted(profile.batches, 'batches')} in {profile.seconds:.1f} s"
    if profile.part:
        heard = f"the beginning, {heard}"
    if profile.batches:
        numbers = f"numbers {profile.first_number} to {profile.last_number}"
        if profile.restarts:
            numbers = f"numbers from {profile.first_number} on, to {profile.last_number} of the last life"
        heard += f", {numbers}, {profile.lost} lost, {counted(profile.restarts, 'restarts')}"
        if profile.longest_silence_s >= 1:
            heard += f", silent for {profile.longest_silence_s:.1f} s at most"
    yield "heard", heard if profile.connected else "no connection"
    if profile.topics:
        given = "" if profile.topic_given is None else f" (given: {profile.topic_given!r})"
        yield "topic", ", ".join(map(repr, profile.topics)) + given
    if profile.batches:
        ranks = ", ".join("nil" if rank is None else str(rank) for rank in profile.ranks)
        forms = ", ".join(name for name, _ in _ordered(profile.forms)) or "no events"
        yield "form", f"{forms}; rank {ranks}; {_counts(profile.events) or 'no events'}"
    for group in profile.groups:
        kinds = ", ".join(group.kinds) or "no kind told"
        windows = f", window {', '.join(map(str, group.windows))}" if group.windows else ""
        sizes = ", ".join(map(str, group.block_sizes)) or "?"
        yield (
            f"group {group.idx}",
            f"{kinds}{windows}, blocks of {sizes} tokens: {group.stored} stored, {group.removed} removed",
        )
    if profile.media:
        yield "media", ", ".join(f"{name} {count}" for name, count in _ordered(profile.media)) + " stores"
    if profile.adapters:
        told = (
            f"{'no id' if one.id is None else f'id {one.id}'}, "
            f"{'no name' if one.name is None else f'name {one.name!r}'} ({one.stores})"
            for one in profile.adapters
        )
        yield "adapters", "; ".join(told)
    for label, counts in (("extra_keys", profile.extra_keys), ("mm_keys", profile.mm_keys), ("scope", profile.scopes)):
        if counts:
            yield label, ", ".join(f"{shape} ({count})" for shape, count in _ordered(counts))
    if profile.hashed:
        yield "hashes", _hashes(profile)
    if profile.blocks:
        parents = f"{profile.roots} begun, {counted(profile.orphans, 'stores')} whose parent was never heard live"
        twice = f", {profile.twice} blocks stored twice" if profile.twice else ""
        yield "chains", f"{parents}{twice}; {counted(profile.resident, 'blocks')} resident at the end"
    if profile.replay is not None or profile.replayed:
        form = profile.replay_form or "no batch came"
        oldest = "" if profile.replay_oldest is None else f", the oldest number {profile.replay_oldest}"
        yield "replay", f"{profile.replay}: {counted(profile.replayed, 'batches')} retained{oldest}; {form}"
    if said := listeners(profile.endpoint):
        yield "listeners", said


def _hashes(profile: StreamProfile) -> str:
    sign = "signed" if profile.signed and not profile.unsigned else "unsigned" if profile.unsigned else "of either sign"
    label = f"; events say {', '.join(sorted(profile.labels))}" if profile.labels else ""
    if not profile.functions:
        return f"of no known function (0 of {profile.hashed} recomputed), {sign}{label}"
    told = []
    for one in profile.functions[:3]:
        seed = "" if one.seed is None else f" with PYTHONHASHSEED={one.seed}"
        finer = "" if one.finer is None else f" by parts of {one.finer} tokens"
        told.append(f"{one.function}{seed}{finer} (recomputed {one.blocks} of {one.tried})")
    return f"{', or '.join(told)}, {sign}{label}"
