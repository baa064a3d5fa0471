"""Many blocks side by side have the hashes of the plain function."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from kvwire.hashes.columns import ROWS, Columns
from kvwire_reference.hashing import v1_block_hash


@pytest.mark.parametrize(("size", "count"), [(1, 3), (16, 40), (17, 5), (128, 9), (4, ROWS + 3)])
def test_every_block_has_the_hash_of_the_plain_function(size: int, count: int) -> None:
    rng = random.Random(size)
    blocks = [[rng.randrange(2**32) for _ in range(size)] for _ in range(count)]
    parents = [rng.choice((0, rng.getrandbits(64))) for _ in range(count)]
    data = b"".join(struct.pack(f"<{size}I", *block) for block in blocks)
    columns = Columns(size)
    for _ in range(2):  # the room is used again
        found = columns.hashes(data, np.array(parents, np.uint64))
        shown = range(0, count, max(1, count // 200))
        assert [int(found[at]) for at in shown] == [v1_block_hash(blocks[at], parent=parents[at]) for at in shown]
