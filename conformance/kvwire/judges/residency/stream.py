"""Residency: what is stored, removed and cleared (spec/residency.md)."""

from __future__ import annotations

from collections.abc import Set

from kvwire.cache.ledger import ALL, Key, Ledger, State
from kvwire.history.progress import Moment
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, Unclaimed, at_batch, judge, unless
from kvwire.judges.facts import Change, cleared_by
from kvwire.judges.patience import Patience
from kvwire.judges.residency.answer import Answer
from kvwire.judges.step import Step
from kvwire.judges.verdict import Where
from kvwire.standard.statement import Residency as Policy
from kvwire.trace.attempts import Wait
from kvwire.trace.calls import ResetCall, ResidentCall
from kvwire.trace.marks import ResetDone
from kvwire.wire.events import Event


def _under(*policies: Policy) -> Unclaimed:
    """Only streams with a location under one of these policies owe a witness."""
    return unless(
        lambda _, statement: bool(
            {
                statement.residency,
                *(group.residency for group in statement.groups),
                *(medium.residency for medium in statement.media),
            }.intersection(policies)
        )
    )


class _Reset:
    """A reset of the cache that is awaited: what was known to be resident, and what has shown of it.

    ``idle``: the engine was idle before, so that no store is under way; else what was stored before it can be heard
    after it.
    """

    def __init__(self, start: int, ledger: Ledger, *, idle: bool) -> None:
        self.start = start
        self.idle = idle
        self.ledger = ledger
        self.left = set(ledger.resident())
        self.some = bool(self.left)
        self.ended: set[str | None] = set()
        """Media in which blocks have ended since."""
        self.complete = ledger.complete
        self.cleared = False
        self.early: tuple[Batch, Event] | None = None
        """A later store before the reset showed."""
        self.lost = False
        """Batches are missing since."""
        self.over: tuple[ResetDone, Wait] | None = None
        """How it was awaited, once the bound has passed without a sight: whether the next batch heard is the next one
        decides.
        """

    @property
    def visible(self) -> bool:
        """Whether it has shown: by a clear, or by the removal of everything, if everything is known."""
        return self.cleared or (self.complete and self.some and not self.left)

    @property
    def owed(self) -> set[Key]:
        """What is left to end: a medium in which nothing has ended may have survived, where another one has shown."""
        return {key for key in self.left if key.location.medium in self.ended} if self.ended else self.left

    def on_event(self, batch: Batch, event: Event, changed: Set[Key]) -> None:
        """Follow what comes after it: an event, and the keys that it names, or ends as a clear of some locations."""
        if self.cleared or self.early is not None or (self.idle and self.visible):
            return
        if event.kind == "cleared" and cleared_by(event) == ALL:
            self.cleared = True
        elif event.kind in ("cleared", "removed"):
            gone = {key for key in changed & self.left if self.ledger.state(key) is not State.RESIDENT}
            self.left -= gone
            self.ended |= {key.location.medium for key in gone}
        elif self.idle and not self.lost and (self.owed or not (self.complete or self.ended)):
            self.early = (batch, event)
        elif not self.idle:
            self.left |= changed
            self.some = True


class Residency(Area):
    """Holds each change against the ledger, and clears and resets against what the engine holds and was told."""

    memory = "O(resident)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.reset: _Reset | None = None
        self.waits = {index: wait for index, _, wait in self.facts.stalls.waits(self.facts.stimuli, ResetDone)}
        self.shown = Patience(self.reset_visible)

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.facts.ended.clear()
        if self.reset is not None and self.reset.left and not self.reset.visible:
            self.reset_visible.open("another life began since the reset")
        self.reset = None

    def on_gap(self, gap: Gap) -> None:
        self.facts.ended.clear()
        if self.reset is not None:
            self.reset.lost = True

    def on_batch(self, batch: Batch) -> None:
        reset = self.reset
        if reset is not None and reset.over is not None and batch.live is not None and not reset.lost and reset.owed:
            first = next((event for event in batch.reading.events if event.kind != "unknown"), None)
            if first is not None and self._stored_later(first, reset.start):
                reset.early = (batch, first)
        self._decide(lost=batch.live is None)

    def _stored_later(self, event: Event, reset: int) -> bool:
        """Whether an event stores the beginning of a prompt that began after a reset, and of none before it."""
        if event.kind != "stored" or not event.whole or event.parent is not None:
            return False
        head = event.block(0)
        begun = [prompt.record for prompt in self.facts.prompts if prompt.tokens[: len(head)] == head]
        return bool(begun) and min(begun) > reset

    def finish(self) -> None:
        self._decide(lost=True)
        self.shown.decide()

    def _decide(self, *, lost: bool) -> None:
        """Judge a reset that did not show within its bound; ``lost``: what showed it can have been sent and lost."""
        if self.reset is not None and self.reset.over is not None:
            self.reset.lost |= lost
            self.reset_visible(self.reset, *self.reset.over)
            self.reset = None

    # what the engine was asked

    def on_stimulus(self, moment: Moment) -> None:
        match moment.stimulus:
            case ResidentCall(succeeded=True) as call if moment.known:
                self.clear_is_whole(Answer(self.context, moment, call))
            case ResetCall(succeeded=True):
                self._decide(lost=True)
                self.reset = _Reset(moment.index, self.facts.ledger, idle=moment.idle) if moment.known else None
            case ResetDone() as done if self.reset is not None and moment.known:
                self.reset.over = (done, self.waits[moment.index])
                if self.reset.early is not None or self.reset.visible or not self.reset.left:
                    self._decide(lost=False)
            case ResetDone():
                self.reset = None

    # the stream

    def on_step(self, step: Step) -> None:
        self.no_duplicate.saw(step.stored_anew)
        self.no_orphan.saw(step.removed_set)
        self.balance.saw(step.removed - step.removed_set)

    def on_event(self, batch: Batch, event: Event) -> None:
        if not event.sound:
            return
        if self.reset is not None:
            changed = self.facts.cleared or {change.key for change in self.facts.changes}
            self.reset.on_event(batch, event, changed)
        self.facts.ended.add(self.facts.cleared)  # none by the leading clear: nothing was announced before it
        for change in self.facts.changes:
            policy = self.context.statement.residency_of(event.medium, event.group)
            if event.kind == "stored":
                self._stored(batch, event, change, policy)
                continue
            if change.key in self.facts.ended:
                self.clear_is_whole.open("a block that a clear had ended is removed after it")
            if not change.elsewhere:
                judged = self.balance if policy == "counted" else self.no_orphan
                judged(batch, event, change)

    def _stored(self, batch: Batch, event: Event, change: Change, policy: Policy) -> None:
        if policy == "set":
            self.no_duplicate(batch, event, change)
        if change.key in self.facts.ended:
            self.facts.ended.discard(change.key)
            if policy != "refresh":
                self.clear_is_whole.saw()

    @judge("KVW-RES-001", unclaimed=_under("set"), declares='residency = "set"')
    def no_duplicate(self, say: Say, batch: Batch, event: Event, change: Change) -> None:
        """KVW-RES-001: A publisher MUST NOT, under set residency, store a hash that is already resident in that
        location.
        """
        key, before, _ = change
        if before is State.ABSENT:
            say.saw()
        elif before is State.RESIDENT:
            say.broke(
                f"a hash that is not resident in {key.location}",
                f"hash {key.hash} stored a second time{self._above(event, key.hash)}",
                at_batch(batch, event=event, stored=self.facts.stored_in(key.hash)),
            )

    def _above(self, event: Event, block: int) -> str:
        """What ended the parent of a block that is stored a second time: its own removal may be what is missing."""
        at = event.hashes.index(block)
        parent = event.hashes[at - 1] if at else event.parent
        return self.facts.removed_since(parent, block)

    @judge("KVW-RES-002", unclaimed=_under("set", "refresh"), declares='residency other than "counted"')
    def no_orphan(self, say: Say, batch: Batch, event: Event, change: Change) -> None:
        """KVW-RES-002: A publisher MUST NOT, under set or refresh residency, remove a hash that is not resident in
        that location.
        """
        key, before, _ = change
        if before is State.RESIDENT:
            say.saw()
        elif before is State.ABSENT:
            say.broke(
                f"a hash that is resident in {key.location}",
                f"removal of {key.hash}, which is not{self.facts.ended_in(key.hash)}",
                at_batch(batch, event=event, stored=self.facts.stored_in(key.hash)),
            )

    @judge("KVW-RES-004", unclaimed=_under("counted"), declares='residency = "counted"')
    def balance(self, say: Say, batch: Batch, event: Event, change: Change) -> None:
        """KVW-RES-004: A publisher MUST, under counted residency, keep stores and removals of each hash in a location
        in balance: never more removals than stores since the last clear, and none left over once the whole cache is
        cleared.
        """
        key, before, _ = change
        if before is State.RESIDENT:
            say.saw()
        elif before is State.ABSENT:
            say.broke(
                f"at most as many removals as stores of a hash in {key.location}",
                f"one more removal of {key.hash} than stores{self.facts.ended_in(key.hash)}",
                at_batch(batch, event=event, stored=self.facts.stored_in(key.hash)),
            )

    @judge("KVW-RES-005")
    def clear_is_whole(self, say: Say, answer: Answer) -> None:
        """KVW-RES-005: A publisher MUST send `AllBlocksCleared` only when every block that its stream announced in the
        locations which the event names is gone, the leading clear of an incarnation excepted.

        A block that is stored again after a clear shows that it had gone; one that an idle engine still holds shows
        that it had not.
        """
        for location, ended in sorted(self.facts.ended.by_location.items(), key=lambda item: str(item[0])):
            held = answer.held(location)
            if held is None:
                continue
            say.saw(len(ended - held))
            for value in sorted(ended & held) if answer.idle else ():
                say.broke(
                    f"that {value} is gone from {location} after `AllBlocksCleared`",
                    "the engine still holds it, and announced it no second time",
                    Where(record=answer.record, stored=self.facts.stored_in(value)),
                )

    @judge("KVW-RES-006")
    def reset_visible(self, say: Say, reset: _Reset, done: ResetDone, wait: Wait) -> None:
        """KVW-RES-006: A publisher MUST make a reset of the cache visible, by `AllBlocksCleared` or by the removal of
        every resident block, within the declared bound `reset_visible_s` even when the engine is idle, and before
        any later store.

        The probe waits for the sight or the bound, of one reset after the other; a store that comes first breaks it
        too, if the engine was idle before, or if a prompt of after the reset caused it. What was not seen counts once
        the batch that was heard next is the next one: so nothing was lost. A cache that is known to be empty has
        nothing to show, and a tier may survive a reset that another one has shown: whether it has is for KVW-RES-003.
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
            self.shown.came("reset")
        elif reset.lost:
            say.open("batches are missing since the reset")
        elif reset.left and not reset.owed:
            say.open(f"{len(reset.left)} blocks are still announced in media that the reset may have left as they were")
        elif reset.left:
            self.shown.missed(
                "reset",
                wait,
                f"`AllBlocksCleared`, or the removal of everything, within {done.bound_s} s of the reset",
                f"{len(reset.left)} blocks are still announced",
                Where(record=reset.start),
            )
        elif not reset.complete:
            say.open("what was resident before the reset is not known")
