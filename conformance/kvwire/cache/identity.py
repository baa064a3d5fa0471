"""What a hash stands for: one chain of tokens in one reuse scope, whoever computed it.

These comparisons need no hash function and so hold for ``opaque`` hashes too.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from kvwire.cache.chains import Chain, Chains, Link, Text, Window
from kvwire.hashes.functions import Scope
from kvwire.hashes.keys import extra_keys
from kvwire.history.timeline import Batch
from kvwire.trace.stimuli import Prompt
from kvwire.wire.events import Event

DEPTH = 1024
"""How far up the first block of a chain is looked for."""
Place = tuple[int, Chain, int, int]
"""Incarnation, chain, group and block size."""


class Adapter(NamedTuple):
    """A LoRA adapter as an event names it. A name outlives the id that it is loaded under."""

    id: int | None
    name: str | None

    @classmethod
    def of(cls, event: Event) -> Adapter | None:
        """The adapter that an event names; an id of 0 and nil are no knowledge."""
        return cls(event.lora_id or None, event.lora_name) if event.lora_id or event.lora_name else None

    def differs(self, other: Adapter) -> bool:
        """Whether they are certainly two."""
        if self.name is not None and other.name is not None:
            return self.name != other.name
        return self.id is not None and other.id is not None and self.name == other.name and self.id != other.id

    def __str__(self) -> str:
        return f"LoRA {self.name!r}" if self.name is not None else f"LoRA {self.id}"


class Tag(str):
    """A scope tag."""

    @classmethod
    def of(cls, event: Event) -> Tag | None:
        """The tag that an event carries; none is no knowledge."""
        return None if event.scope is None else cls(event.scope)

    def differs(self, other: Tag) -> bool:
        """Whether they are of two salts."""
        return self != other

    def __str__(self) -> str:
        return f"the scope tag {super().__str__()}"


S = TypeVar("S", Adapter, Tag)


class Apart(msgspec.Struct, frozen=True, kw_only=True):
    """What an event names of its scope and another such name, under which the same tokens had the hash ``worn``."""

    own: Adapter | Tag
    other: Adapter | Tag
    worn: int


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """One stored block against what was seen before it in its incarnation.

    ``fresh``: its hash is new, and others are known. ``clash`` says which other tokens its hash stood for. ``nil``: its
    hash stood for the same tokens, and either then or now they begin a chain, and not both times. ``strays``: prompts
    have the block, and none of them has it behind its parent. ``before``
    is the hash that the equal chain had, when there was one and its scope is beyond doubt; ``scope`` names that.
    ``adapters`` and ``tags``: another adapter or scope tag than that of the event, under which the same tokens ran.
    """

    link: Link
    fresh: bool = False
    clash: str | None = None
    nil: bool = False
    strays: bool = False
    before: int | None = None
    scope: str = ""
    adapters: Apart | None = None
    tags: Apart | None = None


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """A hash that stands for the same tokens in two scopes: the block that proves it, and how.

    ``owners`` are the scopes whose hash it was, ``others`` those of which one has it now. ``root`` is the place of the
    first block of the chain, whose hash is shared too.
    """

    place: Place
    root: Place
    value: int
    owners: frozenset[Scope]
    others: frozenset[Scope]
    batch: Batch
    event: Event
    index: int
    text: str

    @property
    def by_salt(self) -> bool:
        """Whether the two differ in their salts, whichever they are."""
        return all(one.salt != other.salt for one in self.owners for other in self.others)

    @property
    def by_adapter(self) -> bool:
        """Whether the two differ in their adapters, whichever they are."""
        return all(one.lora != other.lora for one in self.owners for other in self.others)


class Told(NamedTuple):
    """How many hashes were told apart by one part of the scope, and how many first blocks were not."""

    apart: int
    untold: int


class Identity:
    """The identity of the chains of one stream; O(window) and the prompts.

    ``calm`` are pairs of records: at the first everything was seen that had been caused before the second.
    """

    def __init__(self, prompts: Sequence[Prompt] = (), calm: Sequence[tuple[int, int]] = ()) -> None:
        self.chains = Chains(prompts)
        self._calm = calm
        self._prompted = bool(prompts)
        self._life = -1
        self._distinct = 0
        self._lossy = False
        self._equal: Window[tuple[Scope, Chain, int, int], int] = Window()
        self._adapters: Window[tuple[Chain, int, int], dict[Adapter, int]] = Window()
        self._tags: Window[tuple[Chain, int, int], dict[Tag, int]] = Window()
        self._media: Window[int, frozenset[tuple[str | None, int]]] = Window()
        self._seen: dict[Place, dict[int, frozenset[Scope]]] = {}
        """The hashes of a chain that ran in several scopes, each with those that it can be of."""
        self._roots: set[Place] = set()
        self._suspects: list[Shared] = []

    def begin(self) -> None:
        """A new incarnation begins."""
        self._life += 1
        self._distinct = 0
        self._lossy = False
        self.chains.begin()
        self._equal.clear()
        self._adapters.clear()
        self._tags.clear()
        self._media.clear()

    def prefixes(self, count: int, newest: int | None = None) -> dict[Text, tuple[int, ...]]:
        """Of this incarnation the hashes of prefixes of which no adapter or scope is named, by their tokens, in order.

        At most so many, of all or of the ``newest``: those with the smallest checksums, which choose alike in every
        stream.
        """
        windows: tuple[Iterable[Mapping[Adapter, int] | Mapping[Tag, int]], ...]
        windows = (self._adapters.kept.values(), self._tags.kept.values())
        scoped = {value for window in windows for names in window for value in names.values()}
        found: dict[Text, set[int]] = {}
        for text, value in self.chains.texts(newest):
            if value not in scoped:
                found.setdefault(text, set()).add(value)
        return {text: tuple(sorted(found[text])) for text in heapq.nsmallest(count, found)}

    def hole(self) -> None:
        """Something is missing: a block can have gone to another medium, and come back."""
        self._lossy = True

    def fresh(self, count: int) -> int:
        """Note blocks whose hashes are new and may differ from others; of how many that can be said."""
        before, self._distinct = self._distinct, self._distinct + count
        return count if before else max(0, count - 1)

    def stored(self, batch: Batch, event: Event) -> list[Sight]:
        """Compare the blocks of a ``whole`` event with what is known."""
        extras = extra_keys(batch.payload, event) if "extra_keys" in event.keys else ()
        plain = extras is not None and not any(extras) and not any(event.mm_keys or ())
        adapter, tag, told = Adapter.of(event), Tag.of(event), "parent_block_hash" in event.keys
        sights: list[Sight] = []
        for index, (link, prior) in enumerate(self.chains.stored(event, batch.record, plain=plain)):
            fresh = False
            if prior is None:
                self._distinct += 1
                fresh = self._distinct > 1
            before = self._before(event, index, link)
            if link.chain is not None and link.scopes:
                self._compare_scopes(batch, event, index, link, prior)
            if self._prompted:
                value, where = event.hashes[index], (event.medium, event.group)
                self._media.put(value, (self._media.get(value) or frozenset()) | {where})
            clash = None if prior is None else self._clash(link, prior)
            sights.append(
                Sight(
                    link=link,
                    fresh=fresh,
                    clash=clash,
                    nil=clash is None and told and _once_nil(link, prior),
                    strays=self.chains.strays(link),
                    before=before,
                    scope="" if before is None else texts(link.scopes),
                    adapters=_under_another(self._adapters, event, index, link, adapter),
                    tags=_under_another(self._tags, event, index, link, tag),
                )
            )
        return sights

    def _clash(self, link: Link, prior: Link) -> str | None:
        """Which other tokens a hash stood for; a parent that is nil once proves nothing.

        Blocks of two sizes can end one chain, and what is not known from its root may be the end of it.
        """
        if prior.size != link.size:
            if link.text is None or prior.text is None or link.text == prior.text:
                return None
            return f"a chain of other tokens, in blocks of {prior.size}"
        if prior.own != link.own:
            return "a block of other tokens"
        if link.items is not None and prior.items is not None and link.items != prior.items:
            return "a block of other multimodal items"
        if link.parent == prior.parent or link.parent is None or prior.parent is None:
            return None
        above, before = self.chains.get(link.parent), self.chains.get(prior.parent)
        if above is None or before is None:
            return None
        if above.own == before.own or (
            above.size != before.size and (None in (above.text, before.text) or above.text == before.text)
        ):
            return None
        return f"the block behind {prior.parent}, whose tokens are not those of {link.parent}"

    def _before(self, event: Event, index: int, link: Link) -> int | None:
        if len(link.scopes) != 1 or not link.plain or link.chain is None:
            return None
        (scope,) = link.scopes
        key = (scope, link.chain, event.group, event.block_size or 0)
        before = self._equal.get(key)
        if before is None:
            self._equal.put(key, event.hashes[index])
        return before

    # scopes

    def _compare_scopes(self, batch: Batch, event: Event, index: int, link: Link, prior: Link | None) -> None:
        """Collect the hashes of every chain that ran in several scopes, and what looks like one hash for two."""
        assert link.chain is not None
        size = event.block_size or 0
        above = None if link.parent is None else self.chains.get(link.parent)
        if above is not None:
            self._parent_of_another(batch, event, index, link, above)
        if len(set(self.chains.runs(link.chain, size))) < 2:
            return
        place = (self._life, link.chain, event.group, size)
        if link.parent is None:
            self._roots.add(place)
        value = event.hashes[index]
        hashes = self._seen.setdefault(place, {})
        # A copy that comes back from another medium is stored anew, and so is what a lost batch had moved there.
        at_home = self._media.get(value) == frozenset({(event.medium, event.group)}) and not self._lossy
        if prior is not None and value in hashes and at_home and len(prior.scopes) == 1:
            self._anew(place, batch, event, index, prior.scopes)
        hashes.setdefault(value, self._possible(link.chain, size, batch.record))

    def _anew(self, place: Place, batch: Batch, event: Event, index: int, owners: frozenset[Scope]) -> None:
        """A hash that was its owner's is stored anew when only others can be the cause."""
        (owner,) = owners
        _, chain, _, size = place
        runs = self.chains.runs(chain, size, batch.record)
        others = (self._possible(chain, size, batch.record) or frozenset(runs)) - owners
        if runs.count(owner) != 1 or not others:
            return
        value = event.hashes[index]
        text = f"hash {value} stored anew when its tokens ran with {texts(others)}; it was that with {owner.text}"
        self._suspects.append(
            Shared(
                place=place,
                root=self._root(place, event.hashes[index]),
                value=value,
                owners=owners,
                others=others,
                batch=batch,
                event=event,
                index=index,
                text=text,
            )
        )

    def _possible(self, chain: Chain, size: int, record: int) -> frozenset[Scope]:
        """The scopes that can be the cause of a batch: prompts that were not over and drained before it came."""
        at = bisect.bisect_left(self._calm, (record, 0))
        return frozenset(self.chains.runs(chain, size, record, self._calm[at - 1][1] if at else -1))

    def _parent_of_another(self, batch: Batch, event: Event, index: int, link: Link, above: Link) -> None:
        """A parent whose chain had run in other scopes only than those in which the child can have run."""
        if above.chain is None or not above.scopes or above.scopes & link.scopes:
            return
        assert link.parent is not None
        text = (
            f"hash {link.parent} is the parent of a chain that ran with {texts(link.scopes)} only; "
            f"it was that of the same tokens with {texts(above.scopes)}"
        )
        place = (self._life, above.chain, event.group, event.block_size or 0)
        self._suspects.append(
            Shared(
                place=place,
                root=self._root(place, link.parent),
                value=link.parent,
                owners=above.scopes,
                others=link.scopes,
                batch=batch,
                event=event,
                index=index,
                text=text,
            )
        )

    def _root(self, place: Place, value: int) -> Place:
        """The place of the first block of the chain that a block ends."""
        life, chain, group, size = place
        link = self.chains.get(value)
        for _ in range(DEPTH):
            if link is None or link.chain is None:
                break
            chain = link.chain
            link = None if link.parent is None else self.chains.get(link.parent)
        return life, chain, group, size

    def shared(self) -> list[Shared]:
        """The blocks that prove one hash for two scopes: no other hash of the chain can be that of the second."""
        return [
            suspect
            for suspect in self._suspects
            if not any(
                of & suspect.others for value, of in self._seen.get(suspect.place, {}).items() if value != suspect.value
            )
        ]

    def told_by_salt(self) -> Told:
        """What is known of scopes that differ in the salt."""
        return self._told(lambda scope: scope.salt, lambda proof: proof.by_salt)

    def told_by_adapter(self) -> Told:
        """What is known of scopes that differ in the adapter."""
        return self._told(lambda scope: scope.lora, lambda proof: proof.by_adapter)

    def _told(self, part: Callable[[Scope], Hashable], broken: Callable[[Shared], bool]) -> Told:
        """Counted where every scope of a chain has a hash, or where they differ in nothing but this part."""
        proofs: dict[Place, list[Shared]] = {}
        for proof in self.shared():
            for place in {proof.place, proof.root}:
                proofs.setdefault(place, []).append(proof)
        apart = untold = 0
        for place, hashes in self._seen.items():
            scopes = self._scopes_of(place)
            parts = len({part(scope) for scope in scopes})
            own = proofs.get(place, [])
            without = frozenset[Scope]().union(*(proof.others for proof in own if len(proof.others) == 1))
            whole = len(hashes) + len(without) >= len(scopes)
            if parts > 1 and (whole or parts == len(scopes)):
                known = parts if whole else min(len(hashes), parts)
                apart += max(0, known - 1 - any(map(broken, own)))
            untold += parts > 1 and place in self._roots and not whole
        return Told(apart, untold)

    def _scopes_of(self, place: Place) -> frozenset[Scope]:
        _, chain, _, size = place
        return frozenset(self.chains.runs(chain, size))


def _once_nil(link: Link, prior: Link | None) -> bool:
    """Whether the same block began a chain once and did not another time."""
    same = prior is not None and (prior.size, prior.own) == (link.size, link.own)
    return same and prior is not None and (prior.parent is None) != (link.parent is None)


def _under_another(
    window: Window[tuple[Chain, int, int], dict[S, int]], event: Event, index: int, link: Link, own: S | None
) -> Apart | None:
    """Another name under which the chain was announced, and its hash then: this one, if any had it."""
    if own is None or link.chain is None:
        return None
    key = (link.chain, event.group, event.block_size or 0)
    known = window.get(key) or {}
    value = event.hashes[index]
    others = [(other, worn) for other, worn in known.items() if other.differs(own)]
    if own not in known:
        window.put(key, {**known, own: value})
    if not others:
        return None
    other, worn = next((pair for pair in others if pair[1] == value), others[0])
    return Apart(own=own, other=other, worn=worn)


def texts(scopes: Iterable[Scope]) -> str:
    """Scopes in a few words, in a fixed order."""
    return " or ".join(sorted(scope.text for scope in scopes))
