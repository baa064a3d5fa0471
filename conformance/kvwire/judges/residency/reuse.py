"""Reuse: what the engine says it holds, against what the stream says (spec/residency.md).

That a prompt reuses less or more than is announced proves nothing by itself: another group, or a tier of which no event
speaks, can be in the way or have helped. So an idle engine is asked what it holds, medium by medium and group by group.
"""

from __future__ import annotations

import bisect

import msgspec

from kvwire.cache.ledger import Key, Location, State
from kvwire.cache.prefixes import Prefixes
from kvwire.history.progress import Moment
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, judge
from kvwire.judges.residency.answer import Answer
from kvwire.judges.verdict import Where
from kvwire.trace.calls import CacheCall, ResidentCall, StartCall
from kvwire.trace.marks import Settled
from kvwire.trace.records import told
from kvwire.wire.events import Event


class _Removed(msgspec.Struct, frozen=True):
    """When a block was removed: after which prompts nothing was under way, and which can have been begun by then."""

    settled: int
    begun: int


class _Owed(msgspec.Struct, frozen=True):
    """A prompt of which more was reused than stood announced: its record, the first such block, blocks reused."""

    record: int
    first: int
    cached: int


class Reuse(Area):
    """Follows prompts by the tokens of their prefixes, and holds answers against the ledger."""

    memory = "O(window)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.prefixes = Prefixes(context.statement.block_size)
        self.asks = "resident" in context.header.can
        self.capped = False
        """Whether an entry limit was asked for, which is a reason to leave blocks out."""
        self.text = True
        """Whether all prompts so far were text, so that the engine holds no block with content of another sort."""
        self.begun = 0
        """Prompts that were begun so far."""
        self.settled = 0
        """Those of them that were begun before the stream was last drained."""
        self.removed: dict[Key, _Removed] = {}
        self.owed: dict[bytes, _Owed] = {}
        """By prefix: what was reused without being announced, and was not announced since."""
        self.kept: set[int] = set()
        """What was removed, or cleared, though it was not gone: that it is not announced since is the same fault."""
        self.doubted: set[Key] = set()
        """What stood announced and was not held when an engine was asked that was not known to be idle."""

    def on_incarnation(self, incarnation: Incarnation) -> None:
        if not incarnation.index:
            self.prefixes.prompts = self.facts.prompts
            starts = [start for _, start in told(self.facts.stimuli, StartCall) if start.succeeded]
            self.capped = any(start.cap for start in starts)
        self.prefixes.begin()
        self._lose()

    def on_gap(self, gap: Gap) -> None:
        self._lose()

    def _lose(self) -> None:
        self.removed.clear()
        self.owed.clear()
        self.kept.clear()
        self.doubted.clear()

    def finish(self) -> None:
        if self.doubted:
            self.gone_is_announced.open("what is missing was not asked for again when the engine was idle")

    # what was asked of the engine

    def on_stimulus(self, moment: Moment) -> None:
        match moment.stimulus:
            case CacheCall(succeeded=True):
                self._begins(moment)
            case ResidentCall(succeeded=True) as call if moment.known:
                self._asked(Answer(self.context, moment, call))
            case Settled(drained=True) if moment.known:
                self.settled = self._before(moment)

    def _before(self, moment: Moment) -> int:
        """How many prompts were begun before a moment."""
        return bisect.bisect_left(self.facts.prompts, moment.index, key=lambda prompt: prompt.record)

    def _begins(self, moment: Moment) -> None:
        position = self._before(moment)
        prompt = self.facts.prompts[position]
        self.begun = position + 1
        text = prompt.items == () and bytes not in map(type, prompt.tokens)
        self.text = self.text and text
        if not moment.known or prompt.cached_tokens is None or not text:
            return
        chains = self.prefixes.of(prompt)
        cached = min(prompt.cached_tokens // max(1, self.prefixes.size), len(chains))
        first = next((at for at, chain in enumerate(chains[:cached]) if self._is_unannounced(chain)), None)
        if first is not None:
            self.owed.setdefault(chains[first], _Owed(moment.index, first, cached))

    def _is_unannounced(self, chain: bytes) -> bool:
        """Whether the stream says that a prefix's last block is in none of its locations."""
        if self.prefixes.several(chain) or not self.facts.ledger.complete or self.prefixes.strayed:
            return False
        value = self.prefixes.hash_of(chain)
        return value is None or all(self._is_absent(Key(place, value)) for place in self.facts.locations)

    def _is_absent(self, key: Key) -> bool:
        return self.facts.ledger.state(key) is State.ABSENT

    # the stream

    def on_event(self, batch: Batch, event: Event) -> None:
        if not event.sound:
            return
        if event.kind == "cleared":
            self.doubted -= self.facts.cleared
            self.removed.clear()
            self.owed.clear()
            self.kept |= {key.hash for key in self.facts.cleared}  # whether it had gone is for KVW-RES-005
            return
        keys = {change.key for change in self.facts.changes}
        self.doubted -= keys
        if event.kind == "stored":
            for chain in self.prefixes.stored(event):
                self.owed.pop(chain, None)
            for key in keys:
                self.removed.pop(key, None)
            self.kept.difference_update(event.hashes)
        elif self.asks:
            self.removed |= dict.fromkeys(keys, _Removed(self.settled, self.begun))

    # what the engine says

    def _asked(self, answer: Answer) -> None:
        announced: dict[Location, set[int]] = {location: set() for location in self.facts.locations}
        for location, value in self.facts.ledger.resident():
            announced[location].add(value)
        for location in sorted(announced, key=str):
            held = answer.held(location)
            if held is not None:
                self._compare(answer, location, announced[location], held)
            elif announced[location] and location.own:
                self.gone_is_announced.open("blocks are announced in places of which the answer does not speak")
        if answer.idle and answer.anything and not announced and not self.capped:
            for owed in self.owed.values():
                self.everything_announced(answer, None, owed)
            self.owed.clear()
        if answer.idle:
            self.doubted.clear()

    def _compare(self, answer: Answer, location: Location, announced: set[int], held: frozenset[int]) -> None:
        there = len(announced & held)
        self.gone_is_announced.saw(there)
        if not self.capped:
            self.everything_announced.saw(there)
        for key in [key for key in self.removed if key.location == location and key.hash not in held]:
            del self.removed[key]
            self.ended_only_when_gone.saw()
        missing = announced - held
        if not answer.idle:
            self.doubted |= {Key(location, value) for value in missing}
            return
        for value in sorted(missing):
            self.gone_is_announced(answer, location, value)
        for value in sorted(held - announced):
            self._unannounced(answer, Key(location, value))
        self._reused(answer, location, held)

    def _unannounced(self, answer: Answer, key: Key) -> None:
        """A block that an idle engine holds, and that does not stand announced: was it never gone?"""
        removed = self.removed.get(key)
        if removed is None or not self._is_absent(key):
            return
        chain = self.prefixes.chain_of(key.hash)
        if chain is not None and not self._stored_anew(removed, chain):
            del self.removed[key]
            self.kept.add(key.hash)
            self.ended_only_when_gone(answer, key)

    def _stored_anew(self, removed: _Removed, chain: bytes) -> bool:
        """Whether a prompt can have put a block into its location again, without a word.

        One under way when it was removed cannot have done so if it reused it.
        """
        for at, prompt in enumerate(self.facts.prompts[removed.settled : self.begun], removed.settled):
            chains = self.prefixes.of(prompt)
            if chain in chains:
                reused = (prompt.cached_tokens or 0) // self.prefixes.size > chains.index(chain)
                if not reused or at > removed.begun:
                    return True
        return False

    def _reused(self, answer: Answer, location: Location, held: frozenset[int]) -> None:
        """Blocks that were reused and not announced since: an announced medium that holds them owes them."""
        if self.capped:
            return
        unexplained = {
            value for value in held if self.prefixes.chain_of(value) is None and self._is_absent(Key(location, value))
        }
        for chain, owed in list(self.owed.items()):
            value = self.prefixes.hash_of(chain)
            if value in held if value is not None else unexplained and self.text:
                del self.owed[chain]
                if value in self.kept:
                    continue
                self.everything_announced(answer, location, owed)

    @judge("KVW-RES-003")
    def gone_is_announced(self, say: Say, answer: Answer, location: Location, block: int) -> None:
        """KVW-RES-003: A publisher MUST announce by `BlockRemoved` or `AllBlocksCleared` that an announced block is
        gone from a location.

        Shown by an idle engine, which says that it does not hold what stands announced.
        """
        say.broke(
            f"a removal or a clear for {block} in {location}, which the engine does not hold there any more",
            "no such event: the stream still says that it is resident",
            Where(record=answer.record, stored=self.facts.stored_in(block)),
        )

    @judge("KVW-RES-012")
    def ended_only_when_gone(self, say: Say, answer: Answer, key: Key) -> None:
        """KVW-RES-012: A publisher MUST end the residency of a block by `BlockRemoved` only when the block is gone from
        that location.

        Shown by an idle engine, which says that it holds what was removed there, and what no prompt since can have
        stored again.
        """
        say.broke(
            f"that {key.hash} is gone from {key.location}, where it was removed",
            "the engine still holds it there, and no prompt since has it",
            Where(record=answer.record, stored=self.facts.stored_in(key.hash)),
        )

    @judge("KVW-RES-013")
    def everything_announced(self, say: Say, answer: Answer, location: Location | None, owed: _Owed) -> None:
        """KVW-RES-013: A publisher SHOULD announce every full block that a later prompt can reuse, unless it leaves the
        block out for a reason that this chapter names.

        Shown by a hit on a block of text that is announced nowhere, and by an idle engine, which says that it holds it
        in a medium and group of which its events speak, or holds blocks where none ever did; on an instance without an
        entry limit.
        """
        place = "" if location is None else f" in {location}"
        say.broke(
            f"a `BlockStored`{place} for block {owed.first} of a prompt of which {owed.cached} were reused",
            "no block was ever stored, and the engine holds some"
            if location is None
            else "none, and the engine holds it there",
            Where(record=owed.record),
        )
