"""Residency: what is stored, removed and cleared (spec/residency.md)."""

from __future__ import annotations

import functools

from kvwire.cache.ledger import Key, Ledger, State
from kvwire.history.progress import Agenda, Counted, Heard, Place
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, at_batch, judge
from kvwire.judges.verdict import Where
from kvwire.trace.calls import ResetCall, ResidentCall, RestartCall, StartCall, StopCall
from kvwire.trace.marks import ResetDone
from kvwire.trace.records import Record
from kvwire.wire.events import Event


class _Reset:
    """A reset of the cache that is awaited: what was known to be resident, and what has shown of it."""

    def __init__(self, start: int, bound: str, ledger: Ledger) -> None:
        self.start = start
        self.bound = bound
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
    """Follows the stream with a ledger; clears and resets are compared with what the engine holds and was told."""

    name = "residency"
    memory = "O(resident)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.ledger = Ledger(context.statement.residency)
        self.snapshots: list[tuple[int, frozenset[int]]] = []
        self.resets: list[tuple[int, int | None, str]] = []
        self.replaced: list[int] = []
        self.counted = Counted()
        self.agenda: Agenda | None = None
        self.life = -1
        self.cleared: frozenset[int] = frozenset()
        """The hashes that the last clear ended and that were not stored again."""
        self.reset: _Reset | None = None

    def on_record(self, index: int, record: Record) -> None:
        self.counted.add(index, record)
        match record.detail:
            case ResidentCall(succeeded=True, held=held):
                self.snapshots.append((index, held))
            case ResetCall(succeeded=True):
                self.resets.append((index, None, ""))
            case StartCall() | RestartCall() | StopCall():
                self.replaced.append(index)
            case ResetDone() as done if self.resets:
                start, _, _ = self.resets[-1]
                self.resets[-1] = (start, index, str(done.bound_s))

    def on_incarnation(self, incarnation: Incarnation) -> None:
        if self.agenda is None:
            self.agenda = self._plan()
        self._reach((incarnation.index, -1))
        self.life = incarnation.index
        self.ledger.begin(origin_known=incarnation.origin_known)
        self._lose()

    def on_gap(self, gap: Gap) -> None:
        self._reach((self.life, gap.first))
        self.ledger.hole()
        self._lose()

    def _lose(self) -> None:
        self.cleared = frozenset()
        if self.reset is not None:
            self.reset.lost = True

    def on_batch(self, batch: Batch) -> None:
        self._reach((self.life, batch.number))

    def finish(self) -> None:
        self._reach((self.life + 1, -1))

    # what the engine was asked

    def _plan(self) -> Agenda:
        """Snapshots and resets, each at the place that the live stream had reached when it was taken or made."""
        heard = Heard(self.context.timeline, self.replaced)
        agenda = Agenda()
        for record, held in self.snapshots:
            place = heard.when(record)
            if self.counted.heard(record, place):
                agenda.add(place, record, functools.partial(self.clear_is_whole, record, held))
        for start, end, bound in self.resets:
            if end is None:
                continue
            began, ended = heard.when(start), heard.when(end)
            if began is not None and ended is not None:
                agenda.add(began, start, functools.partial(self._reset_begins, start, bound))
                agenda.add(ended, end, self._reset_over)
        return agenda

    def _reach(self, place: Place) -> None:
        if self.agenda is not None:
            self.agenda.reach(place)

    def _reset_begins(self, start: int, bound: str) -> None:
        self.reset = _Reset(start, bound, self.ledger)

    def _reset_over(self) -> None:
        reset, self.reset = self.reset, None
        if reset is not None:
            self.reset_visible(reset)

    # the stream

    def on_event(self, batch: Batch, event: Event) -> None:
        if not event.sound:
            return
        if self.reset is not None:
            self.reset.on_event(batch, event)
        if event.kind == "cleared":
            self.cleared = frozenset(key.hash for key in self.ledger.resident())
            self.ledger.clear()
            return
        for value in event.hashes:
            key = Key(event.medium, event.group, value)
            if event.kind == "stored":
                self._store(batch, event, key)
            else:
                self._remove(batch, event, key)

    def _store(self, batch: Batch, event: Event, key: Key) -> None:
        before = self.ledger.store(key)
        if not self.ledger.counted:
            self.no_duplicate(batch, event, key, before)
        if key.hash in self.cleared:
            self.cleared -= {key.hash}
            self.saw("KVW-RES-005")

    def _remove(self, batch: Batch, event: Event, key: Key) -> None:
        elsewhere = self.ledger.groups_of(key.medium, key.hash) - {key.group}
        before = self.ledger.state(key)
        if before is not State.RESIDENT and elsewhere:
            for group in elsewhere:  # one of these was meant, so that one fault is one finding
                self.ledger.forget(key._replace(group=group))
            if before is State.ABSENT:
                self.own_group(batch, event, key, sorted(elsewhere))
            return
        self.ledger.remove(key)
        if before is State.RESIDENT:
            self.own_group(batch, event, key, [])
        if self.ledger.counted:
            self.balance(batch, event, key, before)
        else:
            self.no_orphan(batch, event, key, before)

    @judge("KVW-RES-001")
    def no_duplicate(self, batch: Batch, event: Event, key: Key, before: State) -> None:
        """KVW-RES-001: A publisher MUST NOT, under set residency, store a hash that is already resident in that
        medium and group.
        """
        if before is State.ABSENT:
            self.saw("KVW-RES-001")
        elif before is State.RESIDENT:
            self.broke(
                "KVW-RES-001",
                f"a hash that is not resident in medium {key.medium}, group {key.group}",
                f"hash {key.hash} stored a second time",
                at_batch(batch, event=event),
            )

    @judge("KVW-RES-002")
    def no_orphan(self, batch: Batch, event: Event, key: Key, before: State) -> None:
        """KVW-RES-002: A publisher MUST NOT, under set residency, remove a hash that is not resident in that medium
        and group.
        """
        if before is State.RESIDENT:
            self.saw("KVW-RES-002")
        elif before is State.ABSENT:
            self.broke(
                "KVW-RES-002",
                f"a hash that is resident in medium {key.medium}, group {key.group}",
                f"removal of {key.hash}, which is not",
                at_batch(batch, event=event),
            )

    @judge("KVW-RES-004")
    def balance(self, batch: Batch, event: Event, key: Key, before: State) -> None:
        """KVW-RES-004: A publisher MUST, under counted residency, keep stores and removals of each hash in a medium
        and group in balance: never more removals than stores since the last clear, and none left over once the
        whole cache is cleared.
        """
        if before is State.RESIDENT:
            self.saw("KVW-RES-004")
        elif before is State.ABSENT:
            self.broke(
                "KVW-RES-004",
                f"at most as many removals as stores of a hash in medium {key.medium}, group {key.group}",
                f"one more removal of {key.hash} than stores",
                at_batch(batch, event=event),
            )

    @judge("KVW-EVT-017")
    def own_group(self, batch: Batch, event: Event, key: Key, elsewhere: list[int]) -> None:
        """KVW-EVT-017: A publisher MUST send a `BlockRemoved` with the group of the `BlockStored` that announced the
        block (an absent `group_idx` is group 0).

        Broken only when another group of that medium is known to hold the hash, and the named one is known not to: who
        joined late may have missed its store in the named group too.
        """
        if not elsewhere:
            self.saw("KVW-EVT-017")
        else:
            self.broke(
                "KVW-EVT-017",
                f"group {', '.join(map(str, elsewhere))}, in which {key.hash} was stored",
                f"a removal from group {key.group}",
                at_batch(batch, event=event),
            )

    @judge("KVW-RES-005")
    def clear_is_whole(self, record: int, held: frozenset[int]) -> None:
        """KVW-RES-005: A publisher MUST send `AllBlocksCleared` only when every block that its stream announced, in
        all media and all groups, is gone.

        A block that is stored again after a clear shows that it had gone; one still held shows that it had not.
        """
        kept = sorted(self.cleared & held)
        self.saw("KVW-RES-005", len(self.cleared) - len(kept))
        for value in kept:
            self.broke(
                "KVW-RES-005",
                f"that {value} is gone after `AllBlocksCleared`",
                "the engine still holds it, and announced it no second time",
                Where(record=record),
            )

    @judge("KVW-RES-006")
    def reset_visible(self, reset: _Reset) -> None:
        """KVW-RES-006: A publisher MUST make a reset of the cache visible, by `AllBlocksCleared` or by the removal of
        every resident block, within the declared bound `reset_visible_s` even when the engine is idle, and before
        any later store.

        The probe waits for the sight or the bound; a store that comes first breaks it too. A cache that is known to be
        empty has nothing to show.
        """
        if reset.early is not None:
            batch, event = reset.early
            self.broke(
                "KVW-RES-006",
                "the reset before any later store",
                f"a store in number {batch.number}, and {len(reset.left)} blocks still announced from before the reset",
                at_batch(batch, event=event),
            )
        elif reset.visible:
            self.saw("KVW-RES-006")
        elif reset.lost:
            self.open("KVW-RES-006", "batches are missing since the reset")
        elif reset.left:
            self.broke(
                "KVW-RES-006",
                f"`AllBlocksCleared`, or the removal of everything, within {reset.bound} s of the reset",
                f"{len(reset.left)} blocks are still announced",
                Where(record=reset.start),
            )
        elif not reset.complete:
            self.open("KVW-RES-006", "what was resident before the reset is not known")
