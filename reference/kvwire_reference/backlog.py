"""What waits to be sent: batches and their numbers, put by whoever publishes and taken by one thread."""

from collections import deque

from kvwire_reference.wire import Batch


class Backlog(deque[Batch]):
    """Batches with their numbers, first in, first out.

    Putting a batch whose number follows that of the one before it allocates nothing, so that a caller seldom waits for
    memory: a number is written down only where it jumps, behind what was dropped. Whoever puts holds a lock; the one
    thread that takes needs none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._jumps: deque[tuple[int, int]] = deque()
        """Of each batch that does not follow the one put before it, the number that would have, and its own."""
        self._next_put = self._next_taken = 0

    def put(self, number: int, batch: Batch) -> None:
        """Add a batch at the end."""
        if number != self._next_put:
            self._jumps.append((self._next_put, number))
        self._next_put = number + 1
        self.append(batch)

    def head(self) -> tuple[int, Batch]:
        """What `take` returns next; raises `IndexError` when nothing waits."""
        batch, number = self[0], self._next_taken
        if self._jumps and self._jumps[0][0] == number:
            number = self._jumps[0][1]
        return number, batch

    def take(self) -> tuple[int, Batch]:
        """Remove the oldest batch; raises `IndexError` when nothing waits."""
        batch, number = self.popleft(), self._next_taken
        if self._jumps and self._jumps[0][0] == number:
            _, number = self._jumps.popleft()
        self._next_taken = number + 1
        return number, batch
