"""Other instances of a publisher in a story: what was asked of them, what they sent, and what was looked at."""

from __future__ import annotations

from typing import Any, Literal

from tests.kit.stories import Event, Story, number_frame, payload

from kvwire.trace.attempts import ATTEMPTS
from kvwire.trace.calls import BoundAt, CacheCall, PublishCall, StartCall
from kvwire.trace.detail import Detail
from kvwire.trace.marks import EndpointSeen, Looked, Reach
from kvwire.trace.records import Source
from kvwire.wire.projection import batch_projection

EVENTS = "tcp://127.0.0.1:25557"
"""A sound endpoint."""
ROOM = "ipc:///tmp/kvwire-room/"


class Instance:
    """Writes the records of one instance into a story, in the order of its calls."""

    def __init__(self, story: Story, name: str = "instance-1") -> None:
        self.story = story
        self.name = name

    def record(self, source: str, **fields: Any) -> int:
        return self.story.write(source, self.name, **fields)

    def note(self, detail: Detail) -> int:
        return self.record(detail.SOURCE, detail=detail)

    # what the harness asks for, and looks at

    def accepts(
        self,
        endpoint: str | None = EVENTS,
        bound: str | None = None,
        *,
        mode: Literal["connect", "bind"] = "connect",
        **asked: Any,
    ) -> Instance:
        """A `start` that was accepted; bound where it was asked for unless told otherwise."""
        replay = asked.pop("replayed", asked.get("replay"))
        place = bound or endpoint
        assert place is not None
        said = BoundAt(endpoint=place, replay=None if replay == "none" else replay, mode=mode)
        self.note(StartCall(endpoint=endpoint, **asked, bound=said))
        return self

    def refuses(self, text: str, endpoint: str = EVENTS, **asked: Any) -> Instance:
        """A `start` that was refused."""
        self.note(StartCall(endpoint=endpoint, **asked, refused=text))
        return self

    def reached(
        self, *endpoints: str, outcome: Literal["handshake", "none"] = "handshake", attempts: int = ATTEMPTS
    ) -> Instance:
        """Clients of ours knocked, again and again where nobody answered."""
        for endpoint in endpoints * (1 if outcome == "handshake" else attempts):
            self.note(Reach(endpoint=endpoint, socket="SUB", outcome=outcome, bound_s=2.0))
        return self

    def looked(self, *, changed: bool) -> Instance:
        """The private directory was looked at."""
        self.note(Looked(changed=changed))
        return self

    def place(self, endpoint: str, **shown: Any) -> Instance:
        """Who can come to an endpoint."""
        self.note(EndpointSeen(endpoint=endpoint, **shown))
        return self

    # what it does

    def cache(self, *tokens: int) -> Instance:
        """It took a prompt."""
        self.note(CacheCall(tokens=tokens, cached_tokens=0))
        return self

    def takes(self, *events: Event, accepted: bool = True) -> Instance:
        """It was offered a batch."""
        self.note(PublishCall(batch=batch_projection(self.story.tick(), events, 0), accepted=accepted))
        return self

    def sends(self, number: int, *events: Event, rank: int | None = 0) -> Instance:
        """It sent a batch, and our subscriber heard it."""
        content = payload(*events, ts=self.story.tick(), rank=rank)
        self.record(Source.LIVE_A, frames=(b"kv", number_frame(number), content))
        return self
