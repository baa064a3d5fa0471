"""Multimodal items: their digest tokens, and the keys that say which blocks hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kvwire.cache.chains import ROOT, Chain, Chains, extend
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, at_batch, judge, unused
from kvwire.trace.stimuli import Prompt
from kvwire.wire.events import Event, Flaw

Keys = tuple[tuple[bytes, int], ...]
"""The keys of a block: digest and start offset of each item."""
COUNTED = 3
"""As many ids that count up behind a digest can be synthetic ones."""


class Items(Area):
    """Holds the keys of blocks against their tokens, and against the items of our prompts."""

    memory = "O(window)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        prompts = self.facts.prompts
        self.chains = Chains(prompts) if any(prompt.items for prompt in prompts) else None
        self._known: dict[int, dict[bytes, Keys]] = {}
        """Block size → chain of a prompt → the keys of its last block."""

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self._begin()

    def on_gap(self, gap: Gap) -> None:
        if gap.maybe_restart:
            self._begin()

    def _begin(self) -> None:
        if self.chains is not None:
            self.chains.begin()

    def on_event(self, batch: Batch, event: Event) -> None:
        if event.kind != "stored" or not {"token_ids", "mm_keys"} & event.keys:
            return
        flaws: dict[str, Flaw] = {}
        for flaw in event.flaws:
            flaws.setdefault(flaw.code, flaw)
        self.digest_tokens(event)
        self.mm_keys(batch, event, flaws.get("mm-missing"))
        if "mm-key" in flaws or any(event.mm_keys or ()):
            self.mm_key_maps(batch, flaws.get("mm-key"))
        if event.whole:
            chains = self._chains(batch, event)
            if not {"mm-missing", "mm-key"} & set(flaws):
                self.every_item(batch, event, chains)

    def _chains(self, batch: Batch, event: Event) -> Sequence[Chain | None]:
        """The chain of each block, as far as prompts explain chains."""
        if self.chains is None:
            return [None] * len(event.hashes)
        return [link.chain for link, _ in self.chains.stored(event, batch.record)]

    @judge("KVW-EVT-011")
    def digest_tokens(self, say: Say, event: Event) -> None:
        """KVW-EVT-011: A publisher MAY send the digest token of a multimodal item as a string of exactly 64
        hexadecimal digits in `token_ids`.
        """
        say.saw(sum(1 for token in event.tokens if isinstance(token, bytes)))

    @judge("KVW-EVT-012")
    def mm_keys(self, say: Say, batch: Batch, event: Event, flaw: Flaw | None) -> None:
        """KVW-EVT-012: A publisher MUST send `mm_keys`, with one list of `mm_key` maps per element of `block_hashes`,
        in every `BlockStored` whose `token_ids` hold a digest string.

        What the lists hold is for KVW-EVT-030.
        """
        if any(isinstance(token, bytes) for token in event.tokens):
            say.weigh(batch, flaw)

    @judge("KVW-EVT-030", unclaimed=unused)
    def mm_key_maps(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-EVT-030: A publisher MUST send as element of a list in `mm_keys` a map with the `type` `mm_key`, a
        `hash` of exactly 64 hexadecimal digits, a non-negative integer `start_offset` and, if any, a string `uuid`,
        and no other key.
        """
        say.weigh(batch, flaw)

    @judge("KVW-EVT-031", unclaimed=unused)
    def every_item(self, say: Say, batch: Batch, event: Event, chains: Sequence[Chain | None]) -> None:
        """KVW-EVT-031: A publisher MUST list in the `mm_keys` of a block every item of which the block holds tokens,
        each once in each of its stretches, with the item's digest and the item's offset there.

        Which items those are, the prompts of ours say. Of others it is known where digest tokens stand. Ids that count
        up behind one can be the item's, or text behind an item of one token: what keys should say there is open.
        """
        known = self._of_prompts(event.block_size or 1)
        in_clear = any(isinstance(token, bytes) for token in event.tokens)
        keys = event.mm_keys or ((),) * len(event.hashes)
        if len(keys) != len(event.hashes):
            return
        told = False
        for index, (chain, own) in enumerate(zip(chains, keys, strict=True)):
            expected = known.get(chain) if isinstance(chain, bytes) else None
            if expected is not None:
                fault = _differ(expected, own)
                told = told or bool(expected)
            elif not in_clear:
                continue
            else:
                fault = _contradicts(event, keys, index)
                told = told or any(isinstance(token, bytes) for token in event.block(index))
            if fault is not None:
                say.broke(fault[0], f"{fault[1]} in block {index} of the event", at_batch(batch, event=event))
                return
            if expected is None and _unsure(event, keys, index):
                say.open("an item goes on in a block whose keys do not say so, or text counts up there")
                return
        if told:
            say.saw()

    def _of_prompts(self, size: int) -> dict[bytes, Keys]:
        if self.chains is None:
            return {}
        if size not in self._known:
            found: dict[bytes, Keys | None] = {}
            for prompt in self.facts.prompts:
                chain = ROOT
                for start in range(0, len(prompt.tokens) - size + 1, size):
                    chain = extend(chain, prompt.tokens[start : start + size])
                    own = _keys(prompt, start, start + size)
                    found[chain] = own if found.get(chain, own) == own else None
            self._known[size] = {chain: own for chain, own in found.items() if own is not None}
        return self._known[size]


def _keys(prompt: Prompt, start: int, end: int) -> Keys | None:
    """The keys of a block of a prompt; None where its items are not known."""
    if prompt.items is None:
        return None
    found: list[tuple[bytes, int]] = []
    for digest, runs in prompt.items:
        before = 0
        for position, length in runs:
            first = max(start, position)
            if first < min(end, position + length):
                found.append((digest, before + first - position))
            before += length
    return tuple(sorted(found))


def _text(keys: Sequence[tuple[bytes, int]]) -> str:
    return ", ".join(f"{digest.hex()[:8]}… at offset {offset}" for digest, offset in keys) or "no key"


def _differ(expected: Keys, own: Keys) -> tuple[str, str] | None:
    """What was expected and what was seen, where the keys of a block are not those of the prompt."""
    same = tuple(sorted(own)) == expected
    return None if same else (f"keys for the items of the prompt: {_text(expected)}", _text(own))


def _contradicts(event: Event, keys: Sequence[Keys], index: int) -> tuple[str, str] | None:
    """What was expected and what was seen, where the keys of a block cannot be true of the tokens of the event, among
    which digest tokens are sent in clear.
    """
    size, own = event.block_size or 1, keys[index]
    start, end = index * size, (index + 1) * size
    begun: dict[bytes, list[int]] = {}
    for at, token in enumerate(event.tokens[:end]):
        if isinstance(token, bytes):
            begun.setdefault(token, []).append(at)
    here = Counter(digest for digest, places in begun.items() for at in places if at >= start)
    first = Counter(digest for digest, offset in own if offset == 0)
    if here.keys() != first.keys() or first.total() > here.total():
        begin = _text([(digest, 0) for digest in sorted(here.elements())])
        return f"keys at offset 0 for the digest tokens of the block: {begin}", _text(own)
    for digest, places in begun.items() if event.parent is None else ():  # else one may have begun in an earlier event
        if any(key == digest and offset > end - 1 - places[0] for key, offset in own):
            there = _text([(digest, start - places[-1])])
            return f"the offset of the item's first token in the block: {there}", _text(own)
    return None


def _counted(tokens: Sequence[int | bytes], place: int) -> int:
    """Where the ids that count up behind a digest token end."""
    at = place + 1
    begin = tokens[at] if at < len(tokens) else None
    while isinstance(begin, int) and at < len(tokens) and tokens[at] == begin + at - place - 1:
        at += 1
    return at


def _unsure(event: Event, keys: Sequence[Keys], index: int) -> bool:
    """Whether the ids behind a digest token count up into a block whose keys say that the item does not go on there."""
    tokens, start = event.tokens, index * (event.block_size or 1)
    for digest, place in {token: at for at, token in enumerate(tokens[:start]) if isinstance(token, bytes)}.items():
        end = _counted(tokens, place)
        offsets = [offset for key, offset in keys[index] if key == digest and offset]
        if end <= start or start - place in offsets:
            continue
        if offsets or (start - place >= COUNTED and _ends(tokens, place, end)):
            return True
    return False


def _ends(tokens: Sequence[int | bytes], place: int, end: int) -> bool:
    """Whether the ids that count up end in the event, at a smaller one."""
    begin, behind = tokens[place + 1], tokens[end] if end < len(tokens) else None
    return isinstance(begin, int) and isinstance(behind, int) and behind < begin
