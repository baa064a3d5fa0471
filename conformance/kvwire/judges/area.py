"""What every judge is: an area of the standard, its hooks, and how it speaks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

import msgspec

from kvwire.history.progress import Moment
from kvwire.history.ranges import Ranges
from kvwire.history.timeline import Batch, Gap, Incarnation, Live, Timeline, build
from kvwire.judges.facts import Facts
from kvwire.judges.step import Step
from kvwire.judges.verdict import EXAMPLES, Finding, Reason, Tally, Where
from kvwire.standard.registry import Memory, Registry
from kvwire.standard.statement import Statement
from kvwire.trace.records import Header, Record, Records, StreamInfo
from kvwire.wire.dialect import last_read_slowly
from kvwire.wire.events import Event, Flaw
from kvwire.wire.msgpack import walked

ABSURD = 2**48
"""A number that no counter reaches (nine years at a million batches a second): its bytes stand in another order."""
FEW_TOKENS = 4
"""A block of fewer tokens that an engine generates can stand in a prompt of ours by chance."""
JUDGES = "kvwire.judges."
"""The package of the judges; below it a module or package per chapter."""
HEX_BYTES = 24
"""How many bytes of a place a finding shows."""

TEXT = 2000
"""How many characters of what a publisher wrote a finding quotes."""

P = ParamSpec("P")
A = TypeVar("A", bound="Area")
Arrays = Literal["count", "exempt", "break"]
"""What events that are arrays are to a sentence: like maps; without keys, so that they cannot break it; a violation."""
Unclaimed = Callable[[StreamInfo, Statement], Reason | None]
"""Why a sentence that got no witness does not speak of a stream; None when it does."""


def always(*_: object) -> None:
    """Every stream owes a witness."""


def unused(*_: object) -> Reason:
    """The sentence is about something that a publisher may leave out, and that shows where it does not."""
    return Reason.NOT_USED


def unless(claimed: Callable[[StreamInfo, Statement], bool]) -> Unclaimed:
    """Only streams of which something is declared owe a witness."""

    def unclaimed(stream: StreamInfo, statement: Statement) -> Reason | None:
        return None if claimed(stream, statement) else Reason.NOT_CLAIMED

    return unclaimed


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]}… ({len(text)} characters)"


class Say:
    """How one sentence speaks on one stream; nothing is counted of what the harness itself decided."""

    def __init__(self, area: Area, requirement: str) -> None:
        self.tally = area.tallies.setdefault(requirement, Tally())
        self._area = area
        self._requirement = requirement
        self._decided_by = area.context.registry[requirement].decided_by

    def saw(self, count: int = 1) -> None:
        """Count occasions on which the sentence could have been broken and was not."""
        if count and self._decided_by not in self._area.muted:
            self.tally.saw(count)

    def broke(self, expected: str, seen: str, where: Where) -> None:
        """Count a violation."""
        if self._decided_by not in self._area.muted:
            finding = Finding(expected=_cut(expected), seen=_cut(seen), where=where)
            self.tally.broke(finding)
            if self.tally.violations <= EXAMPLES:
                self._area.facts.found(self._requirement, finding)

    def broke_more(self, count: int) -> None:
        """Count violations of a sort of which enough examples were shown."""
        self.tally.violations += count
        self.tally.witnesses += count

    def weigh(self, batch: Batch, flaw: Flaw | None) -> None:
        """Count an occasion: a violation where the reader found a flaw."""
        if flaw is None:
            self.saw()
        else:
            self.broke(flaw.expected, flaw.seen, at_batch(batch, flaw))

    def open(self, reason: str) -> None:
        """Count an occasion that could not be decided."""
        if self._decided_by not in self._area.muted:
            self.tally.open(reason)

    def note(self, text: str) -> None:
        """Keep a remark beside the verdict."""
        self.tally.note(_cut(text))


class Bound(Say, Generic[P]):
    """The judge of a sentence on one stream: called, it decides an occasion; it also says what needs no decision."""

    def __init__(self, area: A, judge: Judge[A, P]) -> None:
        super().__init__(area, judge.requirement)
        self._decide: Callable[P, None] = functools.partial(judge.method, area, self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        self._decide(*args, **kwargs)


class Judge(Generic[A, P]):
    """The one place of a sentence: its id, the method that decides it, and when it does not apply.

    ``declares`` is the field of the statement, and its value, without which nothing is claimed; empty where none is.
    ``memory`` None is that of the area. ``place`` is module and method below ``kvwire.judges``, ``chapter`` its
    beginning.
    """

    def __init__(
        self,
        method: Callable[Concatenate[A, Say, P], None],
        requirement: str,
        unclaimed: Unclaimed,
        memory: Memory | None,
        *,
        declares: str,
        arrays: Arrays,
    ) -> None:
        self.method = method
        self.declares = declares
        self.requirement = requirement
        self.unclaimed = unclaimed
        self.memory = memory
        self.arrays = arrays
        self.name = method.__name__
        self.place = f"{method.__module__.removeprefix(JUDGES)}.{self.name}"
        self.chapter = self.place.partition(".")[0]
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, area: None, owner: type[A]) -> Judge[A, P]: ...
    @overload
    def __get__(self, area: A, owner: type[A]) -> Bound[P]: ...
    def __get__(self, area: A | None, owner: type[A]) -> Judge[A, P] | Bound[P]:
        if area is None:
            return self
        bound: Bound[P] = Bound(area, self)
        area.__dict__[self.name] = bound
        return bound


def judge(
    requirement: str,
    *,
    unclaimed: Unclaimed = always,
    declares: str = "",
    memory: Memory | None = None,
    arrays: Arrays = "count",
) -> Callable[[Callable[Concatenate[A, Say, P], None]], Judge[A, P]]:
    """Mark the one place that decides a requirement; its docstring quotes the sentence.

    The method gets how the sentence speaks (`Say`) before what its callers hand it.
    """

    def mark(method: Callable[Concatenate[A, Say, P], None]) -> Judge[A, P]:
        return Judge(method, requirement, unclaimed, memory, declares=declares, arrays=arrays)

    return mark


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge may know besides the records: the run's header, the stream, and the registry.

    The statement of ``header`` is the one of the stream (``Statement.of_stream``).
    ``numbers`` are those of all declared streams where there are several, ``instances`` the records of other instances
    of the publisher that the harness started; each by name.
    """

    header: Header
    stream: StreamInfo
    registry: Registry
    facts: Facts
    numbers: Mapping[str, Ranges]
    instances: Mapping[str, Records]

    @classmethod
    def of(
        cls,
        header: Header,
        stream: StreamInfo,
        records: Records,
        registry: Registry,
        *,
        numbers: Mapping[str, Ranges] = MappingProxyType({}),
        instances: Mapping[str, Records] = MappingProxyType({}),
    ) -> Context:
        """The context of one stream, from all its records."""
        header = msgspec.structs.replace(header, statement=header.statement.of_stream(stream.name))
        facts = Facts(header.statement, records, build(records))
        return cls(header=header, stream=stream, registry=registry, facts=facts, numbers=numbers, instances=instances)

    @classmethod
    def passing(
        cls, header: Header, stream: StreamInfo, registry: Registry, *, numbers: Mapping[str, Ranges]
    ) -> Context:
        """That of a stream which nobody drives, before its first record."""
        header = msgspec.structs.replace(header, statement=header.statement.of_stream(stream.name))
        facts = Facts.passing(header.statement)
        return cls(header=header, stream=stream, registry=registry, facts=facts, numbers=numbers, instances={})

    @property
    def timeline(self) -> Timeline:
        """The order of the stream; of one that passes, when it is over, and as far back as the horizon goes."""
        return self.facts.timeline

    @property
    def statement(self) -> Statement:
        """What the publisher declares."""
        return self.header.statement


class Area:
    """One area on one stream.

    Hooks: ``on_record`` for every record of the stream with frames, as received, and ``on_live`` for every live message
    that is no copy, once it is known what its number is; incarnation by incarnation ``on_incarnation``, and in
    ascending order ``on_batch`` followed by ``on_event`` for each of its events, and ``on_gap``; between these
    ``on_stimulus``, at the place where the stream stood when it was given; at last ``finish``. A stretch without any
    fault is told in bulk instead, by ``on_step``. ``muted`` holds the ``decided_by`` values that the harness itself
    chose for what is being shown: such a sentence gets neither witness nor finding.
    """

    memory: ClassVar[Memory] = "O(1)"

    def __init__(self, context: Context) -> None:
        self.context = context
        self.facts = context.facts
        self.tallies: dict[str, Tally] = {}
        self.muted: frozenset[str] = frozenset()

    # hooks

    def on_record(self, index: int, record: Record) -> None:
        """A record of the stream with frames, as received."""

    def on_live(self, live: Live) -> None:
        """A live message, classified; copies of what another witness delivered are left out."""

    def on_stimulus(self, moment: Moment) -> None:
        """Something that was done to the publisher when the live stream had come as far as it was shown."""

    def on_step(self, step: Step) -> None:
        """A stretch without any fault, of which the other hooks were told nothing: what it comes to."""

    def on_incarnation(self, incarnation: Incarnation) -> None:
        """An incarnation begins."""

    def on_batch(self, batch: Batch) -> None:
        """A distinct batch of the incarnation."""

    def on_event(self, batch: Batch, event: Event) -> None:
        """An event of that batch."""

    def on_gap(self, gap: Gap) -> None:
        """Numbers that nobody delivered; or a batch whose events could not all be read; or, with ``maybe_restart``, a
        disconnect after which another incarnation may have begun, even if no number is missing.
        """

    def finish(self) -> None:
        """The end of the trace."""


def at_batch(batch: Batch, flaw: Flaw | None = None, event: Event | None = None, stored: str | None = None) -> Where:
    """The place of a batch, of one of its events, or of a flaw's bytes in its payload; ``stored`` as in ``Where``."""
    start = flaw.start if flaw is not None else event.start if event is not None else 0
    if flaw is not None or event is None or event.end:
        return Where(
            record=batch.record,
            number=str(batch.number),
            frame="payload",
            offset=start,
            hex=batch.payload[start : start + HEX_BYTES].hex(),
            stored=stored,
        )
    return at_batch(batch, event=located(batch, event), stored=stored)


def located(batch: Batch, event: Event) -> Event:
    """The event with its byte offsets, which the fast path does not give."""
    return event if event.end else last_read_slowly(batch.payload).events[event.index]


def at_element(batch: Batch, index: int) -> Where:
    """The place of one element of the batch's array: 0 ``ts``, 1 events, 2 rank."""
    node = walked(batch.payload).items[index]
    return at_batch(batch, Flaw("", "", "", node.start, node.end))


def at_record(index: int, frame: str, content: bytes, number: int | None = None) -> Where:
    """The place of a frame of a record."""
    return Where(
        record=index,
        number=None if number is None else str(number),
        frame=frame,
        offset=0,
        hex=content[:HEX_BYTES].hex(),
    )


def judges_of(area: type[Area]) -> Iterator[Judge[Any, ...]]:
    """The judges of an area, as they stand in it."""
    return (value for value in vars(area).values() if isinstance(value, Judge))
