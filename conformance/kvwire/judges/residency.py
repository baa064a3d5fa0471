"""Residency: what is stored, removed and cleared (spec/residency.md)."""

from __future__ import annotations

from kvwire.events import TWO_64, Event
from kvwire.judges.area import Area, Context, at_batch, judge
from kvwire.ledger import Key, Ledger, State
from kvwire.stimuli import succeeded
from kvwire.timeline import Batch, Gap, Incarnation
from kvwire.trace import Record, Source
from kvwire.verdict import Where


class Residency(Area):
    """Follows the stream with a ledger; compares it with what the engine says it holds."""

    name = "residency"
    memory = "O(resident)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.ledger = Ledger(context.statement.residency)
        self.snapshots: list[tuple[int, frozenset[int]]] = []
        self.resets: list[tuple[int, int | None, str]] = []
        self.cleared: frozenset[int] = frozenset()
        """The hashes that the last clear ended and that were not stored again."""
        self.heard = False
        """Whether any batch was read from the live stream."""
        self.ends: list[int] = []
        """Records of the batches after which nothing was resident."""
        self.stores: list[int] = []
        """Records of the batches that hold a store."""

    def on_record(self, index: int, record: Record) -> None:
        if succeeded(record, "resident"):
            hashes = frozenset(int(value) % TWO_64 for value in record.detail.get("hashes", ()))
            self.snapshots.append((index, hashes))
        elif succeeded(record, "reset"):
            self.resets.append((index, None, ""))
        elif record.source == Source.STIMULUS and record.event == "reset-done" and self.resets:
            start, _, _ = self.resets[-1]
            self.resets[-1] = (start, index, str(record.detail.get("bound_s", "")))

    def on_incarnation(self, incarnation: Incarnation) -> None:
        live = [batch.live for batch in incarnation.batches if batch.live is not None]
        if live:
            self._catch_up(min(live))
        self.ledger.begin(origin_known=incarnation.origin_known)
        self.cleared = frozenset()

    def on_gap(self, gap: Gap) -> None:
        self.ledger.hole()
        self.cleared = frozenset()

    def on_batch(self, batch: Batch) -> None:
        """A snapshot was taken before the first batch that came live after it; replay tells nothing of that time."""
        if batch.live is not None:
            self.heard = True
            self._catch_up(batch.live)

    def _catch_up(self, record: int) -> None:
        while self.snapshots and self.snapshots[0][0] < record:
            self._compare(*self.snapshots.pop(0))

    def finish(self) -> None:
        for snapshot in self.snapshots if self.heard else ():
            self._compare(*snapshot)
        for start, end, bound in self.resets:
            self.reset_visible(start, end, bound)

    def on_event(self, batch: Batch, event: Event) -> None:
        if not event.sound:
            return
        if event.kind == "cleared":
            self.cleared = frozenset(key.hash for key in self.ledger.resident())
            self.ledger.clear()
            self.ends.append(batch.record)
            return
        for value in event.hashes:
            key = Key(event.medium, event.group, value)
            if event.kind == "stored":
                self._store(batch, event, key)
            else:
                self._remove(batch, event, key)
        if event.kind == "stored":
            self.stores.append(batch.record)
        elif self.ledger.complete and not self.ledger.resident():
            self.ends.append(batch.record)

    def _store(self, batch: Batch, event: Event, key: Key) -> None:
        before = self.ledger.store(key)
        if not self.ledger.counted:
            self.no_duplicate(batch, event, key, before)
        if key.hash in self.cleared:
            self.cleared -= {key.hash}
            self.saw("KVW-RES-005")

    def _remove(self, batch: Batch, event: Event, key: Key) -> None:
        elsewhere = self.ledger.groups_of(key.medium, key.hash) - {key.group}
        if self.ledger.state(key) is not State.RESIDENT and elsewhere:
            self.own_group(batch, event, key, State.ABSENT, sorted(elsewhere))
            for group in elsewhere:  # what was meant, so that one fault is one finding
                self.ledger.remove(key._replace(group=group))
            return
        before = self.ledger.remove(key)
        self.own_group(batch, event, key, before, [])
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
    def own_group(self, batch: Batch, event: Event, key: Key, before: State, elsewhere: list[int]) -> None:
        """KVW-EVT-017: A publisher MUST send a `BlockRemoved` with the group of the `BlockStored` that announced the
        block (an absent `group_idx` is group 0).

        Broken only when another group of that medium is known to hold the hash and the named one does not.
        """
        if before is State.RESIDENT:
            self.saw("KVW-EVT-017")
        elif elsewhere:
            self.broke(
                "KVW-EVT-017",
                f"group {', '.join(map(str, elsewhere))}, in which {key.hash} was stored",
                f"a removal from group {key.group}",
                at_batch(batch, event=event),
            )

    def _compare(self, record: int, held: frozenset[int]) -> None:
        self.gone_is_announced(record, held)
        self.clear_is_whole(record, held)

    @judge("KVW-RES-003")
    def gone_is_announced(self, record: int, held: frozenset[int]) -> None:
        """KVW-RES-003: A publisher MUST announce by `BlockRemoved` or `AllBlocksCleared` that an announced block is
        gone from a medium and group.

        The harness asks when the stream is drained, so that nothing announced is still under way.
        """
        announced = {key.hash for key in self.ledger.resident()}
        missing = sorted(announced - held)
        self.saw("KVW-RES-003", len(announced) - len(missing))
        for value in missing:
            self.broke(
                "KVW-RES-003",
                f"a removal or a clear for {value}, which the engine does not hold any more",
                "no such event: the stream still says that it is resident",
                Where(record=record),
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
    def reset_visible(self, start: int, end: int | None, bound: str) -> None:
        """KVW-RES-006: A publisher MUST make a reset of the cache visible, by `AllBlocksCleared` or by the removal of
        every resident block, within the declared bound `reset_visible_s` even when the engine is idle, and before
        any later store.

        The probe waits for the sight or the bound and says which; a store that comes first breaks it too.
        """
        if end is None or not self.heard:
            return
        sight = next((record for record in self.ends if start < record < end), None)
        store = next((record for record in self.stores if start < record < end), None)
        if sight is None:
            self.broke(
                "KVW-RES-006",
                f"`AllBlocksCleared`, or the removal of everything, within {bound} s of the reset",
                "nothing of the kind",
                Where(record=start),
            )
        elif store is not None and store < sight:
            self.broke(
                "KVW-RES-006",
                "the reset before any later store",
                f"a store in record {store}, before the reset shows in record {sight}",
                Where(record=store),
            )
        else:
            self.saw("KVW-RES-006")
