"""What several chapters need to know of one stream, found once.

What the records tell is read when somebody asks. The ledger follows the stream: it is shown each step before the areas
are, so that they find in ``changes`` what an event did and what was known before it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from kvwire.cache.chains import Strand
from kvwire.cache.identity import Identity
from kvwire.cache.ledger import Cleared, Key, Ledger, Location, State, Stores
from kvwire.cache.lineage import Kinds, Lineage, Windows
from kvwire.cache.parity import Parity
from kvwire.hashes.functions import OPAQUE
from kvwire.history.copies import Copies
from kvwire.history.exchanges import Exchange, exchanges, mixed, overfull, remade
from kvwire.history.progress import Moment, moments
from kvwire.history.senders import Senders, senders
from kvwire.history.timeline import Answer, Arrival, Batch, Gap, Incarnation, Live, Timeline
from kvwire.judges.verdict import Finding
from kvwire.standard.statement import LOCATION_UPDATES, PARTIAL_ENTRIES, Statement
from kvwire.trace.attempts import Stalls
from kvwire.trace.calls import RestartCall, StatsCall
from kvwire.trace.detail import Stimulus
from kvwire.trace.marks import Ranks
from kvwire.trace.records import Record, Records, told
from kvwire.trace.stimuli import Offer, Prompt, offers, prompts
from kvwire.wire.events import Event

NOTHING = Timeline(incarnations=(), live=(), answers=())


LOCATIONS = 4096
"""How many locations of one stream are followed; an event about another one is a hole."""


class Change(NamedTuple):
    """A block that an event stores or removes, and whether it was resident before.

    ``elsewhere``: groups that hold it, where a removal names one that is not known to.
    """

    key: Key
    before: State
    elsewhere: frozenset[int] = frozenset()


def location_of(event: Event) -> Location:
    """The location that a store or a removal names."""
    return Location(event.medium, event.group, event.locality, event.ownership)


def cleared_by(event: Event) -> Cleared:
    """What a clear names."""
    return Cleared(
        event.medium if "medium" in event.keys else False,
        event.ownership if "ownership" in event.keys else False,
    )


class Ended:
    """What clears ended and was not stored again, location by location."""

    def __init__(self) -> None:
        self.by_location: dict[Location, set[int]] = {}

    def add(self, keys: Iterable[Key]) -> None:
        """A clear ended these."""
        for location, value in keys:
            self.by_location.setdefault(location, set()).add(value)

    def discard(self, key: Key) -> None:
        """It was stored again."""
        self.by_location[key.location].discard(key.hash)

    def clear(self) -> None:
        """Nothing is known."""
        self.by_location.clear()

    def __contains__(self, key: Key) -> bool:
        return key.hash in self.by_location.get(key.location, ())


class Facts:
    """The facts of one stream."""

    def __init__(self, statement: Statement, records: Records = (), timeline: Timeline = NOTHING) -> None:
        self._records = records
        self.timeline = timeline
        self.ledger = Ledger(lambda medium, group: statement.residency_of(medium, group) == "counted")
        self.locations: set[Location] = set()
        """Where blocks were stored, in whatever incarnation."""
        self.stores = Stores()
        self.removals = Stores()
        self._clear = -1
        """The number of the batch that cleared last, in this incarnation."""
        self.changes: Sequence[Change] = ()
        """What the event that is being shown does, block by block."""
        self.cleared: frozenset[Key] = frozenset()
        """What it ends, if it is a clear."""
        self.parent = State.UNKNOWN
        """Whether its parent was resident before it."""
        self.location = False
        """Whether it is a store that is a location update, as declared: keys without chain or tokens."""
        self.partial: bool | None = False
        """Whether it is a store that is a partial entry, as declared; None: it can be."""
        self._statement = statement
        self._sizes: dict[int, int] = {}
        """Group → the block size of its stores of several blocks."""
        # what of the stream goes on from batch to batch
        self.topic: bytes | None = None
        self.newest: tuple[float, int] | None = None
        """The newest ``ts`` of the incarnation, and the number of its batch."""
        self.stamps: list[float] = []
        """The ``ts`` of batches without faults that no area has looked at yet: those before what is shown next."""
        self.first_rank: tuple[int, int] | None = None
        """The rank of the first batch that has one, and its number."""
        self.leading = False
        """Nothing of this incarnation was missed, and no event of it was seen yet."""
        self.sizes: dict[int, tuple[int, int]] = {}
        """Group → its block size, and the number of the batch that said so."""
        self.named_kinds: dict[int, tuple[tuple[str | None, int | None], Batch]] = {}
        """Group → kind and window that its stores named first, and the batch that did."""
        self.lineage = Lineage()
        self.kinds = Kinds(statement.groups)
        self.windows = Windows(statement.window_memory)
        self.ended = Ended()
        self.announced: str | None = None
        """The hash function that was announced first in this incarnation."""
        self.counted: set[str] = set()
        """Deviations of which enough examples are shown, so that more are only counted."""
        self.findings: list[tuple[str, Finding]] = []
        """Those that are shown, with their requirements, in the order in which they were made."""
        self.kept: dict[int, Record] = {}
        """The messages in which they were made."""

    @classmethod
    def passing(cls, statement: Statement) -> Facts:
        """Those of a stream that nobody drives, before its first record: nothing is offered, and nothing asked."""
        facts = cls(statement)
        facts.__dict__.update(
            copies=set(),
            recent={},
            moments=(),
            calm=(),
            restarts=[],
            offers=(),
            prompts=(),
            ranks=None,
            reused=[],
            senders=None,
        )
        return facts

    def complete(self, records: Records, timeline: Timeline) -> None:
        """A stream that passed is over: its records and its timeline, as far as they were kept."""
        self._records = records
        self.timeline = timeline
        for name in ("details", "stimuli", "stalls"):  # what was asked for before holds nothing
            self.__dict__.pop(name, None)

    def found(self, requirement: str, finding: Finding) -> None:
        """A finding that is shown: its record is kept."""
        at = finding.where.record
        if at is not None and (record := self.recent.get(at)) is not None:
            self.kept[at] = record
        self.findings.append((requirement, finding))

    # what the records tell

    @functools.cached_property
    def details(self) -> Records:
        """What is told beside frames."""
        return [(index, record) for index, record in self._records if record.detail is not None]

    @functools.cached_property
    def recent(self) -> dict[int, Record]:
        """Messages by their records, as far back as they are kept."""
        return {index: record for index, record in self._records if record.frames is not None}

    @functools.cached_property
    def copies(self) -> Set[int]:
        """Live records of a message that another witness had delivered before, which is one occasion and no second."""
        copies = Copies()
        return {
            index
            for index, record in self._records
            if record.is_live and record.frames is not None and copies.add(record.source, record.frames)
        }

    @functools.cached_property
    def reused(self) -> Sequence[Batch]:
        """Batches that came live under a number which another had, without a disconnect; each once."""
        return tuple(
            self.batch_of(live)
            for live in self.timeline.live
            if live.arrival is Arrival.REUSED and live.record not in self.copies
        )

    def of_another(self, batch: Batch) -> bool:
        """Whether a batch has another rank or topic than the first one of the stream: it speaks of another cache, as
        where streams are gathered, or several topics share one counter (spec/legacy.md).
        """
        rank, held = batch.reading.rank, self.recent.get(batch.record)
        if self.first_rank is not None and rank is not None and rank != self.first_rank[0]:
            return True
        topic = held.frames[0] if held is not None and held.is_live and held.frames else None
        return None not in (topic, self.topic) and topic != self.topic

    @functools.cached_property
    def stimuli(self) -> Records:
        """What of that was done to the publisher."""
        return [(index, record) for index, record in self.details if isinstance(record.detail, Stimulus)]

    def batch_of(self, live: Live) -> Batch:
        """What a live message holds, as it was received."""
        held = self.recent.get(live.record)
        content = b"" if held is None else (held.frames or (b"",))[-1]
        return Batch(number=live.number, payload=content, record=live.record, seen_by=frozenset({live.source}))

    @functools.cached_property
    def senders(self) -> Senders | None:
        """The counters that the stream has beside the first."""
        return senders(self.timeline)

    @functools.cached_property
    def stalls(self) -> Stalls:
        """When the harness, a witness or the publisher of the stream was held up."""
        return Stalls(self.details)

    @functools.cached_property
    def moments(self) -> tuple[Moment, ...]:
        """The same, each with the place that the live stream had reached."""
        return moments(self.details, self.timeline, self.stalls, self._statement.bounds.reset_visible_s)

    @functools.cached_property
    def calm(self) -> Sequence[tuple[int, int]]:
        """Pairs of records: at the first everything was heard that the publisher had counted at the second."""
        found: list[tuple[int, int]] = []
        counted: int | None = None
        for moment in self.moments:
            if counted is not None and moment.drained:
                found.append((moment.index, counted))
            match moment.stimulus:
                case StatsCall(succeeded=True, offered=int()):
                    counted = moment.index
        return found

    @functools.cached_property
    def restarts(self) -> list[int]:
        """The records at which the harness began a new life of the publisher."""
        return [index for index, call in told(self.stimuli, RestartCall) if call.succeeded]

    @functools.cached_property
    def offers(self) -> tuple[Offer, ...]:
        """The batches that were offered."""
        return offers(self.stimuli)

    @functools.cached_property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts that the engine was given."""
        return prompts(self.stimuli)

    @functools.cached_property
    def ranks(self) -> Mapping[str, int] | None:
        """The instances that were started as ranks of one deployment, by name; None when none were."""
        return next((ranks.members for _, ranks in reversed(list(told(self.stimuli, Ranks)))), None)

    @functools.cached_property
    def exchanges(self) -> Mapping[str, Exchange]:
        """Replay requests and what came back, by client."""
        return exchanges(self._records, self.remade)

    @functools.cached_property
    def remade(self) -> frozenset[str]:
        """The replay clients of which nothing is judged: their connection was lost and made again under answers."""
        return remade(self._records)

    @functools.cached_property
    def mixed(self) -> frozenset[str]:
        """The connections on which answers came mixed."""
        return mixed(self.exchanges)

    @functools.cached_property
    def overfull(self) -> Mapping[str, tuple[int, int]]:
        """The connections on which more end markers came than requests were sent, by how many of each."""
        return overfull(self.exchanges)

    @functools.cached_property
    def answers(self) -> Mapping[str, Answer]:
        """The answers of the timeline, by client."""
        return {answer.source: answer for answer in self.timeline.answers}

    @functools.cached_property
    def sent(self) -> Mapping[int | None, Mapping[int, int]]:
        """By incarnation: the numbers that were seen live, with the first record of each."""
        found: defaultdict[int | None, dict[int, int]] = defaultdict(dict)
        for live in self.timeline.live:
            found[live.incarnation].setdefault(live.number, live.record)
        return found

    @functools.cached_property
    def identity(self) -> Identity:
        """What each hash stood for."""
        return Identity(self.prompts, self.calm)

    @functools.cached_property
    def parity(self) -> Parity:
        """What recomputes."""
        chains = self.identity.chains
        return Parity(chains.scopes, chains)

    def label(self, said: str | None) -> str | None:
        """What the publisher says of the hashes of an event that says this; ``opaque`` only where nothing says more."""
        labels = [label for label in (said, self.announced, self._statement.algorithm) if label is not None]
        return next((label for label in labels if label != OPAQUE), labels[0] if labels else None)

    # what follows the stream

    def on_incarnation(self, incarnation: Incarnation) -> None:
        """An incarnation begins."""
        self._sizes.clear()
        self.ledger.begin(origin_known=incarnation.origin_known)
        self._begin()

    def on_gap(self, gap: Gap) -> None:
        """Something is missing, or cannot be read."""
        self._sizes.clear()
        self.ledger.hole()
        if gap.maybe_restart:
            self._begin()

    def _begin(self) -> None:
        """What was stored or removed in a batch before may have been so in another life."""
        self.stores.begin()
        self.removals.begin()
        self._clear = -1

    def on_event(self, event: Event) -> None:
        """The next event."""
        self.changes, self.cleared, self.parent = (), frozenset(), State.UNKNOWN
        self.location = event.tokenless and LOCATION_UPDATES in self._statement.extensions
        self.partial = self._is_partial(event)
        if not event.sound:
            return
        if event.kind == "cleared":
            named = cleared_by(event)
            self.cleared = self.ledger.named(named)
            self.ledger.clear(named)
            return
        location = location_of(event)
        if self.ledger.locations >= LOCATIONS and not self.ledger.knows(location):
            self.ledger.hole()
            return
        keys = [Key(location, value) for value in event.hashes]
        if event.kind == "removed":
            self.changes = [Change(key, *self.ledger.remove(key)) for key in keys]
            return
        self.locations.add(location)
        kept = self.identity.chains.window.kept
        for value in event.hashes:  # what is remembered there may give way to this store before it is asked for
            if isinstance(kept.get(value), Strand) and (number := self._stored(value)) is not None:
                self.stores.add(number, (value,))
        if event.parent is not None:
            self.parent = self.ledger.parent_state(event.group, event.parent)
        self.changes = [Change(key, self.ledger.store(key)) for key in keys]

    def _is_partial(self, event: Event) -> bool | None:
        if PARTIAL_ENTRIES not in self._statement.extensions or not event.whole:
            return False
        size = self._statement.declared_block_size(event.group) or self._sizes.get(event.group)
        if len(event.hashes) > 1:
            self._sizes.setdefault(event.group, event.block_size or 0)
            return False
        return None if size is None else (event.block_size or 0) < size

    def after_event(self, batch: Batch, event: Event) -> None:
        """The areas have seen it: what it stores was stored in this batch, what it removes removed."""
        if not event.sound:
            return
        if event.kind == "stored":
            self.stores.add(batch.number, event.hashes)
        elif event.kind == "removed":
            self.removals.add(batch.number, event.hashes)
        else:
            self._clear = batch.number

    def stored_in(self, block: int | None) -> str | None:
        """The number of the batch that stored a block last, before the event that is being shown; None: not known."""
        number = self._stored(block)
        return None if number is None else str(number)

    def _stored(self, block: int | None) -> int | None:
        if block is None:
            return None
        held = self.identity.chains.window.kept.get(block)
        numbers = [held.number] if isinstance(held, Strand) else []
        if (last := self.stores.last(block)) is not None:
            numbers.append(last)
        return max(numbers, default=None)

    def ended_in(self, block: int) -> str:
        """Where a block is instead, or what ended it since it was stored last, for the end of a finding; else empty."""
        places = (place for place in self.locations if self.ledger.state(Key(place, block)) is State.RESIDENT)
        if held := " and ".join(sorted(map(str, places))):
            return f"; it is in {held}"
        stored, removed = self._stored(block), self.removals.last(block)
        if stored is not None and self._clear > max(stored, -1 if removed is None else removed):
            return f"; the last clear was in number {self._clear}"
        return "" if stored is None or removed is None or removed < stored else f"; it was removed in number {removed}"

    def removed_since(self, block: int | None, other: int) -> str:
        """That a block was removed since another was stored last, for the end of a finding; empty where it was not."""
        removed, stored = (None if block is None else self.removals.last(block)), self._stored(other)
        if removed is None or stored is None or removed <= stored:
            return ""
        return f"; its parent {block} was removed in number {removed}"
