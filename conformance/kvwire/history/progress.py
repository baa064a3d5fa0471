"""How far the live stream had come when something was done to its publisher.

Numbers tell, not records: a batch that one witness lost and another delivers late stands where its number is.
"""

from __future__ import annotations

from collections import deque

import msgspec

from kvwire.history.timeline import DISCONNECTED, Timeline
from kvwire.trace.attempts import NEVER, NS, Stalls
from kvwire.trace.calls import ASKING, REPLACING, Call, StatsCall
from kvwire.trace.detail import SocketEvent, Stimulus
from kvwire.trace.marks import Settled
from kvwire.trace.records import LIVE, Record, Records

Place = tuple[int, int]
"""Incarnation and number."""
BEGIN: Place = (-1, -1)
"""Before every place."""
END: Place = (2**63, 0)
"""Behind every place."""


class Moment(msgspec.Struct, frozen=True):
    """Something that was done to the publisher, and the newest batch that had been heard by then.

    ``known``: its place is certain. It is not before the first batch, nor when another life began since, or can have,
    as every witness was cut off: then ``place`` is that of the stimulus before. ``drained``: the publisher had counted
    no more offers than were heard. ``idle``: and it had been idle for the declared bound (spec/README.md, Terms), and
    was asked to do nothing since.
    """

    index: int
    stimulus: Stimulus
    place: Place
    known: bool
    drained: bool
    idle: bool = False


def moments(records: Records, timeline: Timeline, stalls: Stalls = NEVER, idle_s: float = 0.0) -> tuple[Moment, ...]:
    """The stimuli of a stream in order; so are their places. To be idle takes ``idle_s`` in which nobody is held up."""
    live = deque(
        sorted(
            (batch.live, (life.index, batch.number))
            for life in timeline.incarnations
            for batch in life.batches
            if batch.live is not None
        )
    )
    heard, replaced, offered = -1, -1, 0
    newest = place = BEGIN
    idle = -1
    """The record since which it is idle; -1: it is not."""
    cut = {seen.source: -1 for seen in timeline.live}
    """When the connection of each witness ended last, or came back: until then the old one's messages are read."""
    found: list[Moment] = []
    for index, record in records:
        stimulus = record.detail
        if isinstance(stimulus, SocketEvent):
            if stimulus.of in LIVE and (stimulus.event == DISCONNECTED or cut.setdefault(stimulus.of, -1) >= 0):
                cut[stimulus.of] = index
            continue
        if not isinstance(stimulus, Stimulus):
            continue
        while live and live[0][0] < index:
            heard, at = live.popleft()
            newest = max(newest, at)
        gone = min(cut.values(), default=-1)
        if gone > heard:
            replaced = max(replaced, heard)
        if gone > idle:
            idle = -1
        known = heard > replaced
        place = newest if known else place
        drained = known and place[1] + 1 >= offered
        found.append(Moment(index, stimulus, place, known, drained, drained and idle >= 0))
        match stimulus:
            case Settled():
                settled = stimulus.drained and stimulus.idle and _long_enough(stimulus, record, stalls, idle_s)
                idle = index if settled else -1
            case Call() if not isinstance(stimulus, ASKING):
                idle = -1
        match stimulus:
            case StatsCall(succeeded=True, offered=int(count)):
                offered = count
        if isinstance(stimulus, REPLACING):
            replaced = index
    return tuple(found)


def _long_enough(settled: Settled, record: Record, stalls: Stalls, idle_s: float) -> bool:
    """Whether what was idle was so for long enough without the times for which something was held up."""
    if settled.idle_s is None:
        return True
    wait = stalls.wait(record, settled.idle_s)
    return wait.ended_ns - wait.began_ns - wait.held_ns >= idle_s * NS
