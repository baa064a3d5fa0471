"""A replay client in a process of its own, to be killed in the middle of an answer.

``python -m kvwire.attack.probes.kit.killed_client ENDPOINT`` asks for everything, several times over, reads nothing,
says on its standard output when the first message is there, and waits until it is killed or its standard input ends.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress

import zmq

from kvwire.attack.curve import Curve, hand_over, handed_over
from kvwire.attack.holding import HERE
from kvwire.attack.probes.kit.replay_client import start_frame
from kvwire.attack.witness_process import HELD_BYTES, POLL_MS, Monitor, Socket, prepare
from kvwire.standard.statement import Stream

REQUESTS = 8
WITH_KEYS = "--curve"
"""An argument: keys come first on standard input."""
READY = b"ready\n"
READY_S = 10
"""How long it may take from the start of the process to its first message; then it ends by itself."""
END_S = 2.0


def kill_one(stream: Stream, curve: Curve | None = None) -> bool:
    """Start one, and kill it when it is being answered; False when it never was, and ended by itself."""
    assert stream.replay is not None
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, stream.replay, *([] if curve is None else [WITH_KEYS])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,  # out of reach of the terminal's interrupt: it is ended here
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        if curve is not None:
            with suppress(BrokenPipeError):
                hand_over(curve, child.stdin)
        return child.stdout.readline() == READY
    finally:
        child.kill()
        child.wait(END_S)
        child.stdin.close()
        child.stdout.close()


def main() -> None:
    """Run as the child."""
    context: zmq.Context[Socket] = zmq.Context()
    socket = context.socket(zmq.DEALER)
    prepare(socket, sys.argv[1], handed_over(sys.stdin.buffer) if WITH_KEYS in sys.argv else None)
    socket.set(zmq.RCVHWM, 1)
    HERE.most = HELD_BYTES
    monitor = Monitor(socket)
    socket.connect(sys.argv[1])
    for _ in range(REQUESTS):
        socket.send_multipart((b"", start_frame(0)))
    deadline = time.monotonic() + READY_S
    while not (ready := socket.poll(POLL_MS)) and time.monotonic() < deadline:
        monitor.drain()
    if ready:
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        sys.stdin.buffer.read()
    monitor.close()
    context.destroy(linger=0)


if __name__ == "__main__":
    main()
