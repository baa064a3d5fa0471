"""Reuse: what the engine says it holds and hits, against what the stream says (spec/residency.md).

A prompt is *calm* when the harness had drained the stream before it, and waited until it was drained again after it:
then the stream's word before and after is known. Of others it is only known that they may have stored their blocks.
"""

from __future__ import annotations

import bisect

import msgspec

from kvwire.cache.ledger import Key, State
from kvwire.cache.prefixes import Prefixes
from kvwire.history.progress import Moment
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, judge, unused
from kvwire.judges.verdict import Where
from kvwire.trace.calls import BurstCall, CacheCall, FaultCall, PublishCall, ResetCall, ResidentCall, StartCall
from kvwire.trace.marks import Settled
from kvwire.trace.records import told
from kvwire.trace.stimuli import Prompt
from kvwire.wire.events import Event

Scope = tuple[int | None, str | None]


class _Hit(msgspec.Struct, frozen=True):
    """What the engine once reused of a prompt while the stream said that it was resident, and when."""

    blocks: int
    moment: int


class _Cap(msgspec.Struct):
    """An instance with an entry limit: what it shed, and whether removals were lost where it was not reached."""

    limit: int
    shed: set[bytes] = msgspec.field(default_factory=set)
    stored: int = 0
    """Blocks stored since the last prompt began."""
    busiest: int = 0
    """Most entries of a batch since the engine was last asked."""
    held: frozenset[int] = frozenset()
    """What the engine held when it was last asked."""
    lost_otherwise: bool = False
    lost: list[tuple[int, int, int]] = msgspec.field(default_factory=list)
    """Record of the question, blocks that are gone unannounced, entries of the busiest batch before it."""


class Reuse(Area):
    """Follows prompts by the tokens of their prefixes, and holds them against the ledger."""

    memory = "O(window)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.prefixes = Prefixes(context.statement.block_size)
        self.places: set[tuple[str | None, int]] = set()
        self.cap: _Cap | None = None
        self.drained = False
        """Whether nothing was done since the stream was last drained."""
        self.begun = 0
        """Prompts that were begun so far."""
        self.settled = 0
        """Those of them that were begun before the stream was last drained."""
        self.moment = 0
        """Counts events."""
        self.unsure = 0
        """The moment from which on nothing was missed or cleared."""
        self.removed: dict[int, tuple[int, int]] = {}
        """Hash → the moment of its last removal, and the first prompt that can have stored it anew after that."""
        self.wiped: set[bytes] = set()
        """Prefixes that a clear ended: whether they had gone is for KVW-RES-005."""
        self.hits: dict[tuple[Scope, tuple[bytes, ...]], _Hit] = {}
        self.owed: bytes | None = None
        """A shed block that the calm prompt under way touched."""
        self.announced: set[bytes] = set()
        """Prefixes stored since the last prompt began."""

    def on_incarnation(self, incarnation: Incarnation) -> None:
        if not incarnation.index:
            self.prefixes.prompts = self.facts.prompts
            caps = [start.cap for _, start in told(self.facts.stimuli, StartCall) if start.succeeded and start.cap]
            self.cap = _Cap(caps[-1]) if caps else None
        self.prefixes.begin()
        self._lose()

    def on_gap(self, gap: Gap) -> None:
        self._lose()

    def _lose(self) -> None:
        self.moment += 1
        self.unsure = self.moment
        self.removed.clear()
        self.owed = None

    def on_batch(self, batch: Batch) -> None:
        if self.cap is not None:
            entries = sum(len(event.hashes) for event in batch.reading.events)
            self.cap.busiest = max(self.cap.busiest, entries)

    def finish(self) -> None:
        if self.cap is not None:
            self._lost_removals(self.cap)

    # what was asked of the engine

    def on_stimulus(self, moment: Moment) -> None:
        match moment.stimulus:
            case CacheCall(succeeded=True):
                if moment.known:
                    self._begins(moment.index, calm=self.drained)
                self.drained = False
            case ResidentCall(succeeded=True, held=held) if moment.drained:
                self._holds(moment.index, held)
            case Settled(drained=drained):
                self.drained = drained
                if drained and moment.known:
                    self._ends()
            case ResetCall() | FaultCall() | PublishCall() | BurstCall():
                self.drained = False

    # the stream

    def on_event(self, batch: Batch, event: Event) -> None:
        if not event.sound:
            return
        self.moment += 1
        if event.kind == "cleared":
            self._wipe()
            return
        self.places.add((event.medium, event.group))
        if event.kind == "stored":
            stored = self.prefixes.stored(event)
            self.wiped.difference_update(stored)
            self.announced.update(stored)
            if self.cap is not None:
                self.cap.stored += len(event.hashes)
        else:
            self.removed |= dict.fromkeys(event.hashes, (self.moment, self.settled))

    def _wipe(self) -> None:
        held = {key.hash for key in self.facts.cleared}
        self.wiped |= {chain for value in held if (chain := self.prefixes.chain_of(value)) is not None}
        self.removed.clear()
        self.unsure = self.moment

    def _state(self, chain: bytes) -> State:
        """Whether a prefix's last block is in the cache, by the stream: absent only when no place holds it."""
        if self.prefixes.several(chain) or chain in self.wiped:
            return State.UNKNOWN
        value = self.prefixes.hash_of(chain)
        if value is None:
            return State.ABSENT if self.facts.ledger.complete and not self.prefixes.strayed else State.UNKNOWN
        states = {self.facts.ledger.state(Key(medium, group, value)) for medium, group in self.places}
        for state in (State.RESIDENT, State.UNKNOWN):
            if state in states:
                return state
        return State.ABSENT

    # prompts

    def _begins(self, record: int, *, calm: bool) -> None:
        position = bisect.bisect_left(self.facts.prompts, record, key=lambda prompt: prompt.record)
        prompt = self.facts.prompts[position]
        self.begun = position + 1
        self.owed = None
        self.announced.clear()
        if self.cap is not None:
            self.cap.stored = 0
        if not calm or prompt.cached_tokens is None or bytes in map(type, prompt.tokens):
            return
        chains = self.prefixes.of(prompt)
        states = [self._state(chain) for chain in chains]
        cached = min(prompt.cached_tokens // max(1, self.prefixes.size), len(chains))
        first = next((at for at, state in enumerate(states) if state is not State.RESIDENT), len(states))
        self._same_hit(prompt, chains, first, cached)
        if first < len(states) and states[first] is State.ABSENT:
            self._absent(position, chains, first, cached)
        if self.cap is None:
            self.everything_announced.saw(min(first, cached))

    def _absent(self, position: int, chains: tuple[bytes, ...], first: int, cached: int) -> None:
        """The stream says that a block is not in the cache: does the engine say so too?"""
        prompt = self.facts.prompts[position]
        value = self.prefixes.hash_of(chains[first])
        removal = None if value is None else self.removed.get(value)
        if cached <= first:
            if removal is not None:
                self.ended_only_when_gone.saw()
            return
        if removal is not None and not self._stored_anew(removal[1], position, chains[first], first):
            self.ended_only_when_gone(prompt, first, cached, value)
        elif self.cap is None:
            self.everything_announced(prompt, first, cached)
        elif chains[first] in self.cap.shed:
            self.owed = chains[first]

    def _stored_anew(self, begin: int, end: int, chain: bytes, index: int) -> bool:
        """Whether one of the prompts between two can have put a block into the cache again, without a word."""
        for prompt in self.facts.prompts[begin:end]:
            reused = prompt.cached_tokens is not None and prompt.cached_tokens // self.prefixes.size > index
            if not reused and chain in self.prefixes.of(prompt):
                return True
        return False

    def _same_hit(self, prompt: Prompt, chains: tuple[bytes, ...], first: int, cached: int) -> None:
        """What was reused of a prompt is reused again, as long as the stream says that it stays."""
        key = ((prompt.lora, prompt.salt), chains)
        before = self.hits.get(key)
        if before is not None and before.moment >= self.unsure and before.blocks <= first:
            hashes = [self.prefixes.hash_of(chain) for chain in chains[: before.blocks]]
            if not any(v is not None and self.removed.get(v, (-1, 0))[0] >= before.moment for v in hashes):
                self._hit_again(prompt, before.blocks, cached)
        if cached and cached <= first:
            self.hits[key] = _Hit(cached, self.moment)

    def _hit_again(self, prompt: Prompt, before: int, cached: int) -> None:
        if cached >= before:
            self.gone_is_announced.saw(before)
            return
        self.gone_is_announced(
            prompt.record,
            f"a removal or a clear for the blocks of a prompt of which {before} were reused before",
            f"no such event, and the engine reuses {cached} of them",
        )

    def _ends(self) -> None:
        if self.settled < self.begun and self.cap is not None and self.begun == self.settled + 1:
            self._capped(self.cap, self.facts.prompts[self.begun - 1])
        self.settled = self.begun

    def _holds(self, record: int, held: frozenset[int]) -> None:
        announced = {key.hash for key in self.facts.ledger.resident()}
        missing = frozenset(announced - held)
        self.gone_is_announced.saw(len(announced) - len(missing))
        for value in sorted(missing):
            self.gone_is_announced(
                record,
                f"a removal or a clear for {value}, which the engine does not hold any more",
                "no such event: the stream still says that it is resident",
                value,
            )
        if self.cap is not None:
            self._asked(self.cap, record, held, missing)

    @judge("KVW-RES-003")
    def gone_is_announced(self, say: Say, record: int, expected: str, seen: str, block: int | None = None) -> None:
        """KVW-RES-003: A publisher MUST announce by `BlockRemoved` or `AllBlocksCleared` that an announced block is
        gone from a medium and group.

        The harness asks when the stream is drained, so that nothing announced is still under way. An engine that cannot
        be asked shows it when it reuses less of a prompt than it did, though nothing of it was removed since.
        """
        say.broke(expected, seen, Where(record=record, stored=self.facts.stored_in(block)))

    @judge("KVW-RES-012")
    def ended_only_when_gone(self, say: Say, prompt: Prompt, first: int, cached: int, block: int | None) -> None:
        """KVW-RES-012: A publisher MUST end the residency of a block by `BlockRemoved` only when the block is gone
        from that medium and group.

        Shown by a hit on a block that was removed, in every medium and group, and that no prompt can have stored again.
        """
        say.broke(
            f"block {first} of the prompt to be computed anew, for it was removed and not stored since",
            f"the engine reused {cached} blocks of it",
            Where(record=prompt.record, stored=self.facts.stored_in(block)),
        )

    @judge("KVW-RES-013")
    def everything_announced(self, say: Say, prompt: Prompt, first: int, cached: int) -> None:
        """KVW-RES-013: A publisher SHOULD announce every full block that a later prompt can reuse, unless it leaves the
        block out for a reason that this chapter names.

        Shown by a hit on a block of text under announced ones, on an instance without an entry limit.
        """
        say.broke(
            f"a `BlockStored` for block {first} of the prompt, which is in the cache",
            f"none; the engine reused {cached} blocks of it",
            Where(record=prompt.record),
        )

    # the entry limit

    def _capped(self, cap: _Cap, prompt: Prompt) -> None:
        """A calm prompt is over."""
        chains = self.prefixes.of(prompt)
        states = [self._state(chain) for chain in chains]
        resident = next((at for at, state in enumerate(states) if state is not State.RESIDENT), len(states))
        if self.owed is not None and not self.prefixes.strayed:
            self.announced_when_touched(prompt, self.owed in self.announced)
        if cap.stored == cap.limit and resident < len(states) and states[resident] is State.ABSENT:
            cap.shed.update(chains[resident:])
            self.limit_used()

    def _asked(self, cap: _Cap, record: int, held: frozenset[int], missing: frozenset[int]) -> None:
        """The engine was asked what it holds; what it held when it was asked before went since then."""
        new, cap.held = missing & cap.held, held
        busiest, cap.busiest = cap.busiest, 0
        if new and busiest >= cap.limit and cap.shed:
            cap.lost.append((record, len(new), busiest))
        elif new:
            cap.lost_otherwise = True
        elif busiest > cap.limit and cap.shed:
            self.no_removal_shed.saw()

    def _lost_removals(self, cap: _Cap) -> None:
        for record, count, busiest in cap.lost:
            if cap.lost_otherwise:
                self.no_removal_shed.open("removals are lost where the limit is not reached too")
            else:
                self.no_removal_shed(cap, record, count, busiest)

    @judge("KVW-RES-007", unclaimed=unused)
    def no_removal_shed(self, say: Say, cap: _Cap, record: int, count: int, busiest: int) -> None:
        """KVW-RES-007: A publisher MUST NOT let an entry limit shed a removal.

        Blocks that are gone without a removal, where a batch was as full as the limit allows, and none where none was.
        """
        say.broke(
            f"removals beyond the limit of {cap.limit} entries",
            f"{count} blocks are gone without one, and the fullest batch since has {busiest} entries",
            Where(record=record),
        )

    @judge("KVW-RES-008", unclaimed=unused)
    def announced_when_touched(self, say: Say, prompt: Prompt, announced: bool) -> None:
        """KVW-RES-008: A publisher SHOULD announce a block that was shed by the entry limit, or that became fully
        covered later, when the block is next touched.

        The first shed block of a prompt that the engine reuses: its parent stands announced, and the limit has room.
        """
        if announced:
            say.saw()
        else:
            say.broke(
                "a `BlockStored` for the first block that the limit had shed, when a prompt reuses it",
                "none in what the prompt caused",
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
