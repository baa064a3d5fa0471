"""A diagnosis for people: what was found first, then what is on each stream."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kvwire.conclusion.diagnosis.agreement import Agreement
from kvwire.conclusion.diagnosis.reuse import Reused
from kvwire.conclusion.diagnosis.stream_profile import StreamProfile
from kvwire.conclusion.doctor import Diagnosis
from kvwire.report.profile import STREAMS, by_text, labelled, lines, pointed
from kvwire.report.visible import safe
from kvwire.report.words import counted

LINES = 12


def render(diagnosis: Diagnosis, console: Console) -> None:
    """The whole diagnosis."""
    shown = safe(diagnosis)
    console.print(Text(f"{', '.join(shown.targets)}: what is on the stream", style="bold"))
    several = len(shown.streams) > 1
    found = [(trouble.stream, trouble.text) for trouble in shown.troubles]
    for text in list(by_text(found, len(shown.streams)))[:LINES]:
        pointed(console, "•", "bold yellow", text)
    for text in list(by_text([(one.stream, one.text) for one in shown.broken], len(shown.streams)))[:LINES]:
        pointed(console, "✗", "bold red", text)
    for difference in shown.differences:
        on = f"{difference.stream}: " if several and difference.stream else ""
        pointed(console, "≠", "bold red", f"{on}{difference.said}")
    for agreement in shown.agreements:
        _agreement(agreement, console)
    _reuse(shown.reuse, console)
    if shown.clean:
        console.print(Text("nothing was found that would keep a consumer from hits", style="bold green"))
    for profile in shown.streams if len(shown.streams) <= STREAMS else ():
        console.print()
        console.print(Text(f"{profile.name} at {profile.endpoint}", style="bold"))
        for label, text in lines(profile):
            labelled(console, label, text)
    if len(shown.streams) > STREAMS:
        console.print()
        for profile in shown.streams:
            console.print(Text(_in_a_line(profile)))
    if shown.next:
        console.print()
        for line in shown.next:
            console.print(Text("next: ", style="dim") + Text(line))


def _reuse(found: Sequence[Reused], console: Console) -> None:
    """The prompts of which what is announced and what is reused part; of all how many."""
    parted = [one for one in found if one.parting is not None]
    for one in parted[:LINES]:
        pointed(console, "≠", "bold red", one.said)
    if found:
        style = "bold red" if parted else "green"
        said = f"announced and reused agree for {len(found) - len(parted)} of {counted(len(found), 'prompts')}"
        pointed(console, "=" if not parted else "≠", style, said)


def _agreement(agreement: Agreement, console: Console) -> None:
    parting = agreement.parting
    style = "bold red" if parting is not None else "green" if agreement.shared else "dim"
    pointed(console, "=" if parting is None else "≠", style, agreement.said)
    if parting is None:
        return
    first = ", ".join(map(str, parting.first))
    hashes = " against ".join(map(str, parting.hashes))
    pointed(console, "", "", f"they part within the first {parting.tokens} tokens ({first}, …): {hashes}")
    for why in parting.why:
        pointed(console, "  because ", "dim", why)


def _in_a_line(profile: StreamProfile) -> str:
    function = profile.function
    hashed = "no known function" if function is None else f"{function.function} {function.blocks} of {function.tried}"
    ranks = ", ".join(str(rank) for rank in profile.ranks)
    batches = counted(profile.batches, "batches")
    return f"{profile.name}: {batches}, rank {ranks or '–'}, {hashed}, {profile.resident} blocks"
