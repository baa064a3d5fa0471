"""How long the hash functions take per token: token by token, and in batches of 4 KiB."""

import hashlib
import random
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from kvwire_reference.bench.workload import VOCABULARY
from kvwire_reference.hashing import Width, block_key_tokenwise, root_key, v1_chain, v2_chain

Blocks: TypeAlias = Sequence[Sequence[int]]

TOKENS = 65_536
BLOCK_SIZES = (32, 2048)
"""That of the workload, and one that takes more than one batch of 4 KiB."""
WIDTHS: tuple[Width, ...] = (4, 8)


class HashFunction(NamedTuple):
    """`run` hashes one chain of `tokens` tokens in blocks of `block_size`. `name` is `<function>, <way>`."""

    name: str
    block_size: int
    tokens: int
    run: Callable[[], object]

    def measure(self) -> float:
        """Nanoseconds of CPU time per token."""
        begin = time.thread_time_ns()
        self.run()
        return (time.thread_time_ns() - begin) / self.tokens


def hash_functions(tokens: int = TOKENS) -> list[HashFunction]:
    """Every function, every way of it, at every block size. `v1_block_key` cannot be batched: each token needs the
    seed that the one before it left.
    """
    chance = random.Random(0)
    chain = tuple(chance.randrange(VOCABULARY) for _ in range(tokens))
    functions: list[HashFunction] = []
    for size in BLOCK_SIZES:
        blocks = [chain[start : start + size] for start in range(0, tokens, size)]
        functions.append(HashFunction("v1_block_key, token by token", size, tokens, partial(v1_chain, blocks)))
        for width in WIDTHS:
            packed = [struct.pack(f"<{len(block)}{'I' if width == 4 else 'Q'}", *block) for block in blocks]
            functions += [
                HashFunction(f"v2_sha256/u{8 * width}, {way}", size, tokens, run)
                for way, run in (
                    ("token by token", partial(_tokenwise, blocks, width)),
                    ("batches of 4 KiB", partial(v2_chain, blocks, width=width)),
                    ("bytes packed before", partial(_packed, packed)),
                )
            ]
    return functions


def _tokenwise(blocks: Blocks, width: Width) -> bytes:
    key = root_key()
    for block in blocks:
        key = block_key_tokenwise(key, block, width)
    return key


def _packed(blocks: Sequence[bytes]) -> bytes:
    """What SHA-256 itself takes."""
    key = root_key()
    for block in blocks:
        key = hashlib.sha256(key + block).digest()
    return key
