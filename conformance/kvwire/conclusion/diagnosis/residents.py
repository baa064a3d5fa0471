"""What is resident by what was heard, for who shows it and judges nothing: nothing is unknown, only not heard."""

from __future__ import annotations

from collections.abc import Iterator

from kvwire.cache.ledger import Key, Location
from kvwire.judges.facts import cleared_by
from kvwire.wire.events import Event


def location_of(event: Event) -> Location:
    """Where the blocks of an event are."""
    return Location(event.medium, event.group, event.locality, event.ownership)


class Residents:
    """Blocks by location, each with the number of the batch that stored it last."""

    def __init__(self) -> None:
        self.held: dict[Location, dict[int, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.held.values()))

    def take(self, event: Event, number: int) -> list[Key]:
        """Apply an event of a batch; what it ended."""
        match event.kind:
            case "stored":
                self.held.setdefault(location_of(event), {}).update(dict.fromkeys(event.hashes, number))
                return []
            case "removed":
                location = location_of(event)
                blocks = self.held.get(location, {})
                return [Key(location, value) for value in event.hashes if blocks.pop(value, None) is not None]
            case "cleared":
                return list(self._cleared(event))
            case _:
                return []

    def _cleared(self, event: Event) -> Iterator[Key]:
        named = cleared_by(event)
        for location, blocks in self.held.items():
            if named.names(location):
                yield from (Key(location, value) for value in blocks)
                blocks.clear()
