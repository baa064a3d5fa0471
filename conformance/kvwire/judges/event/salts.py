"""What events tell of cache salts: nothing, a tag, or the text, as declared."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvwire.cache.chains import Chains, Link
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, at_batch, judge, located, unless, unused
from kvwire.wire.events import Event, Flaw
from kvwire_reference.hashing import scope_tag

SHORT_SALT = 6
"""A salt shorter than this many bytes may stand in a payload by chance."""
TAG = re.compile(r"[0-9a-f]{16}\Z")


class Salts(Area):
    """Looks for the salts of our prompts, and follows the chains that were run with them."""

    memory = "O(window)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.tagged = context.statement.salt == "tag"
        self.chains = Chains(self.facts.prompts)
        self.tags: dict[str, str] = {}
        """Salt → the tag that it has in this incarnation, where that cannot be computed."""
        self.salts: dict[bytes, int] = {}
        """The salts of our prompts, and the record of the first prompt with each."""
        for prompt in self.facts.prompts:
            if prompt.salt is not None and len(prompt.salt.encode()) >= SHORT_SALT:
                self.salts.setdefault(prompt.salt.encode(), prompt.record)

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self._begin()

    def on_gap(self, gap: Gap) -> None:
        if gap.maybe_restart:
            self._begin()

    def _begin(self) -> None:
        self.chains.begin()
        self.tags.clear()

    def on_event(self, batch: Batch, event: Event) -> None:
        if event.kind != "unknown" or event.tag:
            self.no_salt(batch, event)
        if event.kind == "stored" and event.scope is not None:
            self.declared_tag(batch, event)
        if self.tagged and event.kind == "stored":
            links = [link for link, _ in self.chains.stored(event, batch.record)] if event.whole else []
            self.scope_tag(batch, event, links)

    @judge(
        "KVW-EVT-019",
        unclaimed=unless(lambda _, statement: statement.salt != "clear"),
        declares='salt other than "clear"',
    )
    def no_salt(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-EVT-019: A publisher MUST NOT put the clear text of a cache salt into an event unless it declares
        `salt = "clear"`.

        Only salts that the harness used before the event are looked for, so that a chance string is no failure.
        """
        used = [salt for salt, record in self.salts.items() if record < batch.record]
        if not used or self.context.statement.salt == "clear":
            return
        for salt in used:
            if salt not in batch.payload:
                continue
            where = located(batch, event)
            chunk = batch.payload[where.start : where.end]
            if salt in chunk:
                start = where.start + chunk.index(salt)
                flaw = Flaw("salt", "no clear text of a cache salt", repr(salt.decode()), start, start + len(salt))
                say.weigh(batch, flaw)
                return
        say.saw()

    @judge("KVW-EVT-028", unclaimed=unless(lambda _, statement: statement.salt == "tag"), declares='salt = "tag"')
    def scope_tag(self, say: Say, batch: Batch, event: Event, links: Iterable[Link]) -> None:
        """KVW-EVT-028: A publisher that declares `salt = "tag"` MUST send the scope tag of the salt in the key `scope`
        of every `BlockStored` of a salted chain, location updates excepted.

        A tag has its form whoever used the salt, in a location update too. Which salt it is of, and that one has to be
        there, is known of chains that prompts of ours explain; with a deployment key only that it is not the tag
        without one, that one salt has one tag, and that no other has it.
        """
        if event.scope is not None and not TAG.match(event.scope):
            say.broke("a scope tag of 16 lower-case hex digits", repr(event.scope), at_batch(batch, event=event))
            return
        scopes = [link.scopes for link in links if link.scopes]
        salts = {scope.salt for scope in frozenset.intersection(*scopes)} if scopes else set()
        known = sorted(salt for salt in salts if salt is not None)
        if event.scope is None:
            if known and None not in salts:
                say.broke(f"{self._expected(known)}", "no `scope`", at_batch(batch, event=event))
            return
        wrong = known and not self._fits(event.scope, known)
        if wrong:
            say.broke(self._expected(known), repr(event.scope), at_batch(batch, event=event))
        else:
            say.saw()

    @judge("KVW-EVT-038", unclaimed=unused, memory="O(1)")
    def declared_tag(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-EVT-038: A publisher MUST NOT send a scope tag unless it declares `salt = "tag"`.

        A nil `scope` is no tag. What is not stated is the default, `none`.
        """
        if self.tagged:
            say.saw()
        else:
            declared = f'`salt = "{self.context.statement.salt}"` is declared'
            say.broke(f"no `scope`, as {declared}", repr(event.scope), at_batch(batch, event=event))

    def _expected(self, salts: list[str]) -> str:
        if self.context.statement.scope_key:
            return f"the scope tag of the salt {' or '.join(map(repr, salts))} by the deployment key"
        return f"the scope tag {' or '.join(f'{scope_tag(salt)} of the salt {salt!r}' for salt in salts)}"

    def _fits(self, tag: str, salts: list[str]) -> bool:
        """Whether a tag can be that of one of these salts."""
        bare = tag in map(scope_tag, salts)
        if not self.context.statement.scope_key:
            return bare
        if bare:
            return False
        owner = next((salt for salt, own in self.tags.items() if own == tag), None)
        if owner is None and len(salts) == 1:
            return self.tags.setdefault(salts[0], tag) == tag
        return owner is None or owner in salts
