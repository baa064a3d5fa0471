"""What every judge is: an area of the standard, its hooks, and how it speaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar

import msgspec

from kvwire.history.timeline import Batch, Gap, Incarnation, Timeline
from kvwire.judges.verdict import Finding, Tally, Where
from kvwire.standard.registry import Registry
from kvwire.standard.statement import Statement
from kvwire.trace.records import Header, Record, Records, StreamInfo
from kvwire.wire.dialect import read_slowly
from kvwire.wire.events import Event, Flaw
from kvwire.wire.msgpack import walk

ABSURD = 2**48
"""A number that no counter reaches (nine years at a million batches a second): its bytes stand in another order."""
HEX_BYTES = 24
"""How many bytes of a place a finding shows."""

_Method = TypeVar("_Method", bound=Callable[..., None])


def judge(*ids: str) -> Callable[[_Method], _Method]:
    """Mark the one place that decides a requirement; its docstring quotes the sentence."""

    def mark(method: _Method) -> _Method:
        method.__kvwire_ids__ = ids  # type: ignore[attr-defined]
        return method

    return mark


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge may know besides the records: the run's header, the stream, and the registry.

    ``siblings`` are the records of the other declared streams, ``instances`` those of other instances of the publisher
    that the harness started; each by name.
    """

    header: Header
    stream: StreamInfo
    registry: Registry
    timeline: Timeline
    siblings: Mapping[str, Records] = msgspec.field(default_factory=dict)
    instances: Mapping[str, Records] = msgspec.field(default_factory=dict)

    @property
    def statement(self) -> Statement:
        """What the publisher declares."""
        return self.header.statement


class Area:
    """One area on one stream.

    Hooks, in order: ``on_record`` for every record of the stream, as received; then, incarnation by incarnation,
    ``on_incarnation``, and in ascending order ``on_batch`` followed by ``on_event`` for each of its events, and
    ``on_gap``; at last ``finish``. ``muted`` holds the ``decided_by`` values that the harness itself chose for what is
    being shown: such a sentence gets neither witness nor finding.
    """

    name: ClassVar[str]
    memory: ClassVar[str] = "O(1)"

    def __init__(self, context: Context) -> None:
        self.context = context
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self.muted: frozenset[str] = frozenset()

    # how a judge speaks

    def tally(self, requirement: str) -> Tally:
        """The tally of one requirement."""
        return self.tallies[requirement]

    def _silent(self, requirement: str) -> bool:
        return bool(self.muted) and self.context.registry[requirement].decided_by in self.muted

    def saw(self, requirement: str, count: int = 1) -> None:
        """Count occasions on which the sentence could have been broken and was not."""
        if count and not self._silent(requirement):
            self.tally(requirement).saw(count)

    def broke(self, requirement: str, expected: str, seen: str, where: Where) -> None:
        """Count a violation."""
        if not self._silent(requirement):
            self.tally(requirement).broke(Finding(expected=expected, seen=seen, where=where))

    def open(self, requirement: str, reason: str) -> None:
        """Count an occasion that could not be decided."""
        if not self._silent(requirement):
            self.tally(requirement).open(reason)

    def note(self, requirement: str, text: str) -> None:
        """Keep a remark beside the verdict."""
        self.tally(requirement).note(text)

    # hooks

    def on_record(self, index: int, record: Record) -> None:
        """A record of the stream, as received."""

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


def at_batch(batch: Batch, flaw: Flaw | None = None, event: Event | None = None) -> Where:
    """The place of a batch, of one of its events, or of a flaw's bytes in its payload."""
    start = flaw.start if flaw is not None else event.start if event is not None else 0
    if flaw is not None or event is None or event.end:
        return Where(
            record=batch.record,
            number=str(batch.number),
            frame="payload",
            offset=start,
            hex=batch.payload[start : start + HEX_BYTES].hex(),
        )
    return at_batch(batch, event=located(batch, event))


def located(batch: Batch, event: Event) -> Event:
    """The event with its byte offsets, which the fast path does not give."""
    return event if event.end else read_slowly(batch.payload).events[event.index]


def at_element(batch: Batch, index: int) -> Where:
    """The place of one element of the batch's array: 0 ``ts``, 1 events, 2 rank."""
    node = walk(batch.payload).items[index]
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


def table(area: type[Area]) -> Mapping[str, str]:
    """Requirement id → the method of an area that decides it."""
    found: dict[str, str] = {}
    for name in dir(area):
        for requirement in getattr(getattr(area, name), "__kvwire_ids__", ()):
            assert requirement not in found, f"{requirement} has two places in {area.__name__}"
            found[requirement] = name
    return found
