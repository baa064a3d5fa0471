"""The map of an event, its keys, and what each of them holds."""

from __future__ import annotations

from kvwire.cache.ledger import State
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, at_batch, judge, unless, unused
from kvwire.judges.facts import Change
from kvwire.judges.step import Step
from kvwire.judges.verdict import EXAMPLES
from kvwire.standard.statement import Group
from kvwire.trace.calls import StartCall
from kvwire.trace.records import told
from kvwire.wire import dialect
from kvwire.wire.events import Event, Flaw
from kvwire.wire.plain import Shape

U32_ALGORITHMS = ("v2_sha256_64/u32", "v2_sha256_low64/u32")
TYPED = frozenset(dialect.TYPED)
"""The keys whose types KVW-EVT-021 fixes."""
OTHER_GROUPS = "the groups are others than `start` asked for: was the publisher told of them?"


class Values(Area):
    """Reads every event of the timeline."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.asked = any(start.groups for _, start in told(self.facts.stimuli, StartCall) if start.succeeded)
        """Whether groups are not what the publisher declares, but what the harness asked for."""

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self._begin()

    def on_gap(self, gap: Gap) -> None:
        if gap.maybe_restart:
            self._begin()

    def _begin(self) -> None:
        self.facts.sizes.clear()
        self.facts.named_kinds.clear()

    def on_step(self, step: Step) -> None:
        for shape, count in step.shapes.items():
            self._shape(shape, count)
        self.own_group.saw(step.removed)
        self.signed_hashes.saw(step.negative)
        self.signed_hashes.broke_more(step.unsigned)
        self.one_kind.saw(step.named_kinds)

    def _shape(self, shape: Shape, count: int) -> None:
        """So many events of one shape."""
        if shape.form == "map":
            self.tagged_map.saw(count)
            self.string_keys.saw(count)
            self.keys_once.saw(count)
        else:
            self.tagged_map.broke_more(count)
        self.no_ext.saw(count)
        self.integer_hashes.saw(count)
        self.no_zero.saw(count)
        self.medium.saw(count)
        self.registered_medium.saw(count)
        if shape.keys & TYPED:
            self.plain_types.saw(count)
        if "v" in shape.keys:
            self.edition_key.saw(count)
        if self.context.statement.form != "map":
            self.declared_form.saw(count)
        if shape.kind == "removed":
            if shape.form == "map":
                self.removed_keys.saw(count)
            return
        if shape.form == "map":
            self.stored_keys.saw(count)
        self.token_range.saw(count)
        self.full_blocks.saw(count)
        self.block_size.saw(count)
        if "extra_keys" in shape.keys:
            self.extra_keys.saw(count)

    def on_batch(self, batch: Batch) -> None:
        for flaw in batch.reading.flaws:
            if flaw.code == "ext":
                self.no_ext(batch, flaw)

    def on_event(self, batch: Batch, event: Event) -> None:
        flaws: dict[str, Flaw] = {}
        for flaw in event.flaws:
            flaws.setdefault(flaw.code, flaw)
        self.tagged_map(batch, flaws.get("not-a-map") or flaws.get("untagged"))
        if "not-a-map" in flaws and self.tagged_map.tally.violations >= EXAMPLES:
            self.facts.counted.add("array")
        self.string_keys(batch, event, flaws.get("key-not-string"))
        self.keys_once(batch, event, flaws.get("key-twice"))
        self.no_ext(batch, flaws.get("ext"))
        if event.kind == "stored":
            self._stored(batch, event, flaws)
        if event.kind == "removed":
            self.removed_keys(batch, event, flaws.get("missing-key"))
            for change in self.facts.changes:
                self.own_group(batch, event, change)
        if event.kind in ("stored", "removed"):
            self._hashes(batch, event, flaws)
        if event.kind != "unknown":
            if event.keys & TYPED:
                self.plain_types(batch, flaws.get("type"))
            self.medium(batch, event, flaws.get("medium"))
            self.registered_medium(batch, event, flaws.get("medium"), flaws.get("medium-name"))
        elif event.tag:
            self.alone(batch, event)
        self.edition_key(event)
        self.declared_form(batch, event)

    def _stored(self, batch: Batch, event: Event, flaws: dict[str, Flaw]) -> None:
        self.stored_keys(batch, event, flaws.get("missing-key"))
        if "token_ids" in event.keys:
            self.token_range(batch, event, flaws.get("token"))
        if "extra_keys" in event.keys:
            self.extra_keys(batch, flaws.get("extra-keys"))
        if event.spec_kind is not None or event.window is not None:
            self.one_kind(batch, event)
        if self.facts.location:
            self.location_update()
            return
        if "token_ids" in event.keys and ("length" in flaws or event.whole):
            self.full_blocks(batch, flaws.get("length"))
        if "block_size" in event.keys:
            self.block_size(batch, event, flaws.get("block-size"))
        if self.facts.partial:
            self.partial_entry()

    def _hashes(self, batch: Batch, event: Event, flaws: dict[str, Flaw]) -> None:
        if "block_hashes" not in event.keys:
            return
        self.integer_hashes(batch, flaws.get("hash-type"))
        if "hash-type" in flaws:
            return
        if event.hashes:
            self.signed_hashes(batch, event, flaws.get("hash-unsigned"))
            if self.signed_hashes.tally.violations >= EXAMPLES:
                self.facts.counted.add("unsigned")
            self.no_zero(batch, flaws.get("hash-zero"))

    # the map

    @judge("KVW-EVT-001", arrays="break")
    def tagged_map(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-EVT-001: A publisher MUST send every event as a msgpack map with a key `type` whose value is a string."""
        say.weigh(batch, flaw)

    @judge("KVW-EVT-002", arrays="exempt")
    def string_keys(self, say: Say, batch: Batch, event: Event, flaw: Flaw | None) -> None:
        """KVW-EVT-002: A publisher MUST use msgpack `str` for every key of every map in a payload.

        An array event has no keys of its own; a key inside one still counts.
        """
        if event.form == "map" or flaw is not None:
            say.weigh(batch, flaw)

    @judge("KVW-EVT-003", arrays="exempt")
    def keys_once(self, say: Say, batch: Batch, event: Event, flaw: Flaw | None) -> None:
        """KVW-EVT-003: A publisher MUST send each key of a map once."""
        if event.form == "map" or flaw is not None:
            say.weigh(batch, flaw)

    @judge("KVW-EVT-004")
    def no_ext(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-EVT-004: A publisher MUST NOT send a msgpack ext type anywhere in a payload."""
        say.weigh(batch, flaw)

    @judge("KVW-EVT-005", arrays="exempt")
    def stored_keys(self, say: Say, batch: Batch, event: Event, flaw: Flaw | None) -> None:
        """KVW-EVT-005: A publisher MUST send all of the keys `block_hashes`, `parent_block_hash`, `token_ids`,
        `block_size`, `lora_id`, `medium` and `lora_name` in every `BlockStored`, those whose value is nil
        included.

        Array events have slots, not keys: the sentence does not speak of them.
        """
        if event.form == "map":
            say.weigh(batch, flaw)

    @judge("KVW-EVT-006", arrays="exempt")
    def removed_keys(self, say: Say, batch: Batch, event: Event, flaw: Flaw | None) -> None:
        """KVW-EVT-006: A publisher MUST send both keys `block_hashes` and `medium` in every `BlockRemoved`, a nil
        `medium` included.
        """
        if event.form == "map":
            say.weigh(batch, flaw)

    # hashes

    @judge("KVW-EVT-007")
    def integer_hashes(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-EVT-007: A publisher MUST send every hash as a msgpack integer in −2^63…2^64−1: `block_hashes` as an
        array of such integers, `parent_block_hash` as one or nil.
        """
        say.weigh(batch, flaw)

    @judge("KVW-EVT-008")
    def signed_hashes(self, say: Say, batch: Batch, event: Event, flaw: Flaw | None) -> None:
        """KVW-EVT-008: A publisher SHOULD send hashes as signed 64-bit integers (none above 2^63−1).

        Only a hash whose top bit is set can show the sign; a small positive one is the same in both forms.
        """
        if flaw is None and any(value >= 2**63 for value in event.hashes):
            say.saw()
        elif flaw is not None:
            say.weigh(batch, flaw)

    @judge("KVW-EVT-009")
    def no_zero(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-EVT-009: A publisher SHOULD NOT send a hash that is 0."""
        say.weigh(batch, flaw)

    # tokens

    @judge("KVW-EVT-010")
    def token_range(self, say: Say, batch: Batch, event: Event, flaw: Flaw | None) -> None:
        """KVW-EVT-010: A publisher MUST send `token_ids` as an array of integers in 0…2^32−1 (in 0…2^31−1 where the
        stream hashes four-byte tokens, `/u32`), except the digest string of a multimodal item.
        """
        if flaw is None and self._algorithm(event) in U32_ALGORITHMS:
            high = next((token for token in event.tokens if isinstance(token, int) and token >= 2**31), None)
            if high is not None:
                flaw = Flaw(
                    "token",
                    "token ids in 0…2147483647, since the stream hashes four-byte tokens",
                    str(high),
                    event.start,
                    event.end,
                )
        say.weigh(batch, flaw)

    def _algorithm(self, event: Event) -> str | None:
        return event.hash_algo or self.context.statement.algorithm

    @judge("KVW-EVT-013")
    def full_blocks(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-EVT-013: A publisher MUST announce full blocks only: in every `BlockStored` that is no location update,
        `block_hashes` is not empty and `token_ids` holds exactly `block_size` elements per hash.

        A store in the form of a location update is one where the publisher declares them.
        """
        say.weigh(batch, flaw)

    @judge("KVW-EVT-014")
    def block_size(self, say: Say, batch: Batch, event: Event, flaw: Flaw | None) -> None:
        """KVW-EVT-014: A publisher MUST send `block_size` as a positive integer that stays the same for each group of
        a stream within an incarnation and is the declared one where one is declared for the group, location updates
        and partial entries excepted.

        Where partial entries are declared and the size of the group is not known, a single block can be one. Groups
        that the harness asked for are no declaration: an adapter that did not hand them on is not the publisher.
        """
        size = event.block_size
        if flaw is None and size is not None and "engine" not in self.muted:
            if self.facts.partial:
                return
            declared = self.context.statement.declared_block_size(event.group)
            if declared is not None and size != declared and self.asked:
                first, _ = self.facts.sizes.get(event.group, (size, 0))
                if size == first or self.facts.partial is None:
                    say.open(OTHER_GROUPS)
                    return
                declared = None
            if declared is not None and size != declared:
                flaw = _another_size(event, declared, "as declared")
            elif self.facts.partial is None:
                return
            else:
                first, number = self.facts.sizes.setdefault(event.group, (size, batch.number))
                if size != first:
                    flaw = _another_size(event, first, f"as in number {number}")
        say.weigh(batch, flaw)

    @judge("KVW-EVT-032")
    def location_update(self, say: Say) -> None:
        """KVW-EVT-032: A publisher that declares the extension `location_updates` MAY announce by a `BlockStored` with
        empty `token_ids`, `block_size` 0, a nil parent and a medium that is neither `GPU` nor nil that the blocks of
        its hashes are resident in that location.

        Without the declaration such a store breaks KVW-EVT-013.
        """
        say.saw()

    @judge("KVW-EVT-033")
    def partial_entry(self, say: Say) -> None:
        """KVW-EVT-033: A publisher that declares the extension `partial_entries` MAY announce single blocks with a
        `block_size` below that of their group, under a parent that was not announced.

        Without the declaration such a store breaks KVW-EVT-014.
        """
        say.saw()

    # the rest

    @judge("KVW-EVT-015")
    def medium(self, say: Say, batch: Batch, event: Event, flaw: Flaw | None) -> None:
        """KVW-EVT-015: A publisher MUST send `medium` as a non-empty string or nil.

        An absent key is a missing key (KVW-EVT-005, KVW-EVT-006) and no occasion here.
        """
        if "medium" in event.keys:
            say.weigh(batch, flaw)

    @judge("KVW-EVT-016")
    def registered_medium(
        self, say: Say, batch: Batch, event: Event, malformed: Flaw | None, flaw: Flaw | None
    ) -> None:
        """KVW-EVT-016: A publisher SHOULD send as `medium` one of `GPU`, `CPU`, `DISK`, `STORAGE`, `EXTERNAL`,
        `REMOTE`, a name that begins with `x-`, or nil.
        """
        if "medium" in event.keys and malformed is None:
            say.weigh(batch, flaw)

    @judge("KVW-EVT-017", memory="O(resident)")
    def own_group(self, say: Say, batch: Batch, event: Event, change: Change) -> None:
        """KVW-EVT-017: A publisher MUST send a `BlockRemoved` with the group of the `BlockStored` that announced the
        block (an absent `group_idx` is group 0).

        Broken only when another group of that medium is known to hold the hash, and the named one is known not to: who
        joined late may have missed its store in the named group too.
        """
        key, before, elsewhere = change
        if before is State.RESIDENT:
            say.saw()
        elif before is State.ABSENT and elsewhere:
            say.broke(
                f"group {', '.join(map(str, sorted(elsewhere)))}, in which {key.hash} was stored",
                f"a removal from group {key.location.group}",
                at_batch(batch, event=event, stored=self.facts.stored_in(key.hash)),
            )

    @judge("KVW-EVT-018", arrays="exempt")
    def edition_key(self, say: Say, event: Event) -> None:
        """KVW-EVT-018: A publisher MAY add to an event the key `v` with the integer number of the edition that it
        follows.
        """
        if event.v is not None:
            say.saw()
        elif "v" in event.keys:
            say.note(f"the `v` of a `{event.tag}` is no integer")

    @judge("KVW-EVT-021")
    def plain_types(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-EVT-021: A publisher MUST send `lora_id` as an integer in 0…2^64−1 or nil, `lora_name` as a string or
        nil, and, where it sends them, `group_idx` and `kv_cache_spec_sliding_window` as non-negative integers or nil,
        `kv_cache_spec_kind`, `hash_algo`, `locality`, `ownership`, `scope`, `session_id` and `epoch` as strings or
        nil.
        """
        say.weigh(batch, flaw)

    @judge("KVW-EVT-029", unclaimed=unused)
    def extra_keys(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-EVT-029: A publisher MUST send `extra_keys`, where it sends it, as nil or as an array with exactly one
        element per element of `block_hashes`, each of them nil or an array.
        """
        say.weigh(batch, flaw)

    @judge("KVW-EVT-034", unclaimed=unused)
    def alone(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-EVT-034: A publisher SHOULD send an event of a `type` that this standard does not define in a batch
        without events of other types.
        """
        others = sorted({other.tag for other in batch.reading.events} - {event.tag, ""})
        if not others:
            say.saw()
        else:
            say.broke(
                f"a batch of its own for an event of the type {event.tag!r}",
                f"a batch with {', '.join(map(repr, others))} too",
                at_batch(batch, event=event),
            )

    @judge(
        "KVW-EVT-036",
        unclaimed=unless(lambda _, statement: any(map(_described, statement.groups))),
        declares="groups.kind",
    )
    def one_kind(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-EVT-036: A publisher MUST send, in the stores of a group that name a kind or window, one and the same
        kind and window within an incarnation, and those that are declared where any are.

        A declared kind without a window declares that there is none. Groups that the harness asked for are as for
        KVW-EVT-014: what contradicts itself breaks both all the same.
        """
        told, group = (event.spec_kind, event.window), self.context.statement.group(event.group)
        before = self.facts.named_kinds.setdefault(event.group, (told, batch))
        if group is not None and _described(group):
            expected, why = (event.spec_kind if group.kind is None else group.kind, group.window), "as declared"
        elif before[1] is batch and before[0] == told:
            return
        else:
            expected, why = before[0], f"as in number {before[1].number}"
        if self.asked and before[0] != told != expected:
            expected, why = before[0], f"as in number {before[1].number}"
        if told == expected:
            say.saw()
        elif self.asked and told == before[0]:
            say.open(OTHER_GROUPS)
        else:
            say.broke(f"{_kind(*expected)} in group {event.group}, {why}", _kind(*told), at_batch(batch, event=event))

    @judge(
        "KVW-EVT-037", unclaimed=unless(lambda _, statement: statement.form != "map"), declares='form other than "map"'
    )
    def declared_form(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-EVT-037: A publisher that declares a legacy form of events MUST send every event in that form.

        Arrays that both forms have in common are of either.
        """
        form = self.context.statement.form
        if form == "map" or event.form == "none":
            return
        if event.form in (form, "array"):
            say.saw()
        else:
            say.broke(
                f"an event in the form `{form}`, as declared",
                "a map" if event.form == "map" else f"one in the form `{event.form}`",
                at_batch(batch, event=event),
            )


def _another_size(event: Event, expected: int, why: str) -> Flaw:
    return Flaw("block-size", f"block_size {expected}, {why}", f"block_size {event.block_size}", event.start, event.end)


def _described(group: Group) -> bool:
    """Whether kind or window are declared of a group."""
    return group.kind is not None or group.window is not None


def _kind(kind: str | None, window: int | None) -> str:
    named = "no kind" if kind is None else f"the kind {kind!r}"
    return f"{named}, {'no window' if window is None else f'window {window}'}"
