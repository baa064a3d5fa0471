"""What the streams of all targets show together: which fell silent, carry one rank, hash one prompt differently."""

from __future__ import annotations

from collections.abc import Sequence

from kvwire.conclusion.fleet import Fleet, Member
from kvwire.watch.beside import Beside, StreamState
from kvwire.watch.lines import Lines

SETTLE_S = 3.0
"""Streams that fall silent one shortly after the other are told together."""
ROUND_S = 60.0
"""How often each stream is held against the others."""

Key = tuple[str, str]
"""Target and stream."""


class Together:
    """Tells it, once for all of them; O(streams)."""

    def __init__(self, lines: Lines, besides: Sequence[Beside]) -> None:
        self._lines = lines
        self._besides = besides
        self._silent: dict[Key, bool] = {}
        """Those that are silent, and whether that was told."""
        self._grew = 0.0
        self._members: dict[Key, Member] = {}
        self._left: list[tuple[Beside, str]] = []
        """Those that are still to be looked at in this round."""
        self._next = 0.0
        self._told: set[str] = set()

    def look(self, now: float, streams: Sequence[StreamState], *, last: bool = False) -> None:
        """See how all of them stand."""
        self._silences(now, streams, last=last)
        if len(streams) > 1:
            self._compare(now, len(streams))

    def _silences(self, now: float, streams: Sequence[StreamState], *, last: bool) -> None:
        for one in streams:
            key = one.target, one.stream
            if one.silent and key not in self._silent:
                self._silent[key], self._grew = False, now
            elif not one.silent and self._silent.pop(key, False):
                self._lines.tell("heard-again", one.target, one.stream, "within its rhythm")
        if all(self._silent.values()) or not (last or len(streams) == 1 or now - self._grew >= SETTLE_S):
            return
        going = sum(not one.unwell for one in streams)
        for one in streams:
            if self._silent.get((one.target, one.stream), True):
                continue
            self._silent[one.target, one.stream] = True
            if not going:
                alone = len(streams) == 1
                said = one.unwell if alone else "nothing comes, for longer than their own rhythm allows"
                self._lines.tell("silent", one.target, one.stream, said)
            else:
                others = f"{going} other streams go on" if going > 1 else "another stream goes on"
                self._lines.tell("stopped", one.target, one.stream, f"silent beyond the own rhythm, while {others}")

    def _compare(self, now: float, count: int) -> None:
        """Look at one stream, and when the round is over, at all of them."""
        if now < self._next:
            return
        self._next = now + ROUND_S / count
        if not self._left:
            self._tell()
            self._left = [(beside, name) for beside in self._besides for name in beside.streams]
        if not self._left:
            return
        beside, name = self._left.pop()
        if (found := beside.member(name)) is not None:
            self._members[beside.name, name] = found

    def _tell(self) -> None:
        fleet = Fleet()
        for beside in self._besides:
            known = [self._members[key] for name in beside.streams if (key := (beside.name, name)) in self._members]
            fleet.add(known, beside.name if len(self._besides) > 1 else "")
        for notice in fleet.notices():
            if (notice.what == "one-rank" or notice.what == "hashes-differ") and notice.text not in self._told:
                self._told.add(notice.text)
                self._lines.tell(notice.what, "", "", notice.text)
