"""The entry limit: what it sheds, and what becomes of that (spec/residency.md)."""

from __future__ import annotations

import bisect

import msgspec

from kvwire.cache.ledger import Key, State
from kvwire.cache.prefixes import Prefixes
from kvwire.history.progress import Moment
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, judge, unused
from kvwire.judges.residency.answer import Answer
from kvwire.judges.verdict import Where
from kvwire.trace.calls import BurstCall, CacheCall, FaultCall, PublishCall, ResetCall, ResidentCall, StartCall
from kvwire.trace.marks import Settled
from kvwire.trace.records import told
from kvwire.trace.stimuli import Prompt
from kvwire.wire.events import Event


class _Lost(msgspec.Struct, frozen=True):
    """Blocks that were gone without a removal when an idle engine was asked, at that record."""

    record: int
    count: int
    full: bool
    """Whether a batch since the question before was as full as the limit allows."""


class Limit(Area):
    """Follows prompts on an instance that was started with an entry limit."""

    memory = "O(window)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.prefixes = Prefixes(context.statement.block_size)
        self.limit = 0
        """Stored blocks in a batch; 0 where none was asked for."""
        self.shed: set[bytes] = set()
        self.stored = 0
        """Blocks stored since the last prompt began."""
        self.full = False
        """Whether a batch since the engine was last asked has as many stores or removals as the limit allows."""
        self.most = 0
        """The most removals of a batch."""
        self.fullest = 0
        """The most since the engine was last asked."""
        self.held: set[Key] = set()
        """What stood announced and was held when the engine was last asked."""
        self.lost: list[_Lost] = []
        self.drained = False
        """Whether nothing was done since the stream was last drained."""
        self.begun = 0
        """Prompts that were begun so far."""
        self.settled = 0
        """Those of them that were begun before the harness last waited for the stream."""
        self.touched: dict[bytes, Prompt] = {}
        """Shed blocks that a prompt reused, and that were not announced since."""

    def on_incarnation(self, incarnation: Incarnation) -> None:
        if not incarnation.index:
            self.prefixes.prompts = self.facts.prompts
            starts = [start for _, start in told(self.facts.stimuli, StartCall) if start.succeeded]
            self.limit = next((start.cap for start in reversed(starts) if start.cap), 0)
        self.prefixes.begin()
        self.touched.clear()
        self.held.clear()

    def on_gap(self, gap: Gap) -> None:
        self.touched.clear()
        self.held.clear()

    def on_batch(self, batch: Batch) -> None:
        if self.limit:
            counts = dict.fromkeys(("stored", "removed"), 0)
            for event in batch.reading.events:
                if event.kind in counts:
                    counts[event.kind] += len(event.hashes)
            self.full = self.full or self.limit in (*counts.values(), sum(counts.values()))
            self.fullest = max(self.fullest, counts["removed"])
            self.most = max(self.most, self.fullest)

    def on_event(self, batch: Batch, event: Event) -> None:
        if not self.limit or not event.sound:
            return
        if event.kind == "cleared":
            self.touched.clear()
        elif event.kind == "stored":
            for chain in self.prefixes.stored(event):
                if (prompt := self.touched.pop(chain, None)) is not None:
                    self.announced_when_touched(prompt, announced=True)
            self.stored += len(event.hashes)

    def finish(self) -> None:
        otherwise = any(not lost.full for lost in self.lost)
        for lost in self.lost:
            if self.most > self.limit:
                self.no_removal_shed.open("blocks are gone without a removal, and batches have more than the limit")
            elif otherwise:
                self.no_removal_shed.open("removals are lost where the limit is not reached too")
            else:
                self.no_removal_shed(lost)

    # what was asked of the engine

    def on_stimulus(self, moment: Moment) -> None:
        if not self.limit:
            return
        match moment.stimulus:
            case CacheCall(succeeded=True):
                self.begun = self._before(moment) + 1
                self.stored = 0
                if moment.known:
                    self._begins(self.facts.prompts[self.begun - 1], calm=self.drained)
                self.drained = False
            case ResidentCall(succeeded=True) as call if moment.known:
                self._asked(Answer(self.context, moment, call))
            case Settled(drained=drained, idle=idle):
                self.drained = drained
                if drained and moment.known:
                    self._ends(idle=idle)
                self.settled = self._before(moment)
            case ResetCall() | FaultCall() | PublishCall() | BurstCall():
                self.drained = False

    def _before(self, moment: Moment) -> int:
        """How many prompts were begun before a moment."""
        return bisect.bisect_left(self.facts.prompts, moment.index, key=lambda prompt: prompt.record)

    def _begins(self, prompt: Prompt, *, calm: bool) -> None:
        if not calm or prompt.cached_tokens is None or bytes in map(type, prompt.tokens):
            return
        chains, first = self._resident(prompt)
        if first < min(prompt.cached_tokens // max(1, self.prefixes.size), len(chains)) and chains[first] in self.shed:
            self.touched.setdefault(chains[first], prompt)

    def _ends(self, *, idle: bool) -> None:
        if self.begun == self.settled + 1:
            self._calm(self.facts.prompts[self.begun - 1])
        if idle and not self.prefixes.strayed:
            for prompt in self.touched.values():
                self.announced_when_touched(prompt, announced=False)
            self.touched.clear()

    def _calm(self, prompt: Prompt) -> None:
        """A prompt is over that was run between two drained states of the stream."""
        chains, first = self._resident(prompt)
        if self.stored == self.limit and first < len(chains) and self._state(chains[first]) is State.ABSENT:
            self.shed.update(chains[first:])
            self.limit_used()

    def _resident(self, prompt: Prompt) -> tuple[tuple[bytes, ...], int]:
        """The prefixes of a prompt, and how many blocks at its beginning stand announced."""
        chains = self.prefixes.of(prompt)
        states = map(self._state, chains)
        return chains, next((at for at, state in enumerate(states) if state is not State.RESIDENT), len(chains))

    def _state(self, chain: bytes) -> State:
        """Whether a prefix's last block is announced: absent only when no location has it."""
        if self.prefixes.several(chain):
            return State.UNKNOWN
        value = self.prefixes.hash_of(chain)
        ledger = self.facts.ledger
        if value is None:
            return State.ABSENT if ledger.complete and not self.prefixes.strayed else State.UNKNOWN
        states = {ledger.state(Key(location, value)) for location in self.facts.locations}
        return next((state for state in (State.RESIDENT, State.UNKNOWN) if state in states), State.ABSENT)

    def _asked(self, answer: Answer) -> None:
        """What was there when the engine was asked before, and is gone without a removal since."""
        missing: set[Key] = set()
        there: set[Key] = set()
        for key in self.facts.ledger.resident():
            held = answer.held(key.location)
            if held is not None:
                (there if key.hash in held else missing).add(key)
        gone = len(missing & self.held)
        if gone and not answer.idle:
            return
        if gone:
            self.lost.append(_Lost(answer.record, gone, self.full))
        elif self.fullest > self.limit and self.shed:
            self.no_removal_shed.saw()
        self.held, self.full, self.fullest = there, False, 0

    @judge("KVW-RES-007", unclaimed=unused)
    def no_removal_shed(self, say: Say, lost: _Lost) -> None:
        """KVW-RES-007: A publisher MUST NOT let an entry limit shed a removal.

        Blocks that are gone without a removal where a batch was as full as the limit allows, and none where none was;
        and no batch has more removals than that.
        """
        say.broke(
            f"removals beyond the limit of {self.limit} entries",
            f"{lost.count} blocks are gone without one, and no batch has more than {self.most} removals",
            Where(record=lost.record),
        )

    @judge("KVW-RES-008", unclaimed=unused)
    def announced_when_touched(self, say: Say, prompt: Prompt, *, announced: bool) -> None:
        """KVW-RES-008: A publisher SHOULD announce a block that was shed by the entry limit, or that became fully
        covered later, when the block is next touched.

        The first shed block of a prompt that the engine reuses: its parent stands announced, and the limit has room.
        """
        if announced:
            say.saw()
        else:
            say.broke(
                "a `BlockStored` for the first block that the limit had shed, when a prompt reuses it",
                "none, and the engine is idle since",
                Where(record=prompt.record),
            )

    @judge("KVW-RES-009")
    def limit_used(self, say: Say) -> None:
        """KVW-RES-009: A publisher MAY limit the number of stored blocks that it announces per iteration, and then
        treats a shed block as never announced.

        Seen where a prompt's stores end at the limit. That shed blocks are not removed and have no announced
        descendants is for KVW-RES-002 and KVW-CHN-003.
        """
        say.saw()
