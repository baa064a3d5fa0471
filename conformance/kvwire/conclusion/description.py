"""What a stream looks like, beside its verdicts: its form, its events, and what is worth a word."""

from __future__ import annotations

from collections import Counter

from kvwire.conclusion.muting import Muting
from kvwire.history import timeline as timelines
from kvwire.history.timeline import Timeline
from kvwire.judges.area import Context
from kvwire.trace.marks import Joined
from kvwire.trace.records import Record, Records, told
from kvwire.wire.dialect import read_slowly
from kvwire.wire.events import Form, group_kind
from kvwire.wire.framing import split_live, split_replay


def count_events(timeline: Timeline) -> dict[str, int]:
    """How many events of each type there are."""
    return dict(sorted(Counter(event.tag or "(untagged)" for _, _, event in timelines.events(timeline)).items()))


def form_of(timeline: Timeline) -> Form:
    """The form of its events; ``array`` where nothing tells whose arrays they are."""
    forms = {
        batch.reading.form
        for incarnation in timeline.incarnations
        for batch in incarnation.batches
        if batch.reading.events
    }
    if not forms:
        return "none"
    if len(forms) == 1:
        return forms.pop()
    for legacy in ("array-v", "array-s"):
        if forms <= {"array", legacy}:
            return legacy
    return "mixed"


def remarks(context: Context, muting: Muting, records: Records) -> tuple[str, ...]:
    """What no sentence speaks of and a reader should know."""
    notes: list[str] = []
    timeline = context.timeline
    if muting.any:
        notes.append(f"{muting.ours} events are what was offered, {muting.theirs} are the publisher's own")
    unknown = sorted({event.tag for _, _, event in timelines.events(timeline) if event.kind == "unknown" and event.tag})
    if unknown:
        notes.append(f"event types that edition 1 does not know: {', '.join(unknown)}")
    groups: dict[str, set[int]] = {}
    for _, _, event in timelines.events(timeline):
        if event.spec_kind is not None and group_kind(event.group, event.spec_kind, event.window) == "unknown":
            groups.setdefault(event.spec_kind, set()).add(event.group)
    for kind, members in sorted(groups.items()):
        where = f"group{'s' if len(members) > 1 else ''} {', '.join(map(str, sorted(members)))}"
        notes.append(f"nothing is concluded about the chains of {where}, of the kind {kind!r}")
    joined = [joiner for _, joiner in told(records, Joined)]
    if joined:
        same = sum(j.settled and j.complete and not j.missing and not j.extra for j in joined)
        notes.append(f"{same} of {len(joined)} late joiners rebuilt what one knew that had joined before them")
    return tuple(notes)


def event_at(record: Record, offset: int) -> str | None:
    """The event at a byte of the payload of a message: its type, blocks, medium, group and kind; None where none is."""
    if record.frames is None:
        return None
    replayed = split_replay(record.frames) if record.is_replay else None
    live = split_live(record.frames) if record.is_live else None
    payload = replayed[2] if replayed is not None else live[1] if live is not None else None
    if payload is None:
        return None
    event = next((one for one in read_slowly(payload).events if one.start <= offset < one.end), None)
    if event is None or event.kind == "unknown":
        return None
    parts = [event.tag]
    if event.kind != "cleared":
        count = len(event.hashes)
        parts = [f"{event.tag} of {count} hash{'es' if count != 1 else ''}"]
    if event.medium is not None:
        parts.append(f"medium {event.medium}")
    if "group_idx" in event.keys:
        parts.append(f"group {event.group}")
    if event.spec_kind is not None:
        parts.append(f"kind {event.spec_kind}")
    return ", ".join(parts)
