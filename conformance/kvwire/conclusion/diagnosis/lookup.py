"""What a correct consumer would hold for a prompt, block by block, medium by medium, and why it does not hold the rest.

A block is found by the tokens that it was announced with, so that no hash function need be known; where one is
recognised, the hash that a computing consumer would ask for stands beside the one that was announced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kvwire.cache.chains import NOTHING, Text, Window, longer
from kvwire.cache.ledger import ALL, Key, Location
from kvwire.conclusion.diagnosis.recognition import Recognised, Recognition, seeded
from kvwire.conclusion.diagnosis.residents import Residents
from kvwire.conclusion.judging import records_of
from kvwire.hashes.functions import NO_SCOPE, Block, Function, Scope, State
from kvwire.hashes.mistakes import BY_NAME
from kvwire.history.timeline import Batch, Gap, build
from kvwire.judges.facts import cleared_by
from kvwire.trace.records import StreamInfo, Trace
from kvwire.wire.events import TWO_64, Event

KEPT = 262_144
"""How many hashes and prefixes are remembered, those least recently used forgotten first."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A block that is resident: where, under which hash, and the number of the batch that stored it."""

    place: Location
    hash: int
    stored: int


class BlockLookup(msgspec.Struct, frozen=True, kw_only=True):
    """One block of the prompt: its first token's index, where it is held, and, where it is not, why.

    ``computed`` is the hash that the recognised function gives, None where it cannot be said.
    """

    index: int
    first_token: int
    computed: int | None
    announced: list[int]
    held: list[Held]
    why: str


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt looked up on one stream: its full blocks of ``block_size`` tokens, and ``hits``: by medium the leading
    blocks that are held there in one group; ``anywhere`` counts those held in any medium.

    ``uncertain``: numbers were lost, so that what they told is unknown.
    """

    stream: str
    block_size: int
    function: Recognised | None
    blocks: list[BlockLookup]
    hits: dict[str, int]
    anywhere: int
    uncertain: str


class _Gone(msgspec.Struct, frozen=True):
    number: int
    how: str


class _Holder:
    """What a consumer of one stream holds after all that was heard."""

    def __init__(self, seeds: Iterable[str]) -> None:
        self.recognition = Recognition(seeds)
        self.residents = Residents()
        self.gone: Window[Key, _Gone] = Window(KEPT)
        self.prefixes: Window[Text, dict[int, Scope]] = Window(KEPT)
        self.chains: Window[int, Text] = Window(KEPT)
        self.sizes: dict[int, int] = {}
        self.uncertain = ""

    def begin(self) -> None:
        """A new incarnation: what was held is gone, and numbers begin anew."""
        self.recognition.begin()
        self.residents = Residents()
        self.sizes.clear()
        for window in (self.gone, self.prefixes, self.chains):
            window.clear()
        self.uncertain = ""

    def gap(self, gap: Gap) -> None:
        """What was lost could have stored or removed anything."""
        if gap.first <= gap.last:
            numbers = str(gap.first) if gap.first == gap.last else f"{gap.first} to {gap.last}"
            self.uncertain = f"numbers {numbers} were lost ({gap.attribution}): what they told is unknown"

    def batch(self, batch: Batch) -> None:
        """What a batch stores, removes and clears."""
        for event in batch.reading.events:
            if not event.sound:
                continue
            for key in self.residents.take(event, batch.number):
                how = "removed" if event.kind == "removed" else "cleared"
                self.gone.put(key, _Gone(batch.number, how))
            if event.kind == "cleared" and cleared_by(event) == ALL:
                self.uncertain = ""
            if event.kind == "stored" and event.whole and not event.tokenless:
                self.recognition.stored(batch.payload, event)
                self._named(event)

    def _named(self, event: Event) -> None:
        self.sizes.setdefault(event.group, event.block_size or 0)
        above = NOTHING if event.parent is None else self.chains.get(event.parent)
        scope = Scope(None if event.lora_id is None else event.lora_id % TWO_64, event.lora_name, event.cache_salt)
        for index, value in enumerate(event.hashes):
            if above is None:
                return
            above = longer(above, event.block(index))
            self.chains.put(value, above)
            names = self.prefixes.get(above) or {}
            self.prefixes.put(above, {**names, value: scope})


def lookup(
    trace: Trace,
    stream: StreamInfo,
    tokens: Sequence[int],
    *,
    block_size: int | None = None,
    scope: Scope = NO_SCOPE,
    seeds: Iterable[str] = (),
) -> Lookup:
    """Look a prompt up on a stream, as things stand at the end of what was heard.

    ``block_size`` of None is that of the lowest group that was announced. ``scope`` is the reuse scope of the prompt: a
    block of another adapter is no hit.
    """
    holder = _Holder(seeds)
    for incarnation in build(records_of(trace, stream.name)).incarnations:
        holder.begin()
        for step in incarnation.steps():
            if isinstance(step, Gap):
                holder.gap(step)
            else:
                holder.batch(step)
    size = block_size or holder.sizes.get(min(holder.sizes, default=0), 0)
    function = next(iter(holder.recognition.found()), None)
    blocks = _looked_up(holder, tokens, size, function, scope) if size else []
    places = sorted({held.place for block in blocks for held in block.held}, key=str)
    hits: dict[str, int] = {}
    for place in places:
        medium = str(place.medium)
        hits[medium] = max(hits.get(medium, 0), _leading(blocks, place))
    return Lookup(
        stream=stream.name,
        block_size=size,
        function=function,
        blocks=blocks,
        hits=hits,
        anywhere=_leading(blocks, None),
        uncertain=holder.uncertain,
    )


def _leading(blocks: Sequence[BlockLookup], place: Location | None) -> int:
    """How many blocks from the first on are held in a place; in any, if None."""
    count = 0
    for block in blocks:
        if not any(place in (None, held.place) for held in block.held):
            break
        count += 1
    return count


def _looked_up(
    holder: _Holder, tokens: Sequence[int], size: int, function: Recognised | None, scope: Scope
) -> list[BlockLookup]:
    state = _start(function, scope)
    above, parent = NOTHING, None
    found: list[BlockLookup] = []
    step = size if function is None or function.finer is None else function.finer
    for index in range(len(tokens) // size):
        own = tuple(tokens[index * size : (index + 1) * size])
        if state is not None and function is not None:
            for at in range(0, size, step):
                state = _function(function).step(state, Block(own[at : at + step], parent))
                parent = state.hash
        above = longer(above, own)
        names = holder.prefixes.get(above) or {}
        mine = [value for value, announced in names.items() if _fits(announced, scope)]
        held = [
            Held(place=place, hash=value, stored=hashes[value])
            for place, hashes in holder.residents.held.items()
            for value in mine
            if value in hashes
        ]
        computed = None if state is None else state.hash
        found.append(
            BlockLookup(
                index=index,
                first_token=index * size,
                computed=computed,
                announced=mine,
                held=held,
                why="" if held else _why(holder, names, mine),
            )
        )
    return found


def _function(function: Recognised) -> Function:
    known = BY_NAME[function.function]
    return known if function.seed is None else seeded(known, function.seed)


def _start(function: Recognised | None, scope: Scope) -> State | None:
    return None if function is None else _function(function).start(scope)


def _fits(announced: Scope, wanted: Scope) -> bool:
    """Whether a block of a scope is one of the prompt's: what both say has to be the same, and something has to be."""
    if wanted.lora is None and wanted.lora_name is None:
        return announced.lora in (None, 0) and announced.lora_name in (None, "")
    said = ((wanted.lora, announced.lora), (wanted.lora_name, announced.lora_name))
    both = [(mine, theirs) for mine, theirs in said if mine is not None and theirs is not None]
    return bool(both) and all(mine == theirs for mine, theirs in both)


def _why(holder: _Holder, names: dict[int, Scope], mine: Sequence[int]) -> str:
    if not names:
        return "never announced" + (f", as far as was heard ({holder.uncertain})" if holder.uncertain else "")
    if not mine:
        return "announced in another reuse scope only: " + "; ".join(sorted({scope.text for scope in names.values()}))
    ends = [
        (gone, place)
        for value in mine
        for place in holder.residents.held
        if (gone := holder.gone.get(Key(place, value))) is not None
    ]
    if not ends:
        return "announced, and not resident now"
    gone, place = max(ends, key=lambda end: end[0].number)
    return f"{gone.how} from {place.medium} in number {gone.number}"
