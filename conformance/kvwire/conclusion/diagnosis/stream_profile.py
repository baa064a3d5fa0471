"""What is on one stream: a profile of what it carries, whatever the standard says of it."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable

import msgspec

from kvwire.cache.chains import NOTHING, Text, Window, longer
from kvwire.conclusion.diagnosis.recognition import Recognised, Recognition
from kvwire.conclusion.diagnosis.residents import Residents, location_of
from kvwire.hashes.functions import Scope
from kvwire.hashes.keys import extra_keys
from kvwire.trace.detail import SocketEvent
from kvwire.trace.handshakes import refusal
from kvwire.trace.marks import Witnesses
from kvwire.trace.records import Record, StreamInfo, Trace
from kvwire.wire.dialect import read
from kvwire.wire.events import TWO_63, Event
from kvwire.wire.framing import END_SEQUENCE, number_of, split_live, split_replay

KEPT = 65_536
"""How many prefixes and hashes are remembered, the oldest forgotten first."""
SHOWN = 8
"""Values of one sort that are kept by name; the rest is counted."""
LENGTH = 120
"""Characters of a name of a stranger's that are kept."""


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cache group as its stores say: kinds, windows in tokens, block sizes in tokens, stored and removed blocks."""

    idx: int
    kinds: list[str]
    windows: list[int]
    block_sizes: list[int]
    stored: int
    removed: int


class Adapter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One LoRA adapter as stores tell it, by id, by name, or by both."""

    id: int | None = None
    name: str | None = None
    stores: int = 0


class Prefix(msgspec.Struct, frozen=True, kw_only=True):
    """A prefix of tokens that was announced: the hash of its last block, how the store tells its scope, its tokens.

    ``salt`` is the scope tag, or the id of a salt in clear; ``mm`` the multimodal keys of its last block.
    """

    hash: int
    tokens: int
    block_size: int
    lora_id: int | None
    lora_name: str | None
    extra: str
    first: tuple[int, ...]
    salt: str = ""
    mm: str = ""


class StreamProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="profile"):
    """The profile of one stream, as far as it was heard. Counts are of distinct batches and of events.

    ``part``: there was more, and this is how it began. ``other_adapters`` are stores whose extra keys hold text, and
    not the name of their adapter; ``items_alone`` those with multimodal keys and no digest token.
    """

    name: str
    endpoint: str
    replay: str | None = None
    connected: bool = False
    refused: str = ""
    seconds: float = 0.0
    messages: int = 0
    batches: int = 0
    malformed: int = 0
    topics: list[str] = []
    topic_given: str | None = None
    first_number: int | None = None
    last_number: int | None = None
    lost: int = 0
    restarts: int = 0
    longest_silence_s: float = 0.0
    forms: dict[str, int] = {}
    events: dict[str, int] = {}
    ranks: list[int | None] = []
    block_sizes: dict[str, int] = {}
    groups: list[Group] = []
    media: dict[str, int] = {}
    adapters: list[Adapter] = []
    extra_keys: dict[str, int] = {}
    mm_keys: dict[str, int] = {}
    labels: dict[str, int] = {}
    scopes: dict[str, int] = {}
    signed: bool = False
    unsigned: bool = False
    blocks: int = 0
    hashed: int = 0
    functions: list[Recognised] = []
    roots: int = 0
    orphans: int = 0
    twice: int = 0
    tokenless: int = 0
    resident: int = 0
    replayed: int = 0
    replay_oldest: int | None = None
    replay_form: str | None = None
    end_markers: int = 0
    part: bool = False
    other_adapters: int = 0
    items_alone: int = 0

    @property
    def function(self) -> Recognised | None:
        """The function that gives most of its hashes."""
        return self.functions[0] if self.functions else None

    @property
    def rate(self) -> float:
        """Batches a second."""
        return self.batches / self.seconds if self.seconds else 0.0


class Profiler:
    """Makes the profile of one stream, record by record.

    ``hurried``: functions are looked for in fewer blocks. ``prefixes``: they are kept, for another stream to be held
    against them.
    """

    def __init__(
        self, info: StreamInfo, seeds: Iterable[str] = (), *, hurried: bool = False, prefixes: bool = True
    ) -> None:
        self._info = info
        self._keeps = prefixes
        self._recognition = Recognition(seeds, hurried=hurried)
        self._made = StreamProfile(name=info.name, endpoint=info.endpoint, replay=info.replay, topic_given=info.topic)
        self._counts: dict[str, Counter[str]] = {}
        self._groups: dict[int, _Group] = {}
        self._adapters: Counter[tuple[int | None, str | None]] = Counter()
        self._topics: dict[str, None] = {}
        self._ranks: dict[int | None, None] = {}
        self._chains: Window[int, Text] = Window(KEPT)
        self._starts: Window[int, tuple[int, ...]] = Window(KEPT)
        self._known: OrderedDict[int, None] = OrderedDict()
        self._residents = Residents()
        self._last: dict[str, int] = {}
        self._newest: int | None = None
        self._first_ns: int | None = None
        self._heard_ns: int | None = None
        self._replayed: set[int] = set()
        self.prefixes: OrderedDict[Text, dict[int, Prefix]] = OrderedDict()
        """Announced prefixes, however they are cut into blocks, and the hashes that name them."""
        self._n = Counter[str]()
        self._curve = False
        self._refused = ""

    def rename(self, name: str) -> None:
        """Call the stream otherwise, beside one of the same name."""
        self._made = msgspec.structs.replace(self._made, name=name)

    def take(self, record: Record) -> None:
        """Look at one record of the stream."""
        self._first_ns = record.t_ns if self._first_ns is None else self._first_ns
        self._end_ns = record.t_ns
        if isinstance(record.detail, Witnesses):
            self._curve = bool(record.detail.curve)
        if isinstance(record.detail, SocketEvent) and record.detail.of.startswith("live-"):
            self._n["connected"] += record.detail.event == "HANDSHAKE_SUCCEEDED"
            self._refused = refusal(record.detail.event, curve=self._curve) or self._refused
        if record.frames is None:
            return
        if record.is_replay:
            self._replay(record.frames)
        elif record.is_live:
            self._live(record, record.frames)

    def _live(self, record: Record, frames: tuple[bytes, ...]) -> None:
        self._n["messages"] += 1
        split = split_live(frames)
        if split is None:
            self._n["malformed"] += 1
            return
        number, payload = split
        topic = frames[0].decode(errors="replace")
        if len(self._topics) < SHOWN:
            self._topics[_short(topic)] = None
        before = self._last.get(record.source)
        self._last[record.source] = number
        if before is not None and number <= before:
            others = [last for source, last in self._last.items() if source != record.source]
            if self._newest is not None and number < self._newest and all(last >= before for last in others):
                self._restart()
        if self._newest is not None and number <= self._newest:
            return  # the other witness's copy
        if self._heard_ns is not None:
            self._n["silence"] = max(self._n["silence"], record.t_ns - self._heard_ns)
        self._heard_ns = record.t_ns
        if self._newest is None:
            self._made = msgspec.structs.replace(
                self._made, first_number=number if self._made.first_number is None else self._made.first_number
            )
        else:
            self._n["lost"] += number - self._newest - 1
        self._newest = number
        self._batch(payload)

    def _restart(self) -> None:
        self._n["restarts"] += 1
        self._newest = None
        self._residents = Residents()
        self._chains.clear()
        self._known.clear()
        self._recognition.begin()

    def _count(self, what: str, value: str) -> None:
        counts, value = self._counts.setdefault(what, Counter()), _short(value)
        counts[value if value in counts or len(counts) < SHOWN else "others"] += 1

    def _batch(self, payload: bytes) -> None:
        reading = read(payload)
        self._n["batches"] += 1
        if reading.events:
            self._count("forms", reading.form)
        if len(self._ranks) < SHOWN:
            self._ranks[reading.rank] = None
        for event in reading.events:
            self._count("events", event.tag or "(untagged)")
            match event.kind:
                case "stored":
                    self._stored(payload, event)
                case "removed":
                    self._group(event).removed += len(event.hashes)
                case _:
                    pass
            self._residents.take(event, self._newest or 0)

    def _group(self, event: Event) -> _Group:
        return self._groups.setdefault(event.group, _Group())

    def _stored(self, payload: bytes, event: Event) -> None:
        group = self._group(event)
        group.stored += len(event.hashes)
        if event.spec_kind is not None:
            group.kinds[_short(event.spec_kind)] = None
        if event.window is not None:
            group.windows[event.window] = None
        if event.block_size is not None:
            self._count("block_sizes", str(event.block_size))
            group.sizes[event.block_size] = None
        self._count("media", str(event.medium))
        if event.lora_id is not None or event.lora_name is not None:
            self._adapters[event.lora_id, None if event.lora_name is None else _short(event.lora_name)] += 1
        if event.hash_algo is not None:
            self._count("labels", event.hash_algo)
        if event.scope is not None or event.cache_salt is not None:
            self._count("scopes", "tag" if event.scope is not None else "salt in clear")
        self._n["unsigned"] += event.unsigned_hashes
        self._n["signed"] += sum(value >= TWO_63 for value in event.hashes) - event.unsigned_hashes
        self._n["blocks"] += len(event.hashes)
        if "extra_keys" in event.keys:
            extras = extra_keys(payload, event)
            for shape in _shapes(extras):
                self._count("extra_keys", shape)
            texts = [{key for key in keys or () if isinstance(key, str)} for keys in extras or ()]
            strange = event.lora_name is not None and any(keys and event.lora_name not in keys for keys in texts)
            self._n["other_adapters"] += strange
        if event.mm_keys:
            for keys in event.mm_keys:
                self._count("mm_keys", f"{len(keys)} items" if len(keys) != 1 else "1 item")
            self._n["items_alone"] += any(event.mm_keys) and bytes not in map(type, event.tokens)
        there = self._residents.held.get(location_of(event), {})
        self._n["twice"] += sum(value in there for value in event.hashes)
        if event.tokenless:
            self._n["tokenless"] += 1
        if event.parent is None and not event.tokenless:
            self._n["roots"] += 1
        elif event.parent is not None and event.parent not in self._known:
            self._n["orphans"] += 1
        for value in event.hashes:
            self._known[value] = None
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        if event.whole and not event.tokenless:
            self._recognition.stored(payload, event)
            if self._keeps:
                self._prefixes(payload, event)

    def _prefixes(self, payload: bytes, event: Event) -> None:
        above = NOTHING if event.parent is None else self._chains.get(event.parent)
        if above is None:
            return
        first = event.tokens[:4] if event.parent is None else self._starts.get(event.parent) or ()
        shown = tuple(token for token in first if isinstance(token, int))
        extras = extra_keys(payload, event)
        for index, value in enumerate(event.hashes):
            above = longer(above, event.block(index))
            self._chains.put(value, above)
            self._starts.put(value, shown)
            held = self.prefixes.setdefault(above, {})
            if len(held) < SHOWN:
                held[value] = Prefix(
                    hash=value,
                    tokens=above.tokens,
                    block_size=event.block_size or 0,
                    lora_id=event.lora_id,
                    lora_name=event.lora_name,
                    extra="absent" if extras is None else repr(extras[index]),
                    first=shown,
                    salt=_salt(event),
                    mm=_mm(event, index),
                )
            if len(self.prefixes) > KEPT:
                self.prefixes.popitem(last=False)

    def _replay(self, frames: tuple[bytes, ...]) -> None:
        split = split_replay(frames)
        if split is None:
            self._n["malformed"] += 1
            return
        topic, sequence, _ = split
        if sequence == END_SEQUENCE:
            self._n["ends"] += 1
            return
        self._made = msgspec.structs.replace(self._made, replay_form="replay-bare" if topic is None else "replay-topic")
        if (number := number_of(sequence)) is not None and len(self._replayed) < KEPT:
            self._replayed.add(number)

    def made(self, *, part: bool = False) -> StreamProfile:
        """The profile of what was taken so far; ``part``: and there is more."""
        n, counts = self._n, self._counts
        begin = self._first_ns
        return msgspec.structs.replace(
            self._made,
            connected=bool(n["connected"]) or n["messages"] > 0,
            refused=self._refused,
            seconds=0.0 if begin is None else (self._end_ns - begin) / 1e9,
            messages=n["messages"],
            batches=n["batches"],
            malformed=n["malformed"],
            topics=list(self._topics),
            last_number=self._newest,
            lost=n["lost"],
            restarts=n["restarts"],
            longest_silence_s=n["silence"] / 1e9,
            ranks=list(self._ranks),
            groups=[group.made(idx) for idx, group in sorted(self._groups.items())[:SHOWN]],
            adapters=[Adapter(id=i, name=name, stores=count) for (i, name), count in self._adapters.most_common(SHOWN)],
            signed=n["signed"] > 0,
            unsigned=n["unsigned"] > 0,
            blocks=n["blocks"],
            hashed=self._recognition.blocks,
            functions=list(self._recognition.found()),
            roots=n["roots"],
            orphans=n["orphans"],
            twice=n["twice"],
            tokenless=n["tokenless"],
            resident=len(self._residents),
            replayed=len(self._replayed),
            replay_oldest=min(self._replayed, default=None),
            end_markers=n["ends"],
            part=part,
            other_adapters=n["other_adapters"],
            items_alone=n["items_alone"],
            **{
                name: dict(counts.get(name, Counter()).most_common())
                for name in ("forms", "events", "block_sizes", "media", "extra_keys", "mm_keys", "labels", "scopes")
            },
        )


class _Group:
    def __init__(self) -> None:
        self.kinds: dict[str, None] = {}
        self.windows: dict[int, None] = {}
        self.sizes: dict[int, None] = {}
        self.stored = 0
        self.removed = 0

    def made(self, idx: int) -> Group:
        return Group(
            idx=idx,
            kinds=list(self.kinds)[:SHOWN],
            windows=list(self.windows)[:SHOWN],
            block_sizes=list(self.sizes)[:SHOWN],
            stored=self.stored,
            removed=self.removed,
        )


def _short(text: str) -> str:
    return text if len(text) <= LENGTH else f"{text[:LENGTH]}…"


def _salt(event: Event) -> str:
    if event.scope is not None:
        return f"scope {event.scope}"
    return "" if event.cache_salt is None else f"salt id {Scope(salt=event.cache_salt).salt_id:016x}"


def _mm(event: Event, index: int) -> str:
    if not event.mm_keys or index >= len(event.mm_keys):
        return ""
    return ", ".join(f"{digest.hex()[:16]}… at {offset}" for digest, offset in event.mm_keys[index])


def _shapes(extras: tuple[tuple[object, ...] | None, ...] | None) -> Iterable[str]:
    """What extra keys look like: types, and no values."""
    if extras is None:
        return ("nil, or unreadable",)
    return {_shape(keys) for keys in extras}


def _shape(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shape, value))}]"
    return "nil" if value is None else {"str": "text", "bytes": "bytes", "int": "integer"}[type(value).__name__]


def profilers(trace: Trace, seeds: Iterable[str] = ()) -> tuple[Profiler, ...]:
    """A profiler for each declared stream of a trace, which has looked at all of its records."""
    seeds = tuple(seeds)
    made = {info.name: Profiler(info, seeds) for info in trace.header.streams}
    for record in trace.records:
        if record.stream in made:
            made[record.stream].take(record)
        elif not record.stream:
            for profiler in made.values():
                profiler.take(record)
    return tuple(made.values())
