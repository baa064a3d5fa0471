"""Residency: what is stored, removed and cleared (spec/residency.md)."""

from __future__ import annotations

from kvwire.cache.ledger import Key, Ledger, State
from kvwire.history.progress import Moment
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, at_batch, judge, unless
from kvwire.judges.facts import Change
from kvwire.judges.verdict import Where
from kvwire.trace.calls import ResetCall, ResidentCall
from kvwire.trace.marks import ResetDone
from kvwire.wire.events import Event


class _Reset:
    """A reset of the cache that is awaited: what was known to be resident, and what has shown of it."""

    def __init__(self, start: int, ledger: Ledger) -> None:
        self.start = start
        self.left = set(ledger.resident())
        self.some = bool(self.left)
        self.complete = ledger.complete
        self.cleared = False
        self.early: tuple[Batch, Event] | None = None
        """A store before the reset showed."""
        self.lost = False
        """Batches are missing since."""

    @property
    def visible(self) -> bool:
        """Whether it has shown: by a clear, or by the removal of everything, if everything is known."""
        return self.cleared or (self.complete and self.some and not self.left)

    def on_event(self, batch: Batch, event: Event) -> None:
        """Follow what comes after it."""
        if self.visible or self.early is not None:
            return
        if event.kind == "cleared":
            self.cleared = True
        elif event.kind == "removed":
            self.left -= {Key(event.medium, event.group, value) for value in event.hashes}
        elif event.kind == "stored":
            self.early = (batch, event)


class Residency(Area):
    """Holds each change against the ledger, and clears and resets against what the engine holds and was told."""

    memory = "O(resident)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.counts = context.statement.residency == "counted"
        self.cleared: frozenset[int] = frozenset()
        """The hashes that the last clear ended and that were not stored again."""
        self.reset: _Reset | None = None

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self._lose()

    def on_gap(self, gap: Gap) -> None:
        self._lose()

    def _lose(self) -> None:
        self.cleared = frozenset()
        if self.reset is not None:
            self.reset.lost = True

    # what the engine was asked

    def on_stimulus(self, moment: Moment) -> None:
        match moment.stimulus:
            case ResidentCall(succeeded=True, held=held) if moment.drained:
                self.clear_is_whole(moment.index, held)
            case ResetCall(succeeded=True):
                self.reset = _Reset(moment.index, self.facts.ledger) if moment.known else None
            case ResetDone(bound_s=bound) if self.reset is not None:
                if moment.known:
                    self.reset_visible(self.reset, bound)
                self.reset = None

    # the stream

    def on_event(self, batch: Batch, event: Event) -> None:
        if not event.sound:
            return
        if self.reset is not None:
            self.reset.on_event(batch, event)
        if event.kind == "cleared":
            self.cleared = frozenset(key.hash for key in self.facts.cleared)
        for change in self.facts.changes:
            if event.kind == "stored":
                self._stored(batch, event, change)
            elif self.counts and not change.elsewhere:
                self.balance(batch, event, change)
            elif not change.elsewhere:
                self.no_orphan(batch, event, change)

    def _stored(self, batch: Batch, event: Event, change: Change) -> None:
        if not self.counts:
            self.no_duplicate(batch, event, change)
        if change.key.hash in self.cleared:
            self.cleared -= {change.key.hash}
            self.clear_is_whole.saw()

    @judge("KVW-RES-001", unclaimed=unless(lambda _, statement: statement.residency == "set"))
    def no_duplicate(self, say: Say, batch: Batch, event: Event, change: Change) -> None:
        """KVW-RES-001: A publisher MUST NOT, under set residency, store a hash that is already resident in that
        medium and group.
        """
        key, before, _ = change
        if before is State.ABSENT:
            say.saw()
        elif before is State.RESIDENT:
            say.broke(
                f"a hash that is not resident in medium {key.medium}, group {key.group}",
                f"hash {key.hash} stored a second time",
                at_batch(batch, event=event, stored=self.facts.stored_in(key.hash)),
            )

    @judge("KVW-RES-002", unclaimed=unless(lambda _, statement: statement.residency == "set"))
    def no_orphan(self, say: Say, batch: Batch, event: Event, change: Change) -> None:
        """KVW-RES-002: A publisher MUST NOT, under set residency, remove a hash that is not resident in that medium
        and group.
        """
        key, before, _ = change
        if before is State.RESIDENT:
            say.saw()
        elif before is State.ABSENT:
            say.broke(
                f"a hash that is resident in medium {key.medium}, group {key.group}",
                f"removal of {key.hash}, which is not",
                at_batch(batch, event=event, stored=self.facts.stored_in(key.hash)),
            )

    @judge("KVW-RES-004", unclaimed=unless(lambda _, statement: statement.residency == "counted"))
    def balance(self, say: Say, batch: Batch, event: Event, change: Change) -> None:
        """KVW-RES-004: A publisher MUST, under counted residency, keep stores and removals of each hash in a medium
        and group in balance: never more removals than stores since the last clear, and none left over once the
        whole cache is cleared.
        """
        key, before, _ = change
        if before is State.RESIDENT:
            say.saw()
        elif before is State.ABSENT:
            say.broke(
                f"at most as many removals as stores of a hash in medium {key.medium}, group {key.group}",
                f"one more removal of {key.hash} than stores",
                at_batch(batch, event=event, stored=self.facts.stored_in(key.hash)),
            )

    @judge("KVW-RES-005")
    def clear_is_whole(self, say: Say, record: int, held: frozenset[int]) -> None:
        """KVW-RES-005: A publisher MUST send `AllBlocksCleared` only when every block that its stream announced, in
        all media and all groups, is gone.

        A block that is stored again after a clear shows that it had gone; one still held shows that it had not.
        """
        kept = sorted(self.cleared & held)
        say.saw(len(self.cleared) - len(kept))
        for value in kept:
            say.broke(
                f"that {value} is gone after `AllBlocksCleared`",
                "the engine still holds it, and announced it no second time",
                Where(record=record, stored=self.facts.stored_in(value)),
            )

    @judge("KVW-RES-006")
    def reset_visible(self, say: Say, reset: _Reset, bound_s: float) -> None:
        """KVW-RES-006: A publisher MUST make a reset of the cache visible, by `AllBlocksCleared` or by the removal of
        every resident block, within the declared bound `reset_visible_s` even when the engine is idle, and before
        any later store.

        The probe waits for the sight or the bound; a store that comes first breaks it too. A cache that is known to be
        empty has nothing to show.
        """
        if reset.early is not None:
            batch, event = reset.early
            say.broke(
                "the reset before any later store",
                f"a store in number {batch.number}, and {len(reset.left)} blocks still announced from before the reset",
                at_batch(batch, event=event),
            )
        elif reset.visible:
            say.saw()
        elif reset.lost:
            say.open("batches are missing since the reset")
        elif reset.left:
            say.broke(
                f"`AllBlocksCleared`, or the removal of everything, within {bound_s} s of the reset",
                f"{len(reset.left)} blocks are still announced",
                Where(record=reset.start),
            )
        elif not reset.complete:
            say.open("what was resident before the reset is not known")
