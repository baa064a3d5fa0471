"""What a record without frames tells: its kinds are structs, each of one event from one source.

In the file the event stands beside the fields, which are an object named ``detail``. A field that is None was not said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec


class Detail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of all kinds. ``SOURCE`` and ``EVENT`` are what the record of a kind says of itself."""

    SOURCE: ClassVar[str] = ""
    EVENT: ClassVar[str] = ""

    @property
    def event(self) -> str:
        """The name of the event."""
        return self.EVENT

    @property
    def fields(self) -> object:
        """What stands in the file as ``detail``."""
        return self


class Stimulus(Detail, frozen=True, kw_only=True):
    """Something that the harness did to a publisher or awaited of it.

    ``must_survive``: the requirements that a target breaks which dies of it.
    """

    SOURCE: ClassVar[str] = "stimulus"

    must_survive: tuple[str, ...] = ()


class SocketEvent(Detail, frozen=True, kw_only=True):
    """What the monitor of a socket of ours said, in libzmq's words; ``of`` is the source that the socket feeds."""

    SOURCE: ClassVar[str] = "monitor"

    event: str
    of: str = "live-a"

    @property
    def fields(self) -> object:
        """The event's name stands outside."""
        return {"of": self.of}


class UnknownDetail(Detail, frozen=True, kw_only=True):
    """A kind that this harness does not know, as it stands in the file. Nothing is concluded from it."""

    event: str
    raw: Mapping[str, Any]

    @property
    def fields(self) -> object:
        """As they were."""
        return self.raw
