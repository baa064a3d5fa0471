"""Takes batches without faults into the facts, and counts them; what they come to is told to the areas in bulk.

Every event is checked wholly before anything of it is noted, and what does not pass is shown to the areas one by one,
as any other. Both ways keep the same facts, so that nothing depends on which way an event went.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import sys
from array import array
from collections.abc import Callable
from typing import Any

from kvwire.cache.cases import Place
from kvwire.cache.chains import Link, Strand
from kvwire.cache.ledger import MANY, Location
from kvwire.cache.parity import KEYED
from kvwire.hashes.functions import LABELS, NO_SCOPE, OPAQUE, named, root_key
from kvwire.hashes.packing import widened
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
_ids = array("I")
"""Where token ids become bytes."""
assert _ids.itemsize == 4
assert sys.byteorder == "little"


class Spot:
    """What holds for all events of one shape in one location: what is known of it, and how it is judged.

    ``size``: the tokens of a block, once it was found to be good. ``rest`` are the other locations of the group. The
    rest counts since it was added up last: ``events``, their ``hits`` (blocks), ``known`` of these, about which
    something was known before; stores that are ``roots`` (no parent), ``lonely`` (and one block) and ``orphans`` (their
    parent is not known to be resident); and of the blocks those that ``matched``, so many ``matched_roots`` first.
    """

    __slots__ = (
        "blocks",
        "counted",
        "dense",
        "events",
        "hits",
        "is_set",
        "kind_told",
        "known",
        "labelled",
        "line",
        "location",
        "lonely",
        "matched",
        "matched_roots",
        "orphans",
        "place",
        "plain",
        "rest",
        "roots",
        "shape",
        "size",
        "windowed",
    )

    def __init__(
        self, facts: Facts, shape: Shape, location: Location, policy: str, *, kind: str, told: bool, labelled: bool
    ) -> None:
        self.shape = shape
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
        self.plain = "extra_keys" not in shape.keys
        self.events = self.hits = self.known = self.roots = self.lonely = self.orphans = 0
        self.matched = self.matched_roots = 0


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
        self._sound: list[Spot] = []
        """Every spot that counts."""
        self._way: str | None = None
        self._function: str | None = None
        self._width = 4
        self._low = False
        self.told = False
        """Whether the hash function is one that is announced or declared."""
        self._labels = self._v2 = self._complete = False
        self._fill = 1
        """What a location knows of a block that is stored first."""
        self._fresh = 0
        """Blocks under new hashes since that was added up last."""
        self._index = 0
        self._rank = -1
        self._newest = 0.0
        self._number = -1
        """The number of the batch that was taken last."""
        self._window = facts.identity.chains.window
        self._kept = self._window.kept
        self._ended = facts.ended.by_location

    # what may have changed

    def doubt(self) -> None:
        """Something is shown one by one: add up, and look at the facts again after it."""
        self.add_up()
        self._ready = False

    def add_up(self) -> None:
        """Add up what was counted by spots."""
        if not self._ready:
            return
        step, parity = self.step, self.facts.parity
        for spot in self._sound:
            if not spot.events:
                continue
            step.shapes[spot.shape] += spot.events
            if spot.labelled:
                step.labelled += spot.events
                step.qualified += spot.events * (self.facts.announced or "").startswith(KEY_LABEL)
            if spot.shape.kind == "stored":
                step.chained += spot.events - spot.lonely
                held = spot.events - spot.roots - spot.orphans
                if spot.windowed:
                    step.window_parents += held
                elif spot.dense:
                    step.resident_parents += held
                if spot.kind_told:
                    step.named_kinds += spot.events
                if spot.is_set and self._complete:
                    step.stored_anew += spot.hits - spot.known
                if spot.matched:
                    parity.match(spot.place, spot.matched, spot.matched_roots, told=self.told)
                    if self._v2 and self._width == 4:
                        step.narrow += spot.matched
                    elif self._v2:
                        step.wide += spot.matched
            else:
                step.removed += spot.hits
                if not spot.counted:
                    step.removed_set += spot.hits
            spot.events = spot.hits = spot.known = spot.roots = spot.lonely = spot.orphans = 0
            spot.matched = spot.matched_roots = 0
        step.fresh += self.facts.identity.fresh(self._fresh)
        self._fresh = 0
        if self._number >= 0:
            self.facts.newest = self._newest, self._number

    def _drop_spots(self) -> None:
        self.add_up()
        self._spots.clear()
        self._sound.clear()

    def _look(self) -> bool:
        """Look at the facts; whether anything can be taken."""
        facts = self.facts
        self._spots.clear()
        self._sound.clear()
        rank = facts.first_rank
        if facts.leading or facts.ledger.unsure or not facts.identity.chains.simple:
            return False
        if facts.newest is None or rank is None or self._declared_rank not in (None, rank[0]):
            return False
        self._rank, self._newest, self._number = rank[0], facts.newest[0], -1
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
        self._complete = facts.ledger.complete
        self._fill = 1 if self._complete else MANY
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
            self._width, self._low = KEYED[self._function], "low64" in self._function
        return way

    # batches

    def take(self, read: Read, number: int) -> int | None:
        """Take a batch as far as it has no fault: how many events were taken; None when not even the batch was."""
        if not self._ready and not (self.able and self._look()):
            return None
        ts, rank, events = read
        if ts < self._newest or rank != self._rank:
            return None
        taken = 0
        before, self._number = self._number, number
        for shape, event in events:
            self._index = taken
            if taken and (shape.form == "map") != (events[0][0].form == "map"):
                break
            if shape.kind == "stored":
                if not self._stored(shape, event):
                    break
            elif not self._removed(shape, event):
                break
            taken += 1
        if not taken and events:
            self._number = before
            return None
        self.step.batches += 1
        self.facts.stamps.append(ts)
        self._newest = ts
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
            self._spots.setdefault(shape, (names, {}))[1][key] = spot  # the others may have been dropped
            if spot is not None:
                self._sound.append(spot)
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
            if (spec_kind, window) != (None, None):
                declared, named = statement.group(group), facts.named_kinds.get(group)
                told = True
                if named is None or named[0] != (spec_kind, window):
                    return None
                if declared is not None and (declared.kind is not None or declared.window is not None):
                    kind = spec_kind if declared.kind is None else declared.kind
                    if (kind, declared.window) != (spec_kind, window):
                        return None
            before = facts.kinds.told(group, None, None)
            kind = facts.kinds.told(group, spec_kind, window)
            if kind != before:
                self._drop_spots()
            if kind != "window":
                facts.windows.add(group, (), windowed=False)
        location = Location(medium, group, of("locality"), of("ownership"))
        if not facts.ledger.knows(location):
            self._drop_spots()  # it is another one to those of its group
        policy = statement.residency_of(medium, group)
        return Spot(facts, shape, location, policy, kind=kind, told=told, labelled=labelled)

    def _sized(self, spot: Spot, size: int) -> bool:
        """Whether the size of blocks is good; then it is noted."""
        facts, group = self.facts, spot.location.group
        if size > LARGE:
            return False
        declared = self._statement.declared_block_size(group)
        if declared is not None and size != declared:
            return False
        if declared is None and facts.sizes.setdefault(group, (size, self._number))[0] != size:
            return False
        spot.size = size
        spot.place = (spot.location.medium, group, size)
        if self._way != "opaque":
            facts.parity.sized(spot.place)
        return True

    # events

    def _stored(self, shape: Shape, event: Any) -> bool:
        spot = self._spot(shape, event)
        if spot is None:
            return False
        facts = self.facts
        hashes: list[int] = event.block_hashes
        tokens: list[int] = event.token_ids
        size: int = event.block_size
        parent: int | None = event.parent_block_hash
        count = len(hashes)
        if len(tokens) != count * size or (size != spot.size and not self._sized(spot, size)):
            return False
        if spot.labelled and event.hash_algo != facts.announced:
            return False
        own = (hashes[0] & MASK,) if count == 1 else tuple([value & MASK for value in hashes])
        unsigned = False
        if not shape.signed and max(*hashes, parent or 0) >= TOP:
            if "unsigned" not in facts.counted:
                return False
            unsigned = True
        blocks, line, orphan = spot.blocks, spot.line, False
        if parent is not None:
            parent &= MASK
            if parent in own or not parent:
                return False
            if spot.windowed:
                held = facts.windows.holds(spot.location.group, parent)
                if held is False:
                    return False
                orphan = held is None
            elif not blocks.get(parent) and not (spot.rest and any(others.get(parent) for others in spot.rest)):
                if spot.dense and self._complete:
                    return False
                orphan = True
        if 0 in own or (count > 1 and len(set(own)) != count):
            return False
        parents = line.parents
        fresh = parents.keys().isdisjoint(own)
        # What is resident hangs somewhere, and of what is complete nothing else is kept.
        new = (fresh and self._complete) or blocks.keys().isdisjoint(own)
        if not new and spot.is_set and any(blocks.get(value) for value in own):
            return False
        if self._ended and not self._ended.get(spot.location, NONE).isdisjoint(own):
            return False
        if not fresh and not _hangs(parents, own, parent):
            return False
        if line.named and not line.named.isdisjoint(own):
            return False
        strand = self._strand(spot, own, parent, tokens)
        if strand is None:
            return False

        # it has no fault
        if parent is None:
            spot.roots += 1
            if count == 1:
                spot.lonely += 1
        elif orphan:
            spot.orphans += 1
            if parent not in parents:
                line.named.add(parent)
        elif parent not in parents:
            line.named.add(parent)
        if new and strand.number >= 0:
            fill, kept = self._fill, self._kept
            for value in own:
                blocks[value] = fill
                parents[value] = parent
                kept[value] = strand
                parent = value
            self._fresh += count
            if len(kept) > self._window.size:
                self._window.shrink()
        else:
            self._known(spot, strand, parent)
        if spot.windowed and facts.windows.add(spot.location.group, own, windowed=True):
            self.step.exceeded = True
        if unsigned:
            self.step.unsigned += 1
        elif max(own) >= TOP:
            self.step.negative += 1
        if not spot.events:
            facts.locations.add(spot.location)
        spot.events += 1
        spot.hits += count
        return True

    def _known(self, spot: Spot, strand: Strand, parent: int | None) -> None:
        """Note stores of blocks of which something is known."""
        blocks, parents, kept = spot.blocks, spot.line.parents, self._kept
        for value in strand.hashes:
            count = blocks.get(value)
            if count is None:
                blocks[value] = self._fill
            else:
                spot.known += count != 0
                blocks[value] = (MANY if count == MANY else count + 1) if spot.counted else 1
                if not count and not self._complete and spot.is_set:
                    self.step.stored_anew += 1
            parents[value] = parent
            parent = value
            held = kept.get(value)
            if held is None:
                self._fresh += 1
            if held is not None and (held.rooted if isinstance(held, Strand) else held.chain is not None):
                kept.move_to_end(value)
            else:
                self._window.put(value, strand)
        strand.number = self._number
        self.facts.stores.add(self._number, strand.hashes)

    def _removed(self, shape: Shape, event: Any) -> bool:
        spot = self._spot(shape, event)
        if spot is None:
            return False
        facts = self.facts
        if spot.labelled and event.hash_algo != facts.announced:
            return False
        hashes: list[int] = event.block_hashes
        count = len(hashes)
        own = (hashes[0] & MASK,) if count == 1 else tuple([value & MASK for value in hashes])
        unsigned = False
        if not shape.signed and max(hashes) >= TOP:
            if "unsigned" not in facts.counted:
                return False
            unsigned = True
        if 0 in own or (count > 1 and len(set(own)) != count):
            return False
        if self._ended and not self._ended.get(spot.location, NONE).isdisjoint(own):
            return False
        blocks, complete = spot.blocks, self._complete
        held = sum([1 for value in own if blocks.get(value)])
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
        if unsigned:
            self.step.unsigned += 1
        elif max(own) >= TOP:
            self.step.negative += 1
        facts.removals.add(self._number, own)
        spot.events += 1
        spot.hits += held
        return True

    # hashes

    def _strand(self, spot: Spot, own: tuple[int, ...], parent: int | None, tokens: list[int]) -> Strand | None:
        """Check the hashes of a store; None, and nothing is counted, when its blocks are a case each.

        The number is -1 where something is known of its blocks.
        """
        kept, size = self._kept, spot.size
        _ids.fromlist(tokens)
        data = _ids.tobytes()
        del _ids[:]
        plain = spot.plain
        above: Link | Strand | None = None
        if parent is None:
            rooted = True
        else:
            above = kept.get(parent)
            if above is None:
                rooted = plain = False
            else:
                kept.move_to_end(parent)
                rooted = above.rooted if isinstance(above, Strand) else above.chain is not None
                plain = plain and above.plain
        again = not kept.keys().isdisjoint(own)
        if again:
            for at, value in enumerate(own):
                if value in kept and not _same(kept[value], value, size, data, at, own[at - 1] if at else parent):
                    return None

        # the function
        keys: tuple[bytes, ...] | None = None
        way, function = self._way, self._function
        if way == "key":
            key: bytes | None = ROOT_KEY
            if parent is not None:
                if isinstance(above, Strand) and above.keys is not None and above.function == function:
                    key = above.keys[above.index(parent)]
                else:
                    key = self.facts.parity.key_of(parent)
            if key is not None:
                keys = block_keys(
                    own, key, data if self._width == 4 else widened(data, 8), size * self._width, low=self._low
                )
                if keys is None:
                    return None
                spot.matched += len(own)
                if parent is None:
                    spot.matched_roots += 1
            elif not self._unknown(spot, parent, len(own)):
                return None
            else:
                function = None
        elif way == "blind" and not self.facts.parity.unsearched(len(own), root=parent is None):
            return None
        claimed = way == "claimed"
        number = -1 if again else self._number
        strand = Strand(own, parent, size, data, rooted, plain, function, keys, claimed, number)
        if claimed:
            self._later(strand, spot.place, self._index)
        return strand

    def _unknown(self, spot: Spot, parent: int | None, count: int) -> bool:
        """Count blocks of whose chain nothing is known; False, and nothing is counted, when they are a case each."""
        parity = self.facts.parity
        return parent is not None and parity.over and parity.orphans(parent, spot.place, count)


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
    return same and above == parent


def block_keys(own: tuple[int, ...], key: bytes, data: bytes, width: int, *, low: bool) -> tuple[bytes, ...] | None:
    """The full keys of blocks in a row, each of ``width`` bytes of tokens; None where they do not give the hashes."""
    if len(own) == 1:
        key = _sha256(key + data).digest()
        return (key,) if int.from_bytes(key[-8:] if low else key[:8], "big") == own[0] else None
    keys: list[bytes] = []
    for at in range(0, len(data), width):
        key = _sha256(key + data[at : at + width]).digest()
        keys.append(key)
    cut = b"".join([key[-8:] for key in keys] if low else [key[:8] for key in keys])
    return tuple(keys) if cut == _packer(len(own))(*own) else None


@functools.lru_cache(maxsize=256)
def _packer(count: int) -> Callable[..., bytes]:
    """Packs so many hashes, big-endian."""
    return struct.Struct(f">{count}Q").pack
