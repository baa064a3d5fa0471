"""Whether the hashes of a stream recompute: block by block a match, a mismatch, or unknown; and what adds up.

The wire carries neither the salt nor the parent's full key, so that a mismatch needs every input known: the key chain
from a root seen on this stream (key-chain functions) or the claimed parent (claimed-parent functions), no extra token
ids (``v1_block_key``: only a prompt of ours excludes them) and no item whose digest is kept back, and the reuse scope,
from a stimulus or the event, or once a block of that chain has matched. A nil ``lora_id`` is no knowledge, and
neither is 0, which some publishers send for none. A block that reproduces under a known mistake is a mismatch.

Memory: the chains of the ``chains.WINDOW`` most recently used hashes; a forgotten one is unknown. Work: until one
function is settled every function is tried, and so are all for what the settled one does not reproduce, up to
``SEARCH`` tokens hashed in all; then only what is settled or named, and every ``SAMPLE``-th first block.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Literal

import msgspec

from kvwire.cache.cases import Attempt, Case, Examples, Match, Mismatch, Place, Result, Unknown, by_parts, step
from kvwire.cache.chains import WINDOW, Chains, Link, Strand, Window
from kvwire.hashes.functions import NO_SCOPE, TRUE, Block, Function, Input, Scope, State, named, root_key
from kvwire.hashes.keys import extra_keys, readable
from kvwire.hashes.mistakes import MISTAKES
from kvwire.hashes.packing import widened
from kvwire.history.timeline import Batch
from kvwire.wire.events import TWO_64, Event

DECIDING = 8
"""How many blocks decide which function, or which mistake, a stream uses."""
LONG = 32
"""From this many tokens on no mistake was seen to give what the truth gives (``signed-shift`` does at 16, in 2 %)."""
SEARCH = 2_000_000
"""How many tokens are hashed, over all functions and scopes, to find out what reproduces a block."""
SAMPLE = 256
"""After that, every so manyth first block of a chain is still searched."""
SCOPES = 32
"""How many scopes are tried for one block."""
CUTS = 64
"""For so many blocks that nothing gives as a whole it is tried whether finer parts give any of them."""

RECENT = 1024
"""So many blocks that were used last are tried in the place of a parent that cannot be the right one."""

SCOPE = "its reuse scope is not on the wire"
PARENT = "its chain was not seen from the root"
FORGOTTEN = f"its chain was not seen from the root, or is beyond the window of {WINDOW} hashes"
SEARCHED = "no function is settled, and the search for one has reached its bound"
NOTHING = "no known function reproduces it"
COARSE = "other groups have smaller blocks, and a coarse block is named by one of its parts"
MULTIMODAL = "its `mm_keys` cannot be read"
VEILED = "the digest of an item that begins in it is not among its tokens"
Way = Literal["key", "claimed"]
"""A function whose keys are followed from the root, or one that needs the claimed parent."""
V1 = "v1_block_key"
V1_WIDTHS = dict(zip((function.name for function in TRUE if function.label == V1), (4, 8), strict=True))
"""The two revisions of that function, and the bytes of a token in their keys behind a digest."""
KEYED = {"v2_sha256_64/u32": 4, "v2_sha256_64/u64": 8, "v2_sha256_low64/u32": 4, "v2_sha256_low64/u64": 8}
"""Functions of the registry that chain SHA-256, and the bytes of a token in their keys."""
DEPTH = 4096
"""So many stores above a block are gone through for its key."""


class Parity:
    """The parity of one stream.

    ``matches`` counts blocks by true function, ``solid`` those of them that no mistake gives too; ``missed`` holds,
    by true function, blocks that it does not give though all inputs are known and no other true function gives them;
    ``mistaken``, by mistake, blocks that it gives and no true function; ``against`` counts, by mistake, blocks that its
    truth gives and it does not; ``conflicts`` holds blocks that only another true function gives than the blocks before
    them; ``untrue`` blocks that the named functions do not give, and ``unknown`` counts reasons.
    """

    def __init__(
        self,
        scopes: Iterable[Scope] = (),
        chains: Chains | None = None,
        *,
        window: int = WINDOW,
        search: int = SEARCH,
    ) -> None:
        runs = tuple(scopes)
        self._chains = Chains(()) if chains is None else chains
        """Where blocks without faults are remembered."""
        self._loras = tuple(dict.fromkeys([None, *(scope.lora for scope in runs)]))
        self._salts = tuple(dict.fromkeys([None, *(scope.salt for scope in runs)]))
        self._bare = self._product(self._loras, None, self._salts)
        self._states: Window[int, dict[str, State]] = Window(window)
        self._places: set[tuple[str, Place]] = set()
        self._left = search
        self._parents_left = search
        """Tokens that may still be hashed to find the block behind which another has its hash."""
        self._sizes: dict[int, int] = {}
        """Tokens of a block, by group."""
        self._cut = 0
        """Tokens of the parts that hashes of this incarnation are made for, where no group has blocks of them."""
        self._uncut = 0
        """Blocks that neither a whole nor parts give."""
        self._roots = 0
        self._carried = False
        self._clear = False
        """Whether salts stand in the extra keys of this stream, so that a block without one has none."""
        self.settled = False
        self.candidates: tuple[Function, ...] = ()
        self.matched = 0
        self.told = 0
        self.matches: Counter[str] = Counter()
        self.solid: Counter[str] = Counter()
        self.missed: dict[str, Examples] = {}
        self.mistaken: dict[str, Examples] = {}
        self.against: Counter[str] = Counter()
        self.conflicts = Examples()
        self.untrue = Examples()
        self.unknown: Counter[str] = Counter()

    def begin(self) -> None:
        """A new incarnation: its chains begin anew, and it may use another function than the one before."""
        self._states.clear()
        self._sizes.clear()
        self._places.clear()
        self._cut = self._uncut = 0
        self._carried = True

    @property
    def main(self) -> Function | None:
        """The function of the stream, when enough blocks say so."""
        return next((f for f in self.candidates if self.solid[f.name] >= DECIDING), None)

    @property
    def mistake(self) -> str | None:
        """The mistake that gives enough blocks, the most, while no block is its truth's alone."""
        counts = {name: found.count for name, found in self.mistaken.items() if not self.against[name]}
        enough = {name: count for name, count in counts.items() if count >= DECIDING}
        return max(enough, key=lambda name: enough[name], default=None)

    def stored(self, batch: Batch, event: Event, links: Sequence[Link], label: str | None = None) -> list[Result]:
        """Recompute the blocks of a ``whole`` event. ``label`` is what the publisher says of them."""
        extras = extra_keys(batch.payload, event)
        blind = "mm_keys" in event.keys and not readable(event)
        results: list[Result] = []
        parent = event.parent
        size = event.block_size or 0
        self._sizes[event.group] = size
        unit = min(self._sizes.values())
        coarse = size > unit or (event.group > 0 and 0 not in self._sizes)
        for index, value in enumerate(event.hashes):
            if blind:
                result: Result = Unknown(MULTIMODAL)
            else:
                block = Block(
                    event.block(index),
                    parent,
                    event.mm_keys[index] if event.mm_keys else (),
                    msgspec.UNSET if extras is None else extras[index],
                    adapted=event.lora_id is not None or event.lora_name is not None,
                )
                scopes, knowledge = self._scopes(event, block, links[index])
                above = None if parent is None else self._above(parent)
                hidden = any(not offset and digest not in block.tokens for digest, offset in block.mm)
                cut = unit if coarse and size % unit == 0 and not block.mm and not block.extra else 0
                case = Case(
                    block, value, links[index], above, scopes, knowledge, batch, event, index, hidden, coarse, cut
                )
                self._clear = self._clear or case.clear_salt
                result = self._block(case, label)
            if isinstance(result, Unknown):
                self.unknown[result.why] += 1
            results.append(result)
            parent = value
        return results

    # blocks without faults

    @property
    def way(self) -> Way | None:
        """How blocks can be checked at once that the function of the stream gives; None when each is a case."""
        if not self.settled or not self.candidates:
            return None
        if all(function.label == V1 for function in self.candidates):
            return "claimed"
        (function, *others) = self.candidates
        return "key" if not others and function.name in KEYED else None

    @property
    def blind(self) -> bool:
        """Whether nothing is known to give these hashes, and no function is looked for any more."""
        return not self.candidates and self._left <= 0

    def unsearched(self, count: int, *, root: bool) -> bool:
        """Count blocks of which that holds; False, and nothing counted, when a function is looked for all the same."""
        if root:
            if (self._roots + 1) % SAMPLE == 0:
                return False
            self._roots += 1
        self.unknown[SEARCHED] += count
        return True

    @property
    def over(self) -> bool:
        """Whether no more is looked for what reproduces a block that the function of the stream does not."""
        return self._left <= 0

    def orphans(self, parent: int, place: Place, count: int) -> bool:
        """Count blocks in a row of whose chain no key is known; False, and nothing is counted, when they are a case."""
        if self.coarse(place):
            return False
        first = SCOPE if self._above(parent) is not None else FORGOTTEN if self._forgotten else PARENT
        self.unknown[first] += 1
        if count > 1:
            self.unknown[SCOPE] += count - 1
        return True

    def sized(self, place: Place) -> None:
        """Blocks of this place and size follow."""
        self._sizes[place[1]] = place[2] or 0

    def coarse(self, place: Place) -> bool:
        """Whether other groups have, or may have, smaller blocks."""
        size = place[2] or 0
        return size > min(self._sizes.values()) or (place[1] > 0 and 0 not in self._sizes)

    def match(self, place: Place, count: int, roots: int, *, told: bool) -> None:
        """Blocks that the function of the stream gives, so many of them first ones of chains."""
        self._roots += roots
        self._carried = False
        self.matched += count
        if told:
            self.told += count
        for function in self.candidates:
            self.matches[function.name] += count
            self.solid[function.name] += count
            self._places.add((function.name, place))

    @property
    def _forgotten(self) -> int:
        return self._states.forgotten or self._chains.window.forgotten

    def key_of(self, value: int) -> bytes | None:
        """The full key of a block under the function of the stream, whose way is "key"; None when not known."""
        held = self._chains.window.get(value)
        name = self.candidates[0].name
        if isinstance(held, Strand) and held.keys is not None and held.function == name:
            return held.keys[held.index(value)]
        state = (self._states.get(value) or {}).get(name)
        return None if state is None or state.scope != NO_SCOPE else state.key

    def _above(self, value: int) -> dict[str, State] | None:
        """Where the chain of a block stands under each function that was followed; None when it is not known."""
        states = self._states.get(value)
        if states is not None:
            return states
        held = self._chains.window.get(value)
        if not isinstance(held, Strand):
            return None
        at = held.index(value)
        if held.keys is not None:
            assert held.function is not None
            return {held.function: State(NO_SCOPE, held.keys[at], value)}
        if held.claimed:
            return {name: State(NO_SCOPE, self._key(held, at, width), value) for name, width in V1_WIDTHS.items()}
        return {} if held.function is None else None

    def _key(self, strand: Strand, at: int, width: int) -> bytes | None:
        """The full key of a block whose function needs none, from the tokens of its chain."""
        chain: list[tuple[Strand, int]] = [(strand, at)]
        key: bytes | None = None
        while len(chain) < DEPTH:
            parent = chain[-1][0].parent
            if parent is None:
                key = root_key(NO_SCOPE)
                break
            held = self._chains.window.kept.get(parent)
            if isinstance(held, Strand) and held.claimed:
                chain.append((held, held.index(parent)))
                continue
            name = next(name for name, own in V1_WIDTHS.items() if own == width)
            state = (self._states.kept.get(parent) or {}).get(name)
            key = None if state is None else state.key
            break
        for one, last in reversed(chain):
            for index in range(last + 1):
                if key is None:
                    return None
                key = hashlib.sha256(key + widened(one.own(index), width)).digest()
        return key

    # what is known

    def _product(self, loras: Iterable[int | None], name: str | None, salts: Sequence[str | None]) -> tuple[Scope, ...]:
        scopes = (
            Scope(lora, name, salt) if lora is not None or name is not None or salt is not None else NO_SCOPE
            for lora in loras
            for salt in salts
        )
        return tuple(scopes)[:SCOPES]

    def _scopes(self, event: Event, block: Block, link: Link) -> tuple[tuple[Scope, ...], frozenset[Input]]:
        """The scopes that the block can be in, and which inputs they are complete for."""
        extra: frozenset[Input] = frozenset() if block.extra is msgspec.UNSET else frozenset({"extra"})
        if link.scopes:
            possible, own = link.scopes, None if event.lora_id is None else event.lora_id % TWO_64
            if own is not None:  # the id by which the publisher knows the adapter enters, whatever we call it
                named = frozenset(scope for scope in possible if scope.lora == own)
                adapted = frozenset(Scope(own, salt=scope.salt) for scope in possible if scope.lora is not None)
                possible = named or (adapted if own else possible | adapted) or possible
            scopes = tuple(
                Scope(scope.lora, event.lora_name if scope.lora is not None else None, scope.salt)
                for scope in sorted(possible, key=repr)
            )
            return scopes[:SCOPES], extra | {"lora", "salt"}
        if event.lora_id is None and event.lora_name is None and event.cache_salt is None:
            return self._bare, extra
        known: set[Input] = set(extra)
        loras, salts = self._loras, self._salts
        if event.lora_id == 0:
            loras = tuple(dict.fromkeys((None, 0, *loras)))
        elif event.lora_id is not None:
            loras = (event.lora_id % TWO_64,)
            known.add("lora")
        if event.cache_salt is not None:
            salts = (event.cache_salt,)
            known.add("salt")
        return self._product(loras, event.lora_name, salts), frozenset(known)

    def _attempt(self, function: Function, case: Case) -> Attempt | None:
        """Try one function; None when the wire does not give it a state to begin with."""
        block = case.block
        if case.above is not None and (followed := case.above.get(function.name)) is not None:
            state = step(function, followed, case)
            shown: tuple[Scope, ...] = () if state.hash is None else (state.scope,)
            if state.hash == case.value:
                return Attempt(function, state, state, known=True, shown=shown)
            if self._hidden(function, state, case):
                return Attempt(function, None, None, known=False, shown=())
            if shown and (hit := self._finer(function, [followed], case)) is not None:
                return Attempt(function, hit, hit, known=True, shown=shown)
            return Attempt(function, None, state, bool(shown), shown)
        root = block.parent is None
        if not root and function.family == "key-chain":
            return None
        tries, told = [(scope, case) for scope in case.scopes], True
        if "extra" in function.inputs & case.knowledge:
            tries, told = [(NO_SCOPE, keyed) for keyed in case.keyed], self._clear or case.tells_salt
        starts = [(function.start(scope) if root else function.join(scope), tried) for scope, tried in tries]
        states = [step(function, start, tried) for start, tried in starts if start is not None]
        if hit := next((state for state in states if state.hash == case.value), None):
            return Attempt(function, hit, hit, known=True, shown=(hit.scope,))
        known = (
            told
            and len(states) == len(starts)
            and (function.inputs if root else function.later) <= case.knowledge
            and (root or function.foreign or case.link.plain)
            and all(state.hash is not None for state in states)
            and not any(self._hidden(function, state, case) for state in states)
        )
        if known and (hit := self._finer(function, [start for start, _ in starts if start is not None], case)):
            return Attempt(function, hit, hit, known=True, shown=(hit.scope,))
        shown = tuple(state.scope for state in states if state.hash is not None)
        return Attempt(function, None, states[0] if known and len(states) == 1 else None, known, shown)

    def _finer(self, function: Function, states: Sequence[State], case: Case) -> State | None:
        """The state behind a block that is named by its finer parts, though no group has blocks of them.

        A group that is not announced can have them, and so can entries below the size of a block.
        """
        size = len(case.block.tokens)
        if self._uncut >= CUTS or case.cut or case.block.extra or function.truth is not None:
            return None
        for cut in (self._cut,) if self._cut else range(size // 2, 0, -1):
            for state in states if not size % cut else ():
                if (hit := by_parts(function, state, case, cut)) is not None:
                    self._cut = cut
                    return hit
        self._uncut += not self._cut
        return None

    def _hidden(self, function: Function, state: State, case: Case) -> bool:
        """Whether what is not on the wire can make another hash of the block: an item's digest, extra token ids, which
        of its parts its extra keys belong to, extra keys that an event leaves out, or how an adapter enters.
        """
        if case.veiled or case.coarse or (self._cut and case.block.extra):
            return True
        if function.foreign and ("extra" not in case.knowledge if "extra" in function.inputs else case.block.adapted):
            return True
        return function.family == "claimed-parent" and not function.foreign and not state.fallback and not case.ours

    # one block

    def _block(self, case: Case, label: str | None) -> Result:
        front = {function.name for function in (*self.candidates, *named(label))}
        search = self._may_search(case)
        attempts: list[Attempt] = []
        if self.settled or not search:
            attempts = self._try((f for f in TRUE if f.name in front), case)
        if search and (search := not any(attempt.hit for attempt in attempts)):
            more = self._try((f for f in (*TRUE, *MISTAKES) if not (self.settled and f.name in front)), case)
            self._left -= len(case.block.tokens) * len(more) * len(case.scopes)
            attempts += more
        right = [a for a in attempts if a.hit is not None and a.function.truth is None]
        wrong = [a for a in attempts if a.hit is not None and a.function.truth is not None]
        moved: list[Attempt] = []
        if not right and not wrong and (behind := self._behind(case)) is not None:
            case = msgspec.structs.replace(case, behind=behind)
            moved = self._moved(case, behind)
            attempts = [*(a for a in attempts if a.function not in self.candidates), *moved]
        states = self._follow(case, attempts, (right or wrong)[:1])
        sure = moved or self._sure(case, attempts)
        if label is not None:
            self._compare(case, label, right, wrong, sure, states)
        if right:
            self._matched(case, right, wrong, states, searched=search)
            for attempt in attempts if search else ():
                scopes = [a.hit.scope for a in right if a.hit is not None and a.function.name == attempt.function.truth]
                if attempt.hit is None and any(scope in attempt.shown for scope in scopes):
                    self.against[attempt.function.name] += 1
            return Match(tuple(attempt.function.name for attempt in right))
        other = self._carried and self.candidates  # what was true of a life before says nothing of this one yet
        missed = () if other else (attempt.function.name for attempt in sure)
        for name in dict.fromkeys((*missed, *(str(attempt.function.truth) for attempt in wrong))):
            self.missed.setdefault(name, Examples()).add(case.example(wrong, states, name))
        for attempt in wrong:
            truth = str(attempt.function.truth)
            self.mistaken.setdefault(attempt.function.name, Examples()).add(case.example([attempt], states, truth))
        if wrong or any(a.function.name in front for a in sure):
            return Mismatch(wrong[0].function.name if wrong else None)
        return Unknown(self._why(case, attempts, front))

    def _behind(self, case: Case) -> int | None:
        """The block behind which the function of the stream gives the hash, whatever parent is named.

        Where that is nil, or a block whose chain is known: no scope, and no extra token id, gives one block the hash
        that it has elsewhere.
        """
        named = case.block.parent
        if self.main is None or case.veiled or case.coarse or not (named is None or case.above):
            return None
        kept, own = self._chains.window.kept, {named, *case.event.hashes[case.index :]}
        before = self._chains.get(case.value)
        first = (None if before is None else before.parent,)
        for value in (*first, *islice((value for value in reversed(kept) if value not in own), RECENT)):
            if self._parents_left <= 0:
                break
            if value not in (None, named) and self._moved(case, value):
                return value
        return None

    def _moved(self, case: Case, parent: int) -> list[Attempt]:
        """The functions of the stream that give the hash behind another parent than the one that is named."""
        above = {} if self.way == "claimed" else self._above(parent) or {}
        found: list[Attempt] = []
        for function in self.candidates:
            start = above.get(function.name) or function.join(NO_SCOPE)
            if start is not None:
                self._parents_left -= len(case.block.tokens)
                state = function.step(start, msgspec.structs.replace(case.block, parent=parent))
                found += [Attempt(function, None, state, known=True, shown=())] * (state.hash == case.value)
        return found

    def _may_search(self, case: Case) -> bool:
        if case.block.parent is None:
            self._roots += 1
            return self._left > 0 or self._roots % SAMPLE == 0
        return self._left > 0

    def _try(self, functions: Iterable[Function], case: Case) -> list[Attempt]:
        return [attempt for function in functions if (attempt := self._attempt(function, case)) is not None]

    def _counts(self, attempt: Attempt, case: Case) -> bool:
        """Whether a mismatch counts: a foreign function's description is trusted where it has matched before."""
        return not attempt.function.foreign or (attempt.function.name, case.place) in self._places

    def _sure(self, case: Case, attempts: Sequence[Attempt]) -> list[Attempt]:
        """The true functions that do not give the hash, where none of the stream's with their label may do so."""
        missed = [a for a in attempts if a.hit is None and a.known and a.function.truth is None]
        told = {a.function.name for a in attempts if a.known}
        blind = {f.label for f in self.candidates if f.name not in told}
        return [a for a in missed if a.function.label not in blind and self._counts(a, case)]

    def _follow(self, case: Case, attempts: list[Attempt], hits: list[Attempt]) -> dict[str, State]:
        """Remember where the chain stands under each function whose inputs are known now."""
        states: dict[str, State] = {}
        for attempt in attempts:
            function, state = attempt.function, attempt.state
            if state is None and hits and hits[0].hit is not None and not case.veiled:
                scope = hits[0].hit.scope
                start = function.start(scope) if case.block.parent is None else function.join(scope)
                state = None if start is None else step(function, start, case)
            if state is not None:
                states[function.name] = state
        if states or self._above(case.value) is None:
            self._states.put(case.value, states)
        return states

    def _compare(
        self,
        case: Case,
        label: str,
        right: list[Attempt],
        wrong: list[Attempt],
        sure: list[Attempt],
        states: Mapping[str, State],
    ) -> None:
        """Hold the block against the functions that the label names, if it names any."""
        functions = named(label)
        wanted = {function.name for function in functions}
        if any(attempt.function.name in wanted for attempt in right):
            self.told += 1
        elif wanted and (right or wrong or any(attempt.function.name in wanted for attempt in sure)):
            self.untrue.add(case.example(right or wrong, states, label, functions))

    def _matched(
        self, case: Case, right: list[Attempt], wrong: list[Attempt], states: Mapping[str, State], *, searched: bool
    ) -> None:
        self.matched += 1
        doubted = {(attempt.function.label, attempt.hit.scope) for attempt in wrong if attempt.hit is not None}
        sure = searched or self.settled or len(case.block.tokens) >= LONG
        hits = [attempt.function for attempt in right]
        both = tuple(function for function in self.candidates if function in hits)
        for attempt in right:
            name = attempt.function.name
            if both and attempt.function not in both:
                continue  # v1 behind a digest token is v2 by definition: what text has ruled out is not counted
            self.matches[name] += 1
            self._places.add((name, case.place))
            if sure and attempt.hit is not None and (attempt.function.label, attempt.hit.scope) not in doubted:
                self.solid[name] += 1
        if both:
            for function in set(self.candidates) - set(both):
                del self.matches[function.name], self.solid[function.name]
            self.candidates = both
        elif not self.candidates or self._carried:
            self.candidates, self.settled = tuple(hits), False
        else:
            self.conflicts.add(case.example(right, states, self.candidates[0].name))
        self.settled = self.settled or self.main is not None
        self._carried = False

    def _why(self, case: Case, attempts: list[Attempt], front: set[str]) -> str:
        if not attempts and not front:
            return SEARCHED
        if case.veiled:
            return VEILED
        if case.coarse:
            return COARSE
        if case.block.parent is not None and case.above is None:
            return FORGOTTEN if self._forgotten else PARENT
        if not front and case.knowledge >= {"lora", "salt"}:
            return NOTHING
        return SCOPE
