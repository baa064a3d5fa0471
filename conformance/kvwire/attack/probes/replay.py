"""Replay requests, well-formed and not, each from a client of its own (spec/replay.md)."""

from __future__ import annotations

from kvwire.attack.probes.kit.replay_client import Client, ReplayClients, start_frame
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.standard.statement import Stream

FUTURE = 2**32
"""How far above the newest number a start in the future lies."""
LAST = 2**64 - 1
"""The highest start there is; as a number it is reserved."""
SURVIVE = "KVW-REP-007"
ENOUGH = 3
"""After so many requests in vain no more are malformed: a publisher that stays silent costs time."""

MALFORMED: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("frames-no-delimiter", (start_frame(0),)),
    ("delimiter-filled", (b"filled", start_frame(0))),
    ("start-0-bytes", (b"", b"")),
    ("frames-two-starts", (b"", start_frame(0), start_frame(0))),
    ("frames-empty-message", (b"",)),
    ("frames-twenty", (b"", *[start_frame(0)] * 19)),
    ("start-1-byte", (b"", bytes(1))),
    ("start-7-bytes", (b"", bytes(7))),
    ("start-9-bytes", (b"", bytes(9))),
    ("start-1000-bytes", (b"", bytes(1000))),
)
"""Requests that are not well-formed, by what is wrong; whoever overlooks it reads 0, and answers with everything."""


def starts(replays: ReplayClients, stream: Stream) -> bool:
    """Ask from 0, the middle, the newest, the future and the last; False when nobody is there to be asked."""
    first = replays.ask(stream, 0)
    if first.outcome == "unreachable":
        return False
    live = replays.session.recorder.newest(stream.name)
    oldest = first.numbers[0] if first.numbers else 0
    newest = max([*first.numbers[-1:], *([] if live is None else [live])], default=0)
    for start in ((oldest + newest) // 2, newest, newest + FUTURE, LAST):
        replays.ask(stream, start)
    return True


def malformed(replays: ReplayClients, stream: Stream) -> None:
    """Ask wrongly in every way, and after each time rightly, on another connection; then await the wrong ones.

    What is sent behind them on their own connections is well-formed too, and has to be served.
    """
    newest = replays.session.recorder.newest(stream.name) or 0
    wrong: list[Client] = []
    silent = 0
    for kind, frames in MALFORMED:
        client = replays.connect(stream)
        if replays.send(client, kind, frames).outcome is None:
            wrong.append(client)
        silent += replays.ask(stream, newest).outcome == "timeout"
        if silent == ENOUGH:
            break
    replays.await_read(wrong, newest + FUTURE)


def run(session: Session) -> None:
    """Every stream that has a replay endpoint."""
    for stream in session.streams:
        if stream.replay is None:
            continue
        with ReplayClients(session) as replays:
            if starts(replays, stream):
                malformed(replays, stream)


PROBE = Probe(
    name="replay",
    mode="quick",
    run=run,
    needs=frozenset({"replayable"}),
    serves="SEQ-001 SEQ-008 REP EVT-017 CHN HSH RES",  # what is resident is known where the beginning is replayed
    must_survive=(SURVIVE,),
    bounds="an answer is over at its end marker, after replay_messages, or after replay_s without a message; "
    "what comes later is heard for late_s",
)
