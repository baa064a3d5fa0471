"""What stands announced on the driven stream, as one witness saw it: only to know when to stop waiting."""

from __future__ import annotations

from kvwire.attack.probes.kit.session import Session
from kvwire.wire.dialect import read
from kvwire.wire.events import Event
from kvwire.wire.framing import split_live

Place = tuple[str | None, int]
"""Medium and group."""


class Announced:
    """Follows one witness of the driven stream."""

    def __init__(self, session: Session) -> None:
        self._records = session.recorder.records
        self._stream = session.driven.name
        self._source = next(iter(session.recorder.witnesses(self._stream)), None)
        self._read = 0
        self.places: set[Place] = set()
        """Where blocks were stored."""
        self.held: set[tuple[Place, int]] = set()
        self.ended: set[tuple[Place, int]] = set()
        """What clears ended and was not stored again."""
        self.emptied = 0
        """How often it became empty."""

    def follow(self) -> Announced:
        """Read what is new."""
        for record in self._records[self._read :]:
            if record.source == self._source and record.stream == self._stream and record.frames is not None:
                parts = split_live(record.frames)
                if parts is not None:
                    for event in read(parts[1]).events:
                        self._apply(event)
        self._read = len(self._records)
        return self

    def _apply(self, event: Event) -> None:
        place = (event.medium, event.group)
        keys = {(place, value) for value in event.hashes}
        if event.kind == "stored":
            self.held |= keys
            self.ended -= keys
            self.places.add(place)
        elif event.kind == "cleared":
            named = {"medium", "ownership"} & event.keys
            left = {key for key in self.held if named and key[0][0] != event.medium}
            self.ended |= self.held - left
            self.held = left
            self.emptied += not self.held
        elif event.kind == "removed" and self.held:
            self.held -= keys
            self.emptied += not self.held
