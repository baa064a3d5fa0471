"""What a hash stands for: one chain of tokens in one reuse scope, whoever computed it.

These comparisons need no hash function and so hold for ``opaque`` hashes too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kvwire.cache.chains import Chains, Link, Window
from kvwire.hashes.functions import Scope
from kvwire.hashes.keys import extra_keys
from kvwire.history.timeline import Batch
from kvwire.trace.stimuli import Prompt
from kvwire.wire.events import Event

Place = tuple[int, bytes, int, int]
"""Incarnation, chain, group and block size."""


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """One stored block against what was seen before it in its incarnation.

    ``fresh``: its hash is new, and others are known. ``clash`` says which other tokens its hash stood for. ``before``
    is the hash that the equal chain had, when there was one and its scope is beyond doubt; ``scope`` names that.
    """

    link: Link
    fresh: bool = False
    clash: str | None = None
    before: int | None = None
    scope: str = ""


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """A hash that stands for the same tokens in two scopes: the block that proves it, and how."""

    place: Place
    value: int
    batch: Batch
    event: Event
    index: int
    text: str


class Identity:
    """The identity of the chains of one stream; O(window) and the prompts."""

    def __init__(self, prompts: Sequence[Prompt] = ()) -> None:
        self.chains = Chains(prompts)
        self._life = -1
        self._distinct = 0
        self._equal: Window[tuple[Scope, bytes, int, int], int] = Window()
        self._seen: dict[Place, dict[int, tuple[str | None, int]]] = {}
        self._roots: set[Place] = set()
        self._suspects: list[Shared] = []

    def begin(self) -> None:
        """A new incarnation begins."""
        self._life += 1
        self._distinct = 0
        self.chains.begin()
        self._equal.clear()

    def stored(self, batch: Batch, event: Event) -> list[Sight]:
        """Compare the blocks of a ``whole`` event with what is known."""
        extras = extra_keys(batch.payload, event) if "extra_keys" in event.keys else ()
        plain = extras is not None and not any(extras) and not any(event.mm_keys or ())
        sights: list[Sight] = []
        for index, (link, prior) in enumerate(self.chains.stored(event, batch.record, plain=plain)):
            fresh = False
            if prior is None:
                self._distinct += 1
                fresh = self._distinct > 1
            before = self._before(event, index, link)
            if link.chain is not None and link.scopes:
                self._compare_scopes(batch, event, index, link, prior)
            sights.append(
                Sight(
                    link=link,
                    fresh=fresh,
                    clash=None if prior is None else self._clash(link, prior),
                    before=before,
                    scope="" if before is None else texts(link.scopes),
                )
            )
        return sights

    def _clash(self, link: Link, prior: Link) -> str | None:
        """Which other tokens a hash stood for; a parent that is nil once proves nothing."""
        if prior.own != link.own:
            return "a block of other tokens"
        if link.parent == prior.parent or link.parent is None or prior.parent is None:
            return None
        above, before = self.chains.get(link.parent), self.chains.get(prior.parent)
        if above is None or before is None or above.own == before.own:
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
        value, where = event.hashes[index], (event.medium, event.group)
        hashes = self._seen.setdefault(place, {})
        if prior is not None and hashes.get(value) == where and len(prior.scopes) == 1:
            (owner,) = prior.scopes
            runs = self.chains.runs(link.chain, size, batch.record)
            if runs.count(owner) == 1 and len(set(runs)) > 1:
                others = texts(frozenset(runs) - {owner})
                text = f"hash {value} stored anew when its tokens ran with {others}; it was that with {owner.text}"
                self._suspects.append(
                    Shared(place=place, value=value, batch=batch, event=event, index=index, text=text)
                )
        hashes.setdefault(value, where)

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
        self._suspects.append(Shared(place=place, value=link.parent, batch=batch, event=event, index=index, text=text))

    def shared(self) -> list[Shared]:
        """The blocks that prove one hash for two scopes: no other hash was ever seen for the chain."""
        return [suspect for suspect in self._suspects if set(self._seen.get(suspect.place, ())) == {suspect.value}]

    def told_apart(self) -> int:
        """How many second hashes were seen for chains that ran in several scopes, at most one for each of these."""
        return sum(min(len(hashes), self._scopes_of(place)) - 1 for place, hashes in self._seen.items())

    def untold(self) -> int:
        """How many first blocks ran in more scopes than hashes were seen for them."""
        return sum(len(self._seen[place]) < self._scopes_of(place) for place in self._roots)

    def _scopes_of(self, place: Place) -> int:
        _, chain, _, size = place
        return len(set(self.chains.runs(chain, size)))


def texts(scopes: Iterable[Scope]) -> str:
    """Scopes in a few words, in a fixed order."""
    return " or ".join(sorted(scope.text for scope in scopes))
