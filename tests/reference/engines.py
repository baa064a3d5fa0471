"""Engines that write to a tape, and a consumer that holds their stream to the standard's rules."""

import random

import msgspec

from kvwire_reference.cache import CacheConfig, CacheEngine, MmItem
from kvwire_reference.outlet import NullPublisher
from kvwire_reference.wire import AllBlocksCleared, Batch, BlockRemoved, BlockStored, Event, encode, unsigned

FULL_KINDS = (None, "full_attention", "mla_attention", "sink_full_attention")


class Tape(NullPublisher):
    """Keeps the batches it is given."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__(rank)
        self.batches: list[Batch] = []

    def publish(self, batch: Batch) -> bool:
        self.batches.append(batch)
        return super().publish(batch)


def engine(**config: object) -> CacheEngine:
    settings = {"block_size": 4, "capacity": 100, **config}
    return CacheEngine(Tape(), msgspec.convert(settings, CacheConfig))


def events(cache: CacheEngine) -> tuple[Event, ...]:
    batch = cache.flush()
    return () if batch is None else batch.events


class Ledger:
    """What a consumer believes, by medium and group, and a complaint at the first event it cannot believe."""

    def __init__(self) -> None:
        self.resident: dict[tuple[str | None, int], set[int]] = {}
        self.stored: dict[int, set[int]] = {}
        self.kinds: dict[int, str | None] = {}

    def apply(self, batch: Batch) -> None:
        assert encode(batch)
        for event in batch.events:
            match event:
                case BlockStored():
                    self._store(event)
                case BlockRemoved():
                    for block_hash in map(unsigned, event.block_hashes):
                        self.resident[event.medium, event.group_idx or 0].remove(block_hash)
                case AllBlocksCleared():
                    self.resident.clear()
                    self.stored.clear()

    def _store(self, event: BlockStored) -> None:
        group = event.group_idx or 0
        place = self.resident.setdefault((event.medium, group), set())
        stored = self.stored.setdefault(group, set())
        assert self.kinds.setdefault(group, event.kv_cache_spec_kind) == event.kv_cache_spec_kind
        if event.parent_block_hash is not None:
            media = [held for (_, idx), held in self.resident.items() if idx == group]
            parents = set().union(*media) if event.kv_cache_spec_kind in FULL_KINDS else stored
            assert unsigned(event.parent_block_hash) in parents
        for block_hash in map(unsigned, event.block_hashes):
            assert block_hash not in place
            place.add(block_hash)
            stored.add(block_hash)

    def believed(self) -> dict[tuple[str | None, int], set[int]]:
        """The places that are not empty."""
        return {place: held for place, held in self.resident.items() if held}


def work(cache: CacheEngine, ledger: Ledger, *, rounds: int = 600, seed: int = 17, whole: bool = True) -> None:
    """Run prompts that share much, evict, reset; after each iteration the consumer believes what is held.

    With `whole`, all of it; else, where blocks are held back, no more than that.
    """
    chance = random.Random(seed)
    for _ in range(rounds):
        for _ in range(chance.randrange(3)):
            tokens = [chance.choice((1, 1, 1, 2)) for _ in range(chance.randrange(1, 24))]
            mm = [MmItem(bytes(32), ((0, 1),))] if chance.random() < 0.1 else []
            salt = chance.choice((None, "s"))
            cache.insert(tokens, salt=salt, mm=mm, computed=len(tokens) - chance.choice((0, 0, 1)))
        if chance.random() < 0.2:
            cache.evict(chance.randrange(4))
        if chance.random() < 0.1:
            cache.evict_host(chance.randrange(4))
        if chance.random() < 0.02:
            cache.reset()
        batch = cache.flush()
        if batch is not None:
            ledger.apply(batch)
        held: dict[tuple[str | None, int], set[int]] = {
            place: set(hashes) for place, hashes in cache.residents().items() if hashes
        }
        if whole:
            assert ledger.believed() == held
        else:
            assert all(believed <= held[place] for place, believed in ledger.believed().items())
