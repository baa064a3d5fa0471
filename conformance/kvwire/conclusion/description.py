"""What a stream looks like, beside its verdicts: its form, its events, and what is worth a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from kvwire.conclusion.muting import Muting
from kvwire.judges.step import Step
from kvwire.trace.marks import Joined
from kvwire.trace.records import Record, Records, told
from kvwire.wire.dialect import read_slowly
from kvwire.wire.events import Event, Form, Reading, group_kind
from kvwire.wire.framing import split_live, split_replay

LEGACY: tuple[Form, ...] = ("array-v", "array-s")


NAMES, NAME = 100, 100
"""How many types of events, and kinds of groups, are told apart, and how many characters of a name are kept."""
OTHERS = "(others)"


class Appearance:
    """What was seen of a stream, added up; O(1) beside its ranks."""

    def __init__(self) -> None:
        self.batches = 0
        self.forms: set[Form] = set()
        """The forms of batches with events."""
        self.tags: Counter[str] = Counter()
        self.unknown: set[str] = set()
        """Types of events that edition 1 does not know."""
        self.ranks: set[int] = set()
        self.odd_kinds: dict[str, set[int]] = {}
        """Kinds of groups of which edition 1 knows nothing, and the groups that named them."""

    def count(self, step: Step) -> None:
        """Add batches without a fault."""
        self.batches += step.batches
        for shape, count in step.shapes.items():
            self.forms.add(shape.form)
            self.tags["BlockStored" if shape.kind == "stored" else "BlockRemoved"] += count

    def add(self, reading: Reading) -> None:
        """Add a batch."""
        self.batches += 1
        self.rest(reading, 0)
        if reading.rank is not None:
            self.ranks.add(reading.rank)

    def rest(self, reading: Reading, first: int) -> None:
        """Add the events of a batch from one on."""
        if reading.events:
            self.forms.add(reading.form)
        for event in reading.events[first:]:
            tag = _named(event.tag or "(untagged)", self.tags)
            self.tags[tag] += 1
            if event.kind == "unknown" and event.tag:
                self.unknown.add(tag)
            if event.spec_kind is not None and group_kind(event.group, event.spec_kind, event.window) == "unknown":
                self.odd_kinds.setdefault(_named(event.spec_kind, self.odd_kinds), set()).add(event.group)

    @property
    def events(self) -> dict[str, int]:
        """How many events of each type there are."""
        return dict(sorted(self.tags.items()))

    @property
    def form(self) -> Form:
        """The form of the events; ``array`` where nothing tells whose arrays they are."""
        forms = self.forms
        if not forms:
            return "none"
        if len(forms) == 1:
            return next(iter(forms))
        for legacy in LEGACY:
            if forms <= {"array", legacy}:
                return legacy
        return "mixed"


def _named(name: str, known: Collection[str]) -> str:
    """A name as it is counted: short, and as one of the others where there are too many."""
    name = name if len(name) <= NAME else name[:NAME] + "…"
    return name if name in known or len(known) < NAMES else OTHERS


def remarks(appearance: Appearance, muting: Muting, details: Records) -> tuple[str, ...]:
    """What no sentence speaks of and a reader should know."""
    notes: list[str] = []
    if muting.any:
        notes.append(f"{muting.ours} events are what was offered, {muting.theirs} are the publisher's own")
    if appearance.unknown:
        notes.append(f"event types that edition 1 does not know: {', '.join(sorted(appearance.unknown))}")
    for kind, members in sorted(appearance.odd_kinds.items()):
        where = f"group{'s' if len(members) > 1 else ''} {', '.join(map(str, sorted(members)))}"
        notes.append(f"nothing is concluded about the chains of {where}, of the kind {kind!r}")
    joined = [joiner for _, joiner in told(details, Joined)]
    if joined:
        same = sum(j.settled and j.complete and not j.missing and not j.extra for j in joined)
        notes.append(f"{same} of {len(joined)} late joiners rebuilt what one knew that had joined before them")
    return tuple(notes)


def event_at(record: Record, offset: int) -> Event | None:
    """The event at a byte of the payload of a message; None where none is."""
    if record.frames is None:
        return None
    replayed = split_replay(record.frames) if record.is_replay else None
    live = split_live(record.frames) if record.is_live else None
    payload = replayed[2] if replayed is not None else live[1] if live is not None else None
    if payload is None:
        return None
    return next((one for one in read_slowly(payload).events if one.start <= offset < one.end), None)


def in_words(event: Event) -> str | None:
    """An event: its type, blocks, medium, group, kind and adapter; None where its type is not known."""
    if event.kind == "unknown":
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
    if event.lora_id is not None or event.lora_name is not None:
        named = (str(part) for part in (event.lora_id, event.lora_name) if part is not None)
        parts.append(f"adapter {' '.join(named)}")
    return ", ".join(parts)
