"""What no sentence speaks of and a reader must know at once: a line each, with the time in the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kvwire.conclusion.fleet import Fleet, Member, listed, member, seconds
from kvwire.conclusion.hearing import Hearing
from kvwire.conclusion.result import Notice
from kvwire.conclusion.showing import Judged
from kvwire.history.rhythm import allowed_s
from kvwire.trace.calls import CacheCall
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import AttackBegins, CaptureNote, ProcessExit
from kvwire.trace.records import Record, told

ADAPTED = ("exec:", "reference:", "mutant:")
"""Targets whose publishers the harness stops and starts itself."""
WORDS = 200
"""How many characters of somebody else's words are shown."""


def _on_one_line(text: str) -> str:
    """Somebody else's words."""
    text = " ".join(text.split())
    return text if len(text) <= WORDS else text[:WORDS] + "…"


def notices(hearing: Hearing, judged: Sequence[Judged]) -> tuple[Notice, ...]:
    """All of them: deaths, connections and streams one by one, then what streams have together."""
    cut = (Notice(what="cut-short", text=hearing.cut),) if hearing.cut else ()
    if not hearing.records:
        return cut
    found: list[Notice] = [*cut, *_deaths(hearing)]
    header = hearing.header
    ours = header.life_from_start or header.target.startswith(ADAPTED)
    gone = {name for notice in found for name in notice.streams}
    quiet: dict[str, float] = {}
    fleet = Fleet()
    fleet.add(members(hearing, judged, prefixes=False))  # a run says by itself how its streams agree
    together = list(fleet.notices())
    stopped = {name for notice in together if notice.what == "stopped" for name in notice.streams}
    ended: dict[str, tuple[float, float]] = {}
    away: list[tuple[str, float, float | None]] = []
    for name, pace in hearing.paces.items():
        records = hearing.details_of(name)
        lost = [] if ours else list(_lost(records, hearing))
        away += ((name, at, back) for at, back in lost)
        if pace.last_ns < 0:
            if (since := _connected(records)) is not None and not lost:
                quiet[name] = hearing.end - hearing.at(since)
        elif not (lost or ours or name in gone or name in stopped) and (times := _silence(name, hearing)) is not None:
            ended[name] = times
    found += _away([(name, at, back) for name, at, back in away if back is not None])
    found += _away([(name, at, back) for name, at, back in away if back is None])
    if quiet:
        which = "" if len(hearing.paces) == 1 else f" of {listed(list(quiet))}"
        said = f"connected, and nothing came{which} in {seconds(min(quiet.values()))}"
        found.append(Notice(what="nothing-came", streams=list(quiet), text=said))
    if ended:
        at, rest = min(at for at, _ in ended.values()), min(rest for _, rest in ended.values())
        said = f"{listed(list(ended))} fell silent after {seconds(at)}: nothing more in {seconds(rest)}"
        found.append(Notice(what="silent", streams=list(ended), after_s=at, text=said))
    found += _interleaved(judged, hearing)
    found += together
    found += _refused(hearing)
    found += (Notice(what="capture", text=note.text) for _, note in told(hearing.details, CaptureNote))
    return tuple(found)


def members(hearing: Hearing, judged: Sequence[Judged], *, prefixes: bool) -> tuple[Member, ...]:
    """What each stream of a run shows that others are held against; ``prefixes``: its hashes too."""
    return tuple(
        member(one.stream, hearing, one.appearance.ranks, one.identity if prefixes else None) for one in judged
    )


def death(how: str, after_s: float) -> str:
    """The end of a target that nobody ended."""
    return f"the adapter's process ended by itself after {seconds(after_s)} ({_on_one_line(how)})"


def _deaths(hearing: Hearing) -> Iterator[Notice]:
    """Of the publisher under test, and of instances that were attacked."""
    own = {"", *(stream.name for stream in hearing.header.streams)}
    own |= {record.stream for _, record in hearing.details if isinstance(record.detail, AttackBegins)}
    for _, record in hearing.details:
        end = record.detail
        if isinstance(end, ProcessExit) and end.expected is False and record.stream in own:
            at = hearing.at(record)
            on = [record.stream] if record.stream else []
            yield Notice(what="died", streams=on, after_s=at, text=death(end.how, at))


def _connected(records: Sequence[Record]) -> Record | None:
    """The first handshake of a live witness."""
    return next((record for record in records if _of_witness(record) == "HANDSHAKE_SUCCEEDED"), None)


def _of_witness(record: Record) -> str | None:
    """What the monitor of a live witness said."""
    said = record.detail
    return said.event if isinstance(said, SocketEvent) and said.of.startswith("live-") else None


def _lost(records: Sequence[Record], clock: Hearing) -> Iterator[tuple[float, float | None]]:
    """Times for which no witness had a connection: from when, and until when, None if it did not come back."""
    up: Counter[str] = Counter()
    down: Record | None = None
    for record in records:
        if (event := _of_witness(record)) is None:
            continue
        assert isinstance(record.detail, SocketEvent)
        if event == "HANDSHAKE_SUCCEEDED":
            up[record.detail.of] += 1
            if down is not None:
                yield clock.at(down), clock.at(record)
                down = None
        elif event == "DISCONNECTED" and up[record.detail.of]:
            up[record.detail.of] -= 1
            if not up.total():
                down = record
    if down is not None:
        yield clock.at(down), None


def _away(lost: Sequence[tuple[str, float, float | None]]) -> Iterator[Notice]:
    """Connections that were lost, each for itself, or of several streams together; all came back, or none."""
    names = list(dict.fromkeys(name for name, _, _ in lost))
    for part in [lost] if len(names) > 1 else [[one] for one in lost]:
        at, back = min(at for _, at, _ in part), max((back for _, _, back in part if back is not None), default=None)
        again = "not back" if back is None else f"back after {seconds(back)}"
        said = f"connection{'s' if len(names) > 1 else ''} to {listed(names)} lost after {seconds(at)}, {again}"
        yield Notice(
            what="connection-lost" if back is None else "connection-back", streams=names, after_s=at, text=said
        )


def _silence(name: str, hearing: Hearing) -> tuple[float, float] | None:
    """When a stream that nobody drives was heard last, and for how long then no more; None while it may just pause."""
    last = hearing.last(name)
    assert last is not None
    rest = hearing.end - last
    return (last, rest) if rest >= allowed_s(hearing.paces[name].longest_ns / 1e9) else None


def _interleaved(judged: Sequence[Judged], hearing: Hearing) -> Iterator[Notice]:
    """Streams on which several counters interleave."""
    for one in judged:
        if one.senders is not None:
            found, t_ns = one.senders
            at, name = hearing.at_ns(t_ns), one.stream.name
            said = f"{name} from {seconds(at)} on: {found.text}"
            yield Notice(what="several-senders", streams=[name], after_s=at, text=said)


def _refused(hearing: Hearing) -> Iterator[Notice]:
    """Prompts that the publisher under test refused, by what they have beside tokens."""
    own = hearing.paces.keys()
    asked: Counter[str] = Counter()
    refused: dict[str, list[tuple[float, str]]] = {}
    for _, record in hearing.details:
        call = record.detail
        if not isinstance(call, CacheCall) or record.stream not in own:
            continue
        parts = (("LoRA", call.lora), ("a salt", call.salt), ("multimodal content", call.mm))
        sort = " and ".join(name for name, value in parts if value is not None) or "tokens alone"
        asked[sort] += 1
        if call.refused is not None:
            refused.setdefault(sort, []).append((hearing.at(record), call.refused))
    for sort, times in refused.items():
        (at, why), prompts = times[0], f"prompt{'s' if asked[sort] > 1 else ''} with {sort}"
        first = "" if len(times) == 1 else "the first "
        said = f"refused: {len(times)} of {asked[sort]} {prompts}, {first}after {seconds(at)} ({_on_one_line(why)})"
        yield Notice(what="refused", after_s=at, text=said)
