"""Captures of what really goes over loopback: by tcpdump, or by a raw socket of this process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from tests.kit.needs import needs_program
from tests.kit.packets import Kept, pcap

Way = Literal["tcpdump", "raw-socket"]
BOUND_S = 10.0
ETHERNET, OUTGOING, EVERYTHING = 1, 4, 0x0003


def may_capture() -> None:
    """Skip the test where the system does not let this user see packets: no installation gives the right."""
    try:
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    except (AttributeError, OSError) as error:
        pytest.skip(f"packets cannot be captured here: {error}")
    raw.close()


@contextlib.contextmanager
def capturing(way: Way, path: Path) -> Iterator[None]:
    """Inside, all of loopback is captured into a file; at the end everything before it stands there."""
    may_capture()
    with _by_tcpdump(path) if way == "tcpdump" else _by_raw_socket(path):
        _await_mark(path)
        yield
        _await_mark(path)


def _await_mark(path: Path) -> None:
    """Send a packet and wait until the capture has it, and so what came before."""
    mark = os.urandom(16)
    deadline = time.monotonic() + BOUND_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        sender.sendto(mark, sender.getsockname())
    while mark not in path.read_bytes():
        assert time.monotonic() < deadline, "the capture does not show a packet that was sent"
        time.sleep(0.05)


@contextlib.contextmanager
def _by_tcpdump(path: Path) -> Iterator[None]:
    program = needs_program("tcpdump")
    user = ["-Z", "root"] if os.geteuid() == 0 else []
    command = [program, "-i", "lo", "-s", "0", "-U", "--immediate-mode", "-B", "65536", *user, "-w", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = next((line for line in process.stderr if "listening on" in line), None)
            assert said is not None, "tcpdump ended by itself"
            yield
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=BOUND_S)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def _by_raw_socket(path: Path) -> Iterator[None]:
    over = threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING)) as raw, path.open("wb") as out:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        raw.bind(("lo", EVERYTHING))
        raw.settimeout(0.1)
        out.write(pcap([]))
        empty = len(pcap([]))

        def take() -> None:
            while not over.is_set():
                try:
                    data, address = raw.recvfrom(1 << 18)
                except TimeoutError:
                    continue
                if address[2] != OUTGOING:
                    out.write(pcap([Kept(time.time_ns(), data, len(data))])[empty:])
                    out.flush()

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(BOUND_S)
