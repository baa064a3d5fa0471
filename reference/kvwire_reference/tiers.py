"""Host memory behind the device: where blocks go that leave it, and from where a later hit brings them back.

With events, a block is announced in the host's medium before its removal from the device is, so that no consumer
takes it for gone in between; coming back, it is announced on the device, and then removed from the host unless a
copy stays. Without events the host does not exist for consumers: the removal from the device is announced, and the
later hit announces the block on the device anew.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from kvwire_reference.radix import Block


class HostConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Host memory for `capacity` blocks, called `medium` in events, which are sent only if `announced`.

    `keeps_copy`: what a hit brings back to the device stays in host memory too.
    """

    capacity: int
    medium: str = "CPU"
    announced: bool = True
    keeps_copy: bool = False


class HostTier:
    """At most `capacity` blocks, by the key of their chain; the longest unused leaves first.

    `removed` is called with each block that leaves for good.
    """

    def __init__(self, capacity: int, removed: Callable[[Block], None]) -> None:
        if capacity < 1:
            raise ValueError(f"host memory holds at least one block, not {capacity}")
        self.capacity = capacity
        self._removed = removed
        self._by_use: OrderedDict[bytes | None, Block] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_use)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._by_use.values())

    def get(self, key: bytes | None) -> Block | None:
        """Return the block of a chain, which stays."""
        return self._by_use.get(key)

    def take(self, block: Block) -> None:
        """Make the room of a block free; `removed` is not called."""
        del self._by_use[block.state.key]

    def put(self, block: Block) -> None:
        """Hold a block, as the one used last."""
        self._by_use[block.state.key] = block
        self._by_use.move_to_end(block.state.key)
        self.evict(len(self) - self.capacity)

    def evict(self, count: int) -> int:
        """Remove up to `count` blocks, the longest unused first; return how many there were to remove."""
        count = min(max(count, 0), len(self))
        for _ in range(count):
            _, block = self._by_use.popitem(last=False)
            self._removed(block)
        return count

    def clear(self) -> None:
        """Forget every block at once, without calling `removed`."""
        self._by_use.clear()
