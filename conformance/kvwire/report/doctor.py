"""A diagnosis for people: what was found first, then what is on each stream."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from kvwire.conclusion.diagnosis.advice import listeners
from kvwire.conclusion.diagnosis.agreement import Agreement
from kvwire.conclusion.diagnosis.diagnosis import Diagnosis
from kvwire.conclusion.diagnosis.stream_profile import StreamProfile
from kvwire.report.visible import safe
from kvwire.report.words import counted

STREAMS = 4
"""How many streams are shown in full at most; of more, each in a line."""
LINES = 12


def render(diagnosis: Diagnosis, console: Console) -> None:
    """The whole diagnosis."""
    shown = safe(diagnosis)
    console.print(Text(f"{', '.join(shown.targets)}: what is on the stream", style="bold"))
    several = len(shown.streams) > 1
    found: dict[str, list[str]] = {}
    for trouble in shown.troubles:
        found.setdefault(trouble.text, []).append(trouble.stream)
    for text, streams in list(found.items())[:LINES]:
        on = f"{_some(streams, len(shown.streams))}: " if several else ""
        console.print(Text("• ", style="bold yellow") + Text(f"{on}{text}"))
    for difference in shown.differences:
        on = f"{difference.stream}: " if several and difference.stream else ""
        console.print(Text("≠ ", style="bold red") + Text(f"{on}{difference.said}"))
    for agreement in shown.agreements:
        _agreement(agreement, console)
    if shown.clean:
        console.print(Text("nothing was found that would keep a consumer from hits", style="bold green"))
    for profile in shown.streams if len(shown.streams) <= STREAMS else ():
        console.print()
        console.print(Text(f"{profile.name} at {profile.endpoint}", style="bold"))
        for label, text in lines(profile):
            _labelled(console, label, text)
    if len(shown.streams) > STREAMS:
        console.print()
        for profile in shown.streams:
            console.print(Text(_in_a_line(profile)))
    if shown.next:
        console.print()
        for line in shown.next:
            console.print(Text("next: ", style="dim") + Text(line))


def _some(names: list[str], count: int) -> str:
    if len(names) == count:
        return "every stream"
    return ", ".join(names) if len(names) <= STREAMS else f"{len(names)} streams"


def _agreement(agreement: Agreement, console: Console) -> None:
    parting = agreement.parting
    style = "bold red" if parting is not None else "green" if agreement.shared else "dim"
    console.print(Text("= " if parting is None else "≠ ", style=style) + Text(agreement.said))
    if parting is None:
        return
    first = ", ".join(map(str, parting.first))
    hashes = " against ".join(map(str, parting.hashes))
    console.print(Text(f"  they part within the first {parting.tokens} tokens ({first}, …): {hashes}"))
    for why in parting.why:
        console.print(Text("  because ", style="dim") + Text(why))


def _labelled(console: Console, label: str, text: str) -> None:
    column = 12
    for at, line in enumerate(Text(text).wrap(console, max(20, console.width - 2 - column))):
        line.rstrip()
        lead = Text("  ") + Text((label if at == 0 else "").ljust(column), style="dim")
        console.print(lead + line, no_wrap=True, overflow="ignore", crop=False)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _in_a_line(profile: StreamProfile) -> str:
    function = profile.function
    hashed = "no known function" if function is None else f"{function.function} {function.blocks} of {function.tried}"
    ranks = ", ".join(str(rank) for rank in profile.ranks)
    batches = counted(profile.batches, "batches")
    return f"{profile.name}: {batches}, rank {ranks or '–'}, {hashed}, {profile.resident} blocks"


def lines(profile: StreamProfile) -> Iterator[tuple[str, str]]:
    """What is on a stream: a label and a text each; nothing is said of what was not seen."""
    heard = f"{counted(profile.batches, 'batches')} in {profile.seconds:.1f} s"
    if profile.batches:
        numbers = f"numbers {profile.first_number} to {profile.last_number}"
        heard += f", {numbers}, {profile.lost} lost, {counted(profile.restarts, 'restarts')}"
        if profile.longest_silence_s >= 1:
            heard += f", silent for {profile.longest_silence_s:.1f} s at most"
    yield "heard", heard if profile.connected else "no connection"
    if profile.topics:
        given = "" if profile.topic_given is None else f" (given: {profile.topic_given!r})"
        yield "topic", ", ".join(map(repr, profile.topics)) + given
    if profile.batches:
        ranks = ", ".join("nil" if rank is None else str(rank) for rank in profile.ranks)
        forms = ", ".join(profile.forms) or "no events"
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
        yield "media", ", ".join(f"{name} {count}" for name, count in profile.media.items()) + " stores"
    if profile.adapters:
        told = (
            f"{'no id' if one.id is None else f'id {one.id}'}, "
            f"{'no name' if one.name is None else f'name {one.name!r}'} ({one.stores})"
            for one in profile.adapters
        )
        yield "adapters", "; ".join(told)
    for label, counts in (("extra_keys", profile.extra_keys), ("mm_keys", profile.mm_keys), ("scope", profile.scopes)):
        if counts:
            yield label, ", ".join(f"{shape} ({count})" for shape, count in counts.items())
    if profile.hashed:
        yield "hashes", _hashes(profile)
    if profile.blocks:
        parents = f"{profile.roots} begun, {counted(profile.orphans, 'stores')} whose parent was never heard"
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
    label = f"; events say {', '.join(profile.labels)}" if profile.labels else ""
    if not profile.functions:
        return f"of no known function (0 of {profile.hashed} recomputed), {sign}{label}"
    told = []
    for one in profile.functions[:3]:
        seed = "" if one.seed is None else f" with PYTHONHASHSEED={one.seed}"
        finer = "" if one.finer is None else f" by parts of {one.finer} tokens"
        told.append(f"{one.function}{seed}{finer} (recomputed {one.blocks} of {one.tried})")
    return f"{', or '.join(told)}, {sign}{label}"
