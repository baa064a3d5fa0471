"""Hashing: one function, told truly, and what a hash must tell apart (spec/hashing.md).

Parity (HSH-001, 002, 007) speaks at the end, when it is known which function the stream uses; blocks that could not be
recomputed are no witnesses and are counted in a note. A new incarnation may use another function and announce it: the
two sentences are held against each life of the stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvwire.cache.cases import Example, Examples, Match, Result
from kvwire.cache.identity import Apart, Identity, Shared, Sight, Told
from kvwire.cache.parity import Parity
from kvwire.hashes.functions import BARE, LABELS, OPAQUE, named
from kvwire.hashes.mistakes import BY_NAME, difference
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import FEW_TOKENS, HEX_BYTES, Area, Context, Say, at_batch, judge, unless, unused
from kvwire.judges.step import Step
from kvwire.judges.verdict import EXAMPLES, Reason, Where
from kvwire.standard.statement import Statement
from kvwire.trace.records import StreamInfo
from kvwire.wire.events import Event
from kvwire.wire.msgpack import Kind, walked

KEY_LABEL = "v2_sha256"
"""The label of the full key in interfaces that are asked for events; no label of this wire."""

NAMED = 'algorithm other than "opaque"'
"""What is declared of hashes that can be recomputed."""


def at_hash(batch: Batch, event: Event, index: int) -> Where:
    """The place of a block's hash in its payload; of the whole event when the hashes are not where they should be."""
    node = walked(batch.payload).items[1].items[event.index]
    hashes = node.get("block_hashes") if node.kind is Kind.MAP else node.items[1]
    if hashes is None:
        return at_batch(batch, event=event)
    start = hashes.items[index].start
    return Where(
        record=batch.record,
        number=str(batch.number),
        frame="payload",
        offset=start,
        hex=batch.payload[start : start + HEX_BYTES].hex(),
    )


def _told(example: Example, because: str) -> tuple[str, str]:
    """What was expected of a block, and what was seen."""
    wanted = f"the hash by `{example.held}`{because}"
    seen = f"{example.hash}, reproduced by nothing known"
    if example.behind is not None:
        parent = "nil" if example.parent is None else example.parent
        wanted += f", behind the parent that is named, {parent}"
        return wanted, f"{example.hash}, its hash behind {example.behind}: the parent is wrong"
    if example.names:
        seen = f"{example.hash}, the hash by `{example.names[0]}`: {difference(example.held, example.names[0])}"
    return (wanted if example.wanted is None else f"{example.wanted}, {wanted}"), seen


def _recomputable(_: StreamInfo, statement: Statement) -> bool:
    return statement.algorithm != OPAQUE


def _untold(stream: StreamInfo, statement: Statement) -> Reason | None:
    """No function is named, or none that could be false."""
    return Reason.NOT_USED if statement.algorithm is None else unless(_recomputable)(stream, statement)


class Hashing(Area):
    """Follows chains and recomputes what can be; remembers what each hash stood for."""

    memory = "O(window)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.declared = context.statement.algorithm
        self.lives = 0

    @property
    def identity(self) -> Identity:
        """What each hash stood for."""
        return self.facts.identity

    @property
    def parity(self) -> Parity:
        """What recomputes."""
        return self.facts.parity

    # hooks

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self._begin()

    def on_gap(self, gap: Gap) -> None:
        if gap.maybe_restart:
            self._begin()
        self.identity.hole()

    def _begin(self) -> None:
        self.lives += 1
        self.facts.announced = None
        self.identity.begin()
        self.parity.begin()

    def on_step(self, step: Step) -> None:
        self.different_chains.saw(step.fresh)
        self.may_announce.saw(step.labelled)
        self.constant_announcement.saw(step.labelled)
        self.qualified_label.saw(step.qualified)
        self.four_byte_tokens.saw(step.narrow)
        self.four_byte_tokens.broke_more(step.wide)

    def on_event(self, batch: Batch, event: Event) -> None:
        if event.hash_algo is not None and event.kind in ("stored", "removed"):
            self._announcement(batch, event, event.hash_algo)
        if event.kind != "stored" or not event.whole or "engine" in self.muted:
            return
        sights = self.identity.stored(batch, event)
        results = self._recompute(batch, event, sights)
        for index, sight in enumerate(sights):
            self.different_chains(batch, event, index, sight, result=results[index] if results else None)
            self.equal_chains(batch, event, index, sight)
            if sight.tags is not None:
                self.different_salts(batch, event, index, sight.tags)
            if sight.adapters is not None:
                self.different_adapters(batch, event, index, sight.adapters)

    def finish(self) -> None:
        if self.parity.matched or self.parity.unknown or self.parity.missed or self.parity.mistaken:
            self.one_function()
            self.true_function()
        self._scopes()

    def _at(self, say: Say, batch: Batch, event: Event, index: int, block: int | None = None) -> Where:
        """The place of a hash, while findings are still shown; walking every payload would cost too much.

        ``block``: one that was stored before, to which it is compared.
        """
        if len(say.tally.findings) >= EXAMPLES:
            return at_batch(batch)
        return msgspec.structs.replace(at_hash(batch, event, index), stored=self.facts.stored_in(block))

    # announcements

    def _announcement(self, batch: Batch, event: Event, label: str) -> None:
        self.may_announce(label)
        self.constant_announcement(batch, event, label)
        if label.startswith(KEY_LABEL):
            self.qualified_label(batch, event, label)
        if self.facts.announced is None:
            self.facts.announced = label
            self._against_the_statement(batch, event, label)
        if label == KEY_LABEL:
            self.true_function.broke(
                f"the label of a function whose hash has 64 bits, such as `{BARE}/u32`",
                f"`{KEY_LABEL}`, which is the 32-byte key and no wire hash",
                at_batch(batch, event=event),
            )

    def _against_the_statement(self, batch: Batch, event: Event, label: str) -> None:
        if self.declared not in LABELS or label not in LABELS or OPAQUE in (self.declared, label):
            return
        if not {f.name for f in named(self.declared)} & {f.name for f in named(label)}:
            self.true_function.broke(
                f"`{self.declared}` announced, as the statement declares",
                f"`{label}`",
                at_batch(batch, event=event),
            )

    @judge("KVW-HSH-009", memory="O(1)", arrays="exempt")
    def may_announce(self, say: Say, label: str) -> None:
        """KVW-HSH-009: A publisher MAY announce its hash function in the key `hash_algo` of `BlockStored` and
        `BlockRemoved`, by a label of the wire registry or a name of the foreign functions.
        """
        if label in LABELS:
            say.saw()
        else:
            say.open(f"`{label}` is neither a label of the registry nor a named foreign function")

    @judge("KVW-HSH-003", unclaimed=unused, memory="O(1)")
    def constant_announcement(self, say: Say, batch: Batch, event: Event, label: str) -> None:
        """KVW-HSH-003: A publisher MUST announce one and the same `hash_algo` throughout an incarnation, if it
        announces any.

        An event without `hash_algo` announces nothing and is no violation.
        """
        if self.facts.announced is None:
            return
        if label == self.facts.announced:
            say.saw()
        else:
            say.broke(f"`{self.facts.announced}`, as announced before", f"`{label}`", at_batch(batch, event=event))

    @judge("KVW-HSH-004", unclaimed=unused, memory="O(1)")
    def qualified_label(self, say: Say, batch: Batch, event: Event, label: str) -> None:
        """KVW-HSH-004: A publisher that announces a `v2` function SHOULD announce a label that names the token width
        (`/u32` or `/u64`).
        """
        if label.endswith(("/u32", "/u64")):
            say.saw()
        else:
            say.broke("a label that ends in `/u32` or `/u64`", f"`{label}`", at_batch(batch, event=event))

    # parity

    def _label(self, event: Event) -> str | None:
        """What the publisher says of the hashes of an event; ``opaque`` only where nothing says more."""
        return self.facts.label(event.hash_algo)

    def _recompute(self, batch: Batch, event: Event, sights: Sequence[Sight]) -> Sequence[Result]:
        label = self._label(event)
        if label == OPAQUE:
            return ()
        results = self.parity.stored(batch, event, [sight.link for sight in sights], label)
        if self.facts.announced is not None and self.facts.announced.startswith(KEY_LABEL):
            for index, result in enumerate(results):
                if isinstance(result, Match):
                    self.four_byte_tokens(batch, event, index, result)
            if self.four_byte_tokens.tally.violations >= EXAMPLES:
                self.facts.counted.add("wide tokens")
        return results

    @judge("KVW-HSH-007", unclaimed=unused, memory="O(1)")
    def four_byte_tokens(self, say: Say, batch: Batch, event: Event, index: int, result: Match) -> None:
        """KVW-HSH-007: A publisher that announces a `v2` function SHOULD hash four-byte tokens (`/u32`).

        Decided by what recomputes, not by the label, which may be bare, or false (that is KVW-HSH-002).
        """
        widths = {name[-4:] for name in result.functions if name.startswith(KEY_LABEL)}
        if "/u32" in widths:
            say.saw()
        elif "/u64" in widths:
            say.broke(
                "tokens hashed as four bytes",
                f"hash {event.hashes[index]}, of eight-byte tokens",
                self._at(say, batch, event, index),
            )

    def _each(self, say: Say, examples: Examples, because: str = "") -> None:
        """Count every block of ``examples``, and show the first ones."""
        shown = [
            (*_told(example, because), at_hash(example.batch, example.event, example.index))
            for example in examples.first
        ]
        for number in range(examples.count):
            say.broke(*shown[min(number, len(shown) - 1)])

    @judge("KVW-HSH-001", unclaimed=unless(_recomputable), declares=NAMED)
    def one_function(self, say: Say) -> None:
        """KVW-HSH-001: A publisher MUST compute all hashes of an incarnation by one and the same function: one of the
        wire registry, one of the named foreign functions, or one declared `opaque`.

        Broken by a second true function; by a block with all inputs known that the function of the others (at least
        eight matches) does not give, or that it gives behind another block than the parent that is named; by eight
        blocks that one known mistake gives, while no block is its truth's alone. A salted chain, a late join, a hole
        give no mismatch: their inputs are not known.
        """
        parity, main, mistake = self.parity, self.parity.main, self.parity.mistake
        self._each(say, parity.conflicts, ", as before")
        if main is not None:
            missed = parity.missed.get(main.name, Examples())
            self._each(say, missed, f", as {parity.matches[main.name]} other blocks")
        elif mistake is not None:
            self._each(say, parity.mistaken[mistake])
        if main is not None or mistake is None:
            say.saw(parity.matched - parity.conflicts.count)
        if not self.one_function.tally.violations:
            self._undecided()
        for label in dict.fromkeys(BY_NAME[name].label for name in parity.matches):
            counts = {name: count for name, count in parity.matches.items() if BY_NAME[name].label == label}
            best = [name for name, count in counts.items() if count == max(counts.values())]
            say.note(f"matches ×{counts[best[0]]} {best[0] if len(best) == 1 else label}")
        for why, count in sorted(parity.unknown.items()):
            say.note(f"{count} blocks not recomputed: {why}")

    def _undecided(self) -> None:
        """Say what stays open: nothing matched, or too few blocks speak for a fault."""
        parity = self.parity
        near = "; ".join(f"{found.count} by `{name}`: {BY_NAME[name].wrong}" for name, found in parity.mistaken.items())
        near = f"; nearest: {near}" if near else ""
        differing = max((found.count for found in parity.missed.values()), default=0)
        if not parity.matched:
            self.one_function.open(f"no known function reproduces these hashes, and none is declared `opaque`{near}")
        elif differing and parity.main is None:  # else they are those of which its function cannot say anything
            self.one_function.open(f"{differing} blocks differ from what matches elsewhere, too few to decide{near}")
        elif not parity.solid:
            self.one_function.open(f"a known mistake gives the {parity.matched} short blocks that match, too")

    @judge("KVW-HSH-002", unclaimed=_untold, declares=NAMED)
    def true_function(self, say: Say) -> None:
        """KVW-HSH-002: A publisher MUST compute its hashes by the function that it announces in `hash_algo` or declares
        in its statement.

        One block is enough when all its inputs are known, or when another known function or mistake gives its hash.
        Under the bare `v2_sha256_64` both widths are true; that it is one of them throughout is KVW-HSH-001.
        """
        parity = self.parity
        label = self.facts.announced if self.facts.announced not in (None, OPAQUE) else self.declared
        if label is None:
            return
        say.saw(parity.told)
        self._each(say, parity.untrue)
        if label not in LABELS and label != KEY_LABEL:
            say.open(f"`{label}` names no function of edition 1")
        elif not parity.told and not parity.untrue.count:
            why = "; ".join(f"{count} blocks: {why}" for why, count in sorted(parity.unknown.items()))
            say.open(f"`{label}` reproduces none of these hashes, and not all inputs are known ({why})")

    # identity

    @judge("KVW-HSH-008")
    def different_chains(
        self, say: Say, batch: Batch, event: Event, index: int, sight: Sight, result: Result | None
    ) -> None:
        """KVW-HSH-008: A publisher MUST give different hashes to chains whose tokens differ within one incarnation,
        unless the function that it announces or declares gives them the same.

        One hash for two blocks of different tokens or multimodal items, or for equal blocks under two parents whose
        tokens differ. A parent that is nil once leaves it open: it can be nil wrongly, another fault (KVW-CHN-001).
        Blocks of two sizes are compared as chains from the root, which two groups may cut in two ways. In a dense group
        a block of a prompt of ours has the hash of its chain there, and is announced behind another block for none.
        """
        told = {function.name for function in named(self._label(event))}
        if sight.strays and self._follows(event):
            say.broke(
                "the hash of a block in a prompt for its chain there alone",
                f"hash {event.hashes[index]} behind {sight.link.parent}, whose tokens no prompt has before those of "
                "the block: the parent is wrong",
                self._at(say, batch, event, index, sight.link.parent),
            )
        elif sight.fresh:
            say.saw()
        elif sight.clash is not None and isinstance(result, Match) and not told.isdisjoint(result.functions):
            say.note(f"hash {event.hashes[index]} stood for {sight.clash}: its function collides there")
        elif sight.clash is not None:
            say.broke(
                "a hash of its own for each chain of tokens",
                f"hash {event.hashes[index]}, which stood for {sight.clash}",
                self._at(say, batch, event, index, event.hashes[index]),
            )
        elif sight.nil and not isinstance(result, Match):
            say.open(
                f"hash {event.hashes[index]} begins a chain and stands behind a parent: one of the parents is wrong "
                "(KVW-CHN-001), or it stands for two chains"
            )

    def _follows(self, event: Event) -> bool:
        """Whether each block of a store follows the one before it in a prompt, and is not generated by chance."""
        dense = self.facts.kinds.of(event) == "dense" and self.facts.partial is False
        return dense and (event.block_size or 0) >= FEW_TOKENS

    @judge("KVW-HSH-006")
    def equal_chains(self, say: Say, batch: Batch, event: Event, index: int, sight: Sight) -> None:
        """KVW-HSH-006: A publisher MUST give equal hashes to equal chains (same reuse scope, same tokens) of one group
        within one incarnation.

        Only chains that one scope alone can explain are compared, of one block size, and without multimodal content,
        whose identity can be more than its tokens.
        """
        if sight.before is None:
            return
        if sight.before == event.hashes[index]:
            say.saw()
        else:
            say.broke(
                f"{sight.before}, the hash of this chain before ({sight.scope})",
                str(event.hashes[index]),
                self._at(say, batch, event, index, sight.before),
            )

    def _scopes(self) -> None:
        """What the prompts tell of scopes that the wire does not say."""
        proofs = self.identity.shared()
        salts, adapters = self.identity.told_by_salt(), self.identity.told_by_adapter()
        self._by_prompt(self.different_salts, [proof for proof in proofs if proof.by_salt], salts, "salt")
        self._by_prompt(
            self.different_adapters, [proof for proof in proofs if proof.by_adapter], adapters, "LoRA adapter"
        )

    def _by_prompt(self, say: Say, proofs: Sequence[Shared], told: Told, what: str) -> None:
        for proof in proofs:
            say.broke(
                f"another hash for the same tokens under another {what}",
                proof.text,
                self._at(say, proof.batch, proof.event, proof.index),
            )
        say.saw(told.apart)
        one_stream = len(self.context.header.streams) < 2
        whole = one_stream and self.lives == 1 and not any(i.gaps for i in self.context.timeline.incarnations)
        if told.untold and (whole or not told.apart):
            say.open(
                f"{told.untold} first blocks ran in more scopes than hashes were seen for them: what is missing was "
                "shed, lost, or is one of those",
            )

    def _apart(self, say: Say, batch: Batch, event: Event, index: int, apart: Apart) -> None:
        if apart.worn != event.hashes[index]:
            say.saw()
            return
        say.broke(
            f"another hash for the same tokens under {apart.own} than under {apart.other}",
            f"hash {event.hashes[index]} under both",
            self._at(say, batch, event, index, event.hashes[index]),
        )

    @judge("KVW-HSH-005")
    def different_salts(self, say: Say, batch: Batch, event: Event, index: int, apart: Apart) -> None:
        """KVW-HSH-005: A publisher MUST give different hashes to the same tokens under different cache salts, and under
        a salt and none.

        Stores of one chain with two scope tags are compared; no tag is no knowledge. Else the prompts tell of a block's
        salt. Two hashes of one chain that ran in two scopes are a witness. A violation is a hash first stored when its
        chain had run in some scopes only, which is then the parent of a chain that ran in others only, or is stored
        anew when no prompt of its scope can be the cause; and no other hash of the chain can be the one that it should
        be. A store that does not come is no proof: it may be shed or lost.
        """
        self._apart(say, batch, event, index, apart)

    @judge("KVW-HSH-014")
    def different_adapters(self, say: Say, batch: Batch, event: Event, index: int, apart: Apart) -> None:
        """KVW-HSH-014: A publisher MUST give different hashes to the same tokens under different LoRA adapters, and
        under an adapter and none.

        Events name their adapter, by name or by id, and nil is no knowledge: stores of one chain that name two are
        compared. What an engine does without saying it is held against the prompts, as salts are (KVW-HSH-005).
        """
        self._apart(say, batch, event, index, apart)
