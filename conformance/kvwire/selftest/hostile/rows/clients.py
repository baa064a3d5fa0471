"""Clients of the reference publisher that mean harm.

Beside each, a subscriber of ours hears the publisher that is attacked and, as the control, one of its kind that is not.
There is no hole, and no batch comes later than the reference declares, what the control's came late not counted, nor
most of it on a machine that has more to do than it can. While the attack goes on, a client of ours asks replay and is
answered.
"""

from __future__ import annotations

import re
import signal
import statistics
import struct
import sys
import time
from collections.abc import Callable, Sequence

import msgspec
import zmq

from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile.bench import KVWIRE, PACKAGE, STARVED, Attack, Bench, Broken, Ran, Running, starved
from kvwire.standard.statement import Bounds
from kvwire.wire.framing import END_SEQUENCE

RATE = 100
ATTACKED_S = 5.0
STARTS_S = 30
ANSWER_S, ANSWERS = 4.0, 3
"""How long an answer is awaited, and how often one is asked for."""
PLACES = re.compile(r"zmq:(\S+)\?topic=\S+&replay=([^'\s]+)")
Socket = zmq.Socket[bytes]


class _Stream:
    """What a subscriber heard of a publisher: delays in seconds, and how many numbers were missing."""

    def __init__(self, context: zmq.Context[Socket], endpoint: str) -> None:
        self.delays: list[float] = []
        self.missing = 0
        self._last: int | None = None
        self.socket = context.socket(zmq.SUB)
        self.socket.set(zmq.RCVHWM, 0)
        self.socket.subscribe(b"")
        self.socket.connect(endpoint)

    def take(self) -> None:
        """What is there."""
        while self.socket.poll(0):
            _, number, payload = self.socket.recv_multipart()
            self._take(int.from_bytes(number, "big"), struct.unpack_from(">d", payload, 2)[0])

    def _take(self, number: int, ts: float) -> None:
        self.delays.append(time.time() - ts)
        if self._last is not None and number > self._last + 1:
            self.missing += number - self._last - 1
        self._last = number


def _hear(streams: Sequence[_Stream], seconds: float) -> None:
    """Hear streams at once, from now on."""
    for stream in streams:
        stream.take()
        stream.delays.clear()
    poller = zmq.Poller()
    for stream in streams:
        poller.register(stream.socket, zmq.POLLIN)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        poller.poll(max(1, int(left * 1000)))
        for stream in streams:
            stream.take()


def _answered(context: zmq.Context[Socket], replay: str) -> bool:
    """Whether a client that asks gets an answer to its end, in a few attempts."""
    for _ in range(ANSWERS):
        with context.socket(zmq.DEALER) as dealer:
            dealer.set(zmq.LINGER, 0)
            dealer.connect(replay)
            dealer.send_multipart((b"", bytes(8)))
            deadline = time.monotonic() + ANSWER_S
            while dealer.poll(max(0, int(1000 * (deadline - time.monotonic())))):
                if dealer.recv_multipart()[2] == END_SEQUENCE:
                    return True
    return False


def _attacked(bench: Bench, kind: str, running: Running, said: list[str], *, answered: bool) -> None:
    """What is heard of a publisher under attack.

    Raises:
        Broken: for a hole, a late batch, or a client that is not answered.
    """
    running.await_output("kvwire check")
    found, beside = (
        PLACES.search(text) for text in (running.output, bench.peer("victim", 0, 100, RATE, ready="kvwire"))
    )
    assert found is not None
    assert beside is not None
    context: zmq.Context[Socket] = zmq.Context()
    try:
        attacked, control = (_Stream(context, place[1]) for place in (found, beside))
        if not all(stream.socket.poll(1000 * STARTS_S) for stream in (attacked, control)):
            raise Broken("a publisher was not heard before the attack")
        bench.peer("client", kind, *found.groups())
        _hear((attacked, control), ATTACKED_S)
        right = not answered or _answered(context, found[2])
        attacked.take()
        bound = Bounds().live_delay_s * (STARVED if starved() else 1)
        if min(len(attacked.delays), len(control.delays)) < 2:
            raise Broken("the live stream stood still")
        worst, usual = max(attacked.delays), max(control.delays)
        medians = statistics.median(attacked.delays), statistics.median(control.delays)
        said.append(f"{attacked.missing or 'no'} hole; delay {_ms(*medians)}, at worst {_ms(worst, usual)}")
        if attacked.missing:
            raise Broken(f"{attacked.missing} batches were missing live")
        if worst > bound + usual:
            raise Broken(f"a batch came {worst:.2f} s late, the control {usual:.2f} s")
        if not right:
            raise Broken("a client that asked for replay got no answer")
    finally:
        context.destroy(linger=0)
        running.signal(signal.SIGINT)


def _ms(seconds: float, control: float) -> str:
    return f"{1000 * seconds:.2f} ms ({seconds / control:.1f} times the control's)"


def _serve(kind: str, *, answered: bool = True) -> Callable[[Bench], Ran]:
    def run(bench: Bench) -> Ran:
        live, replay = (f"tcp://127.0.0.1:{bench.port()}" for _ in range(2))
        command = [*KVWIRE, "serve", "--endpoint", live, "--replay", replay, "--rate", str(RATE)]
        return _run(bench, command, kind, answered=answered)

    return run


def _victim(kind: str, size: int, ring: int, rate: int) -> Callable[[Bench], Ran]:
    command = [sys.executable, "-P", "-m", f"{PACKAGE}.victim", *map(str, (size, ring, rate))]
    return lambda bench: _run(bench, command, kind, answered=True)


def _run(bench: Bench, command: list[str], kind: str, *, answered: bool) -> Ran:
    said: list[str] = []
    ran = bench.run(command, during=lambda running: _attacked(bench, kind, running, said, answered=answered))
    return msgspec.structs.replace(ran, output=ran.output + "; ".join(said))


def _attack(kind: str, does: str, **fields: object) -> Attack:
    made = {
        "name": f"client-{kind}",
        "on": "client",
        "does": does,
        "run": _serve(kind),
        "exits": (Exit.CONFORMANT,),
        "says": "no hole",
        "megabytes": 256,
        **fields,
    }
    return Attack(**made)  # type: ignore[arg-type]


ATTACKS = (
    _attack("endless-request", "a request of frames of 60 kB that never ends, again and again", quick=True),
    _attack("endless-empty", "a request of empty frames that never ends"),
    _attack("endless-upstream", "a message without end to the live socket"),
    _attack("garbage-upstream", "messages of 60 kB to the live socket, which reads none"),
    _attack("subscriptions", "subscriptions by the hundred thousand, of the costliest shape", quick=True),
    _attack("large-subscriptions", "subscriptions of topics of 1 MB, none like another"),
    _attack("strange", "requests of 1 to 20 frames, clients with names of 60 kB, mechanisms that nobody speaks"),
    _attack("malformed", "four clients send malformed requests as fast as they are taken"),
    _attack("requests", "eight clients ask for everything as fast as they are taken"),
    _attack("vanishing", "clients by the thousand ask and vanish"),
    _attack("unread-answers", "100 clients ask and read nothing"),
    _attack(
        "unread-answers",
        "100 clients ask and read nothing; batches of 1 MB, a ring of 64",
        name="client-unread-answers-1mb",
        run=_victim("unread-answers", 1_000_000, 64, 20),
        megabytes=512,
    ),
    _attack("unread-stream", "200 subscribers read nothing"),
    _attack("giants", "frames of 2^62 bytes are announced"),
    _attack("silent", "connections without a word, by the thousand"),
    _attack("half-greetings", "connections with half a greeting, by the thousand"),
    _attack("junk", "HTTP, TLS and noise"),
    _attack(
        "crowd",
        "connections with whole handshakes, by the thousand, all kept",
        run=_serve("crowd", answered=False),
        argued="whoever comes later finds no place; who is connected keeps it. CURVE tells clients apart.",
    ),
)
