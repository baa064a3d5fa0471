"""What the ranks of a run are asked: prompts that share beginnings, answered, and asked again with the answer."""

import random
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from kvwire_reference.cache import CacheConfig, LifeCycle

Prompt: TypeAlias = Sequence[int]
Step: TypeAlias = Sequence[Sequence[Prompt]]
"""One iteration: for each rank, the prompts that it runs."""

REUSING = "v2_sha256_64/u32"
"""The function whose wire hash is a part of the key that the cache has anyway."""
SECOND = "v1_block_key"
"""The function that is computed for events only, beside that key."""
LIFE_CYCLES = (LifeCycle(0), LifeCycle(1, 1024), LifeCycle(2, 256))
VOCABULARY = 100_000


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that begin with one of `documents` beginnings of `shared` tokens.

    Each has about `own` tokens more, and its answer about `answer`; neither length is a multiple of the block
    size, so that tails are partial. A request runs twice: as a prompt, and one iteration later with its answer. Each of
    `ranks` ranks gets `requests` of its own, up to `per_iteration` of them new in an iteration; its cache has room for
    `capacity` blocks of `block_size` tokens, and its host tier for `host` pages.
    """

    ranks: int = 4
    requests: int = 40
    per_iteration: int = 2
    documents: int = 8
    shared: int = 2048
    own: int = 256
    answer: int = 96
    block_size: int = 32
    capacity: int = 640
    host: int = 1024

    def of(self, requests: int) -> "Workload":
        """The same with another number of requests per rank."""
        return msgspec.structs.replace(self, requests=requests)

    def steps(self) -> list[Step]:
        """What every rank runs in every iteration, the same each time."""
        ranks = [self._of_rank(rank) for rank in range(self.ranks)]
        return list(zip(*ranks, strict=True))

    def config(self, algorithm: str) -> CacheConfig:
        """A cache with room for less than all of it."""
        return CacheConfig(
            block_size=self.block_size, capacity=self.capacity, algorithm=algorithm, life_cycles=LIFE_CYCLES
        )

    def _of_rank(self, rank: int) -> list[list[Prompt]]:
        chance = random.Random(rank)
        documents = [self._tokens(chance, self.shared) for _ in range(self.documents)]
        iterations: list[list[Prompt]] = []
        answered: list[Prompt] = []
        for start in range(0, self.requests, self.per_iteration):
            new = [
                [*chance.choice(documents), *self._tokens(chance, self._about(chance, self.own))]
                for _ in range(min(self.per_iteration, self.requests - start))
            ]
            iterations.append([*answered, *new])
            answered = [[*prompt, *self._tokens(chance, self._about(chance, self.answer))] for prompt in new]
        return [*iterations, answered]

    def _about(self, chance: random.Random, length: int) -> int:
        return chance.randrange(length - length // 4, length + length // 4 + 1)

    def _tokens(self, chance: random.Random, length: int) -> list[int]:
        return [chance.randrange(VOCABULARY) for _ in range(length)]


QUICK = Workload(ranks=2, requests=8, documents=4, shared=256, own=64, answer=24, capacity=24, host=16)
