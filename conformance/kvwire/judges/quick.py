"""Takes batches without faults into the facts, and counts them; what they come to is told to the areas in bulk.

Every event is checked wholly before anything of it is noted, and what does not pass is shown to the areas one by one,
as any other. Both ways keep the same facts, so that nothing depends on which way an event went.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any

from kvwire.cache.chains import Link, Strand
from kvwire.cache.ledger import MANY, Location
from kvwire.cache.parity import KEYED, Place
from kvwire.hashes.functions import LABELS, NO_SCOPE, OPAQUE, named, root_key
from kvwire.hashes.packing import token_bytes, widened
from kvwire.judges.facts import Facts
from kvwire.judges.step import Step
from kvwire.standard.statement import LOCATION_UPDATES, PARTIAL_ENTRIES, Statement
from kvwire.wire.plain import Read, Shape, good_medium

MASK = 2**64 - 1
TOP = 2**63
LARGE = 256
"""Blocks of more tokens are shown one by one: here their tokens are kept as they are."""
KEY_LABEL = "v2_sha256"
ROOT_KEY = root_key(NO_SCOPE)
SPOTTING = (
    "medium",
    "group_idx",
    "locality",
    "ownership",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
)
"""What of an event says where it is, and in what."""

_sha256 = hashlib.sha256


class Spot:
    """What holds for all events of one shape in one location: what is known of it, and how it is judged.

    ``size``: the tokens of a block, once it was found to be good. ``rest`` are the other locations of the group.
    """

    def __init__(self, facts: Facts, location: Location, policy: str, *, kind: str, told: bool, labelled: bool) -> None:
        self.location = location
        self.place: Place = (location.medium, location.group, None)
        self.size = 0
        self.blocks = facts.ledger.blocks(location)
        self.rest = [blocks for other, blocks in facts.ledger.of_group(location.group) if other != location]
        self.line = facts.lineage.of(location.group)
        self.is_set = policy == "set"
        self.counted = policy == "counted"
        self.dense = kind == "dense"
        self.windowed = kind == "window"
        self.kind_told = told
        self.labelled = labelled


class Quick:
    """The quick way of one stream. ``step`` counts since the areas were told last.

    ``later``: who recomputes the blocks of a store when its function needs the claimed parent only; many at once.
    """

    def __init__(
        self,
        facts: Facts,
        statement: Statement,
        declared_rank: int | None,
        later: Callable[[Strand, Place, int], None],
    ) -> None:
        self.facts = facts
        self.step = Step()
        self._statement = statement
        self._declared_rank = declared_rank
        self._later = later
        extensions = {LOCATION_UPDATES, PARTIAL_ENTRIES}.intersection(statement.extensions)
        self.able = not extensions and statement.salt != "tag" and not facts.prompts and not facts.offers
        self._ready = False
        self._spots: dict[Shape, tuple[tuple[str, ...], dict[Any, Spot | None]]] = {}
        self._way: str | None = None
        self._function: str | None = None
        self._width = 4
        self.told = False
        """Whether the hash function is one that is announced or declared."""
        self._labels = False
        self._index = 0

    # what may have changed

    def doubt(self) -> None:
        """Something was shown one by one: look at the facts again."""
        self._ready = False

    def _look(self) -> bool:
        """Look at the facts; whether anything can be taken."""
        facts = self.facts
        self._spots.clear()
        rank = facts.first_rank
        if facts.leading or facts.ledger.unsure or not facts.identity.chains.simple:
            return False
        if facts.newest is None or rank is None or self._declared_rank not in (None, rank[0]):
            return False
        announced = facts.announced
        self._labels = announced in LABELS and (
            not announced.startswith(KEY_LABEL) or announced.endswith(("/u32", "/u64"))
        )
        self._way = self._how(facts.label(None))
        if self._way is None:
            return False
        self._v2 = announced is not None and announced.startswith(KEY_LABEL) and self._way == "key"
        if self._v2 and self._width == 8 and "wide tokens" not in facts.counted:
            return False
        self._ready = True
        return True

    def _how(self, label: str | None) -> str | None:
        """How hashes are checked: "key", "claimed", "blind" or "opaque"; None: each block is a case."""
        parity = self.facts.parity
        self._function, self.told = None, False
        if label == OPAQUE:
            self._function = OPAQUE
            return "opaque"
        wanted = {function.name for function in named(label)} if label is not None else set[str]()
        if not wanted and parity.blind:
            return "blind"
        way = parity.way
        if way is None or not wanted <= {function.name for function in parity.candidates}:
            return None
        self.told = bool(wanted)
        if way == "key":
            self._function = parity.candidates[0].name
            self._width = KEYED[self._function]
        return way

    # batches

    def take(self, read: Read, number: int) -> int | None:
        """Take a batch as far as it has no fault: how many events were taken; None when not even the batch was."""
        if not self._ready and not (self.able and self._look()):
            return None
        facts, step = self.facts, self.step
        ts, rank, events = read
        assert facts.newest is not None
        assert facts.first_rank is not None
        if ts < facts.newest[0] or rank != facts.first_rank[0]:
            return None
        if len(events) > 1:
            form = events[0][0].form
            if any(shape.form != form for shape, _ in events):
                return None
        taken = 0
        for shape, event in events:
            self._index = taken
            if not (self._stored(shape, event, number) if shape.kind == "stored" else self._removed(shape, event)):
                if not taken:
                    return None
                break
            step.shapes[shape] += 1
            taken += 1
        step.batches += 1
        step.rising += 1
        step.stamps.append(ts)
        facts.newest = (ts, number)
        return taken

    # where events are

    def _spot(self, shape: Shape, event: Any) -> Spot | None:
        """What holds for such events; None when they are shown one by one."""
        known = self._spots.get(shape)
        if known is None:
            known = self._spots[shape] = (tuple(name for name in SPOTTING if name in shape.keys), {})
        names, spots = known
        key = event.medium if len(names) == 1 else tuple([getattr(event, name) for name in names])
        try:
            return spots[key]
        except KeyError:
            spot = self._new_spot(shape, event)
            self._spots.setdefault(shape, known)[1][key] = spot
            return spot

    def _new_spot(self, shape: Shape, event: Any) -> Spot | None:
        statement, facts = self._statement, self.facts

        def of(key: str) -> Any:
            return getattr(event, key) if key in shape.keys else None

        medium, group = event.medium, of("group_idx") or 0
        if not good_medium(medium) or medium == "":
            return None
        if shape.form != "map" and "array" not in facts.counted:
            return None
        if statement.form != "map" and shape.form not in (statement.form, "array"):
            return None
        labelled = "hash_algo" in shape.keys
        if labelled and not self._labels:
            return None
        kind, told = "", False
        if shape.kind == "stored":
            spec_kind, window = of("kv_cache_spec_kind"), of("kv_cache_spec_sliding_window")
            declared = statement.group(group)
            if (spec_kind, window) != (None, None) and declared is not None:
                told = declared.kind is not None or declared.window is not None
                if told and (spec_kind if declared.kind is None else declared.kind, declared.window) != (
                    spec_kind,
                    window,
                ):
                    return None
            before = facts.kinds.told(group, None, None)
            kind = facts.kinds.told(group, spec_kind, window)
            if kind != before:
                self._spots.clear()
            if kind != "window":
                facts.windows.add(group, (), windowed=False)
        location = Location(medium, group, of("locality"), of("ownership"))
        if not facts.ledger.knows(location):
            self._spots.clear()  # it is another one to those of its group
        policy = statement.residency_of(medium, group)
        return Spot(facts, location, policy, kind=kind, told=told, labelled=labelled)

    def _sized(self, spot: Spot, size: int, number: int) -> bool:
        """Whether the size of blocks is good; then it is noted."""
        facts, group = self.facts, spot.location.group
        if size > LARGE:
            return False
        declared = self._statement.declared_block_size(group)
        if declared is not None and size != declared:
            return False
        if declared is None and facts.sizes.setdefault(group, (size, number))[0] != size:
            return False
        spot.size = size
        spot.place = (spot.location.medium, group, size)
        if self._way != "opaque":
            facts.parity.sized(spot.place)
        return True

    # events

    def _stored(self, shape: Shape, event: Any, number: int) -> bool:
        spot = self._spot(shape, event)
        if spot is None:
            return False
        facts, step = self.facts, self.step
        hashes: list[int] = event.block_hashes
        tokens: list[int] = event.token_ids
        size: int = event.block_size
        count = len(hashes)
        if len(tokens) != count * size or (size != spot.size and not self._sized(spot, size, number)):
            return False
        if spot.labelled and event.hash_algo != facts.announced:
            return False
        own = tuple([value & MASK for value in hashes])
        parent: int | None = event.parent_block_hash
        unsigned = False
        if not shape.signed and max(*hashes, parent or 0) >= TOP:
            if "unsigned" not in facts.counted:
                return False
            unsigned = True
        resident = windowed = 0
        blocks, line = spot.blocks, spot.line
        complete = facts.ledger.complete
        if parent is not None:
            parent &= MASK
            if not parent or parent in own:
                return False
            if spot.windowed:
                held = facts.windows.holds(spot.location.group, parent)
                if held is False:
                    return False
                windowed = held is True
            elif spot.dense:
                if blocks.get(parent) or (spot.rest and any(others.get(parent) for others in spot.rest)):
                    resident = 1
                elif complete:
                    return False
        if 0 in own or (count > 1 and len(set(own)) != count):
            return False
        parents = line.parents
        new = blocks.keys().isdisjoint(own)
        if not new and spot.is_set and any(blocks.get(value) for value in own):
            return False
        ended = facts.ended.by_location
        if ended and not ended.get(spot.location, NONE).isdisjoint(own):
            return False
        if not parents.keys().isdisjoint(own) and not _hangs(parents, own, parent):
            return False
        if line.named and not line.named.isdisjoint(own):
            return False
        plain = "extra_keys" not in shape.keys
        if not self._hashed(own, parent, size, token_bytes(tokens), spot.place, plain=plain):
            return False

        # it has no fault
        if new:
            blocks.update(dict.fromkeys(own, 1 if complete else MANY))
            if complete and spot.is_set:
                step.stored_anew += count
        else:
            self._again(spot, own, complete=complete)
        if parent is not None:
            if parent not in parents:
                line.named.add(parent)
            step.chained += 1
            step.resident_parents += resident
            step.window_parents += windowed
        elif count > 1:
            step.chained += 1
        parents.update(zip(own, (parent, *own), strict=False))
        if spot.windowed and facts.windows.add(spot.location.group, own, windowed=True):
            step.exceeded = True
        if spot.location not in facts.locations:
            facts.locations.add(spot.location)
        facts.stores.add(number, own)
        if unsigned:
            step.unsigned += 1
        elif max(own) >= TOP:
            step.negative += 1
        if spot.kind_told:
            step.declared_kinds += 1
        if spot.labelled:
            step.labelled += 1
        return True

    def _again(self, spot: Spot, own: tuple[int, ...], *, complete: bool) -> None:
        """Note stores of blocks of which something is known."""
        blocks = spot.blocks
        for value in own:
            count = blocks.get(value)
            if count is None:
                blocks[value] = 1 if complete else MANY
                self.step.stored_anew += complete and spot.is_set
            else:
                blocks[value] = (MANY if count == MANY else count + 1) if spot.counted else 1
                self.step.stored_anew += not count and spot.is_set

    def _removed(self, shape: Shape, event: Any) -> bool:
        spot = self._spot(shape, event)
        if spot is None:
            return False
        facts, step = self.facts, self.step
        if spot.labelled and event.hash_algo != facts.announced:
            return False
        hashes: list[int] = event.block_hashes
        own = tuple([value & MASK for value in hashes])
        count = len(own)
        unsigned = False
        if not shape.signed and max(hashes) >= TOP:
            if "unsigned" not in facts.counted:
                return False
            unsigned = True
        if 0 in own or (count > 1 and len(set(own)) != count):
            return False
        ended = facts.ended.by_location
        if ended and not ended.get(spot.location, NONE).isdisjoint(own):
            return False
        blocks, complete = spot.blocks, facts.ledger.complete
        held = sum([bool(blocks.get(value)) for value in own])
        if held < count:
            if complete or facts.ledger.several_groups or any(blocks.get(value) == 0 for value in own):
                return False
            if spot.counted:
                return False

        # it has no fault
        parents, rest = spot.line.parents, spot.rest
        for value in own:
            left = blocks.pop(value, 1)
            if spot.counted and left > 1:
                blocks[value] = left - 1
                continue
            if not complete and not (spot.counted and left == MANY):
                blocks[value] = 0
            if not rest or not any(others.get(value) for others in rest):
                parents.pop(value, None)
        step.removed += held
        if not spot.counted:
            step.removed_set += held
        if unsigned:
            step.unsigned += 1
        elif max(own) >= TOP:
            step.negative += 1
        if spot.labelled:
            step.labelled += 1
        return True

    # hashes

    def _hashed(
        self, own: tuple[int, ...], parent: int | None, size: int, data: bytes, place: Place, *, plain: bool
    ) -> bool:
        """Check the hashes of a store and remember its blocks; False, and nothing noted, when they are a case each."""
        facts = self.facts
        identity, parity = facts.identity, facts.parity
        window = identity.chains.window
        kept = window.kept
        rooted = parent is None
        above: Link | Strand | None = None
        if parent is not None and (above := window.get(parent)) is not None:
            rooted = above.rooted if isinstance(above, Strand) else above.chain is not None
            plain = plain and above.plain
        again: list[int] = []
        count = len(own)
        if not kept.keys().isdisjoint(own):
            for at, value in enumerate(own):
                if value in kept and not _same(kept[value], value, size, data, at, own[at - 1] if at else parent):
                    return False
            again = [value for value in own if value in kept]

        # the function
        keys: tuple[bytes, ...] | None = None
        way, function = self._way, self._function
        if way == "key":
            key: bytes | None = ROOT_KEY
            if parent is not None:
                if isinstance(above, Strand):
                    key = (
                        above.keys[above.index(parent)]
                        if above.keys is not None and above.function == function
                        else None
                    )
                else:
                    key = parity.key_of(parent)
            if key is not None:
                keys = _keys(own, key, data if self._width == 4 else widened(data, 8), size * self._width, function)
                if keys is None:
                    return False
                parity.match(place, count, parent is None, told=self.told)
                if self._v2:
                    if self._width == 4:
                        self.step.narrow += count
                    else:
                        self.step.wide += count
            elif parent is None or not parity.over or not parity.orphans(parent, place, count):
                return False
            else:
                function = None
        elif way == "blind" and not parity.unsearched(count, root=parent is None):
            return False
        strand = Strand(
            hashes=own,
            parent=parent,
            size=size,
            data=data,
            rooted=rooted,
            plain=plain and rooted,
            function=function,
            keys=keys,
            claimed=way == "claimed",
        )
        if way == "claimed":
            self._later(strand, place, self._index)
        self.step.fresh += identity.fresh(count - len(again))
        if again:
            for value in own:
                held = kept.get(value)
                known = held is not None and (held.rooted if isinstance(held, Strand) else held.chain is not None)
                if known:
                    kept.move_to_end(value)
                else:
                    window.put(value, strand)
        else:
            window.add(own, strand)
        return True


NONE: frozenset[int] = frozenset()


def _hangs(parents: dict[int, int | None], own: tuple[int, ...], parent: int | None) -> bool:
    """Whether blocks hang where they hung before, those that are known."""
    for value in own:
        if parents.get(value, parent) != parent:
            return False
        parent = value
    return True


def _same(held: Link | Strand, value: int, size: int, data: bytes, at: int, parent: int | None) -> bool:
    """Whether a block is the one that had its hash before."""
    tokens = data[at * 4 * size : (at + 1) * 4 * size]
    if isinstance(held, Strand):
        before = held.index(value)
        above = held.hashes[before - 1] if before else held.parent
        same = held.size == size and held.own(before) == tokens
    else:
        above, same = held.parent, held.is_of(size, tokens)
    return same and (above == parent or above is None or parent is None)


def _keys(own: tuple[int, ...], key: bytes, data: bytes, width: int, function: str | None) -> tuple[bytes, ...] | None:
    """The full keys of blocks in a row, each of ``width`` bytes of tokens; None where they do not give the hashes."""
    low = function is not None and "low64" in function
    if len(own) == 1:
        key = _sha256(key + data).digest()
        return (key,) if int.from_bytes(key[-8:] if low else key[:8], "big") == own[0] else None
    keys: list[bytes] = []
    for at in range(0, len(data), width):
        key = _sha256(key + data[at : at + width]).digest()
        keys.append(key)
    cut = b"".join([key[-8:] for key in keys] if low else [key[:8] for key in keys])
    return tuple(keys) if cut == struct.pack(f">{len(own)}Q", *own) else None
