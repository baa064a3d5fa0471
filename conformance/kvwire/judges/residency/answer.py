"""What an engine says that it holds, location by location."""

from __future__ import annotations

from kvwire.cache.ledger import Location
from kvwire.history.progress import Moment
from kvwire.judges.area import Context
from kvwire.trace.calls import ResidentCall


class Answer:
    """One answer to ``resident``, at the place where the stream stood then.

    ``idle``: the engine was idle, so that no event is under way. Only then can what the stream says be false; that it
    is true shows at any time.
    """

    def __init__(self, context: Context, moment: Moment, call: ResidentCall) -> None:
        self.record = moment.index
        self.idle = moment.idle
        self._alone = len(context.header.streams) == 1
        self._locations = {location for location in context.facts.locations if location.own}
        self._places = call.by_place
        self._hashes = call.held

    @property
    def anything(self) -> bool:
        """Whether the engine, of which one stream speaks, holds something."""
        return self._alone and bool(self._hashes or any((self._places or {}).values()))

    def held(self, location: Location) -> frozenset[int] | None:
        """The hashes that the engine holds in a location; None where the answer does not say.

        It does not of copies of others, nor of several streams. Without places it speaks of all that is announced, and
        then only of a single location.
        """
        if not self._alone or not location.own:
            return None
        if self._places is not None:
            return self._places.get((location.medium, location.group))
        return self._hashes if self._locations <= {location} else None
