"""A way from a publisher to one client of ours that can be cut, slowed and stopped: loss that is not the publisher's.

It forwards bytes and reads none of them. A connection that is cut loses what is sent until the client is back; one that
is stopped makes the publisher's own buffers fill, until it sheds for this one client.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

CHUNK = 8192
WAITING = 4
"""Chunks that are held per direction: a way that is stopped is soon full."""
END_S = 5.0
"""How long opening and closing may take."""


SETTLE_TURNS = 8
"""Turns of the loop in which what was begun before comes to its end."""


class Relay:
    """Listens on a port of loopback, and joins each connection to one of its own with ``target``.

    ``target`` is an endpoint of ZeroMQ, tcp or ipc; ``endpoint`` is where clients connect instead. Its methods may be
    called from any thread. As a context manager it is closed at the end.
    """

    def __init__(self, target: str) -> None:
        """Open it.

        Raises:
            ValueError: when the endpoint is neither tcp nor ipc.
        """
        scheme, _, self._address = target.partition("://")
        if scheme not in ("tcp", "ipc"):
            raise ValueError(f"{target!r}: only tcp and ipc can be relayed")
        self._tcp = scheme == "tcp"
        self.endpoint = ""
        self.delay_s = 0.0
        """How long everything that the publisher sends is on its way."""
        self.joined = 0
        """Connections that were made so far."""
        self._loop = asyncio.new_event_loop()
        self._running = asyncio.Event()
        self._running.set()
        self._ways: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kvwire-relay", daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._join, "127.0.0.1", 0))
        host, port = self._server.sockets[0].getsockname()
        self.endpoint = f"tcp://{host}:{port}"

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cut(self) -> None:
        """End every connection, on both sides; what was under way is lost. New ones are let through."""
        self._call(self._cut())

    def stop(self) -> None:
        """Let nothing of what the publisher sends through, and keep every connection."""
        self._loop.call_soon_threadsafe(self._running.clear)

    def go(self) -> None:
        """Let it through again."""
        self._loop.call_soon_threadsafe(self._running.set)

    def close(self) -> None:
        """Cut, and listen no more."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_S)
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(END_S)

    # in the thread

    async def _end(self) -> None:
        # A connection that is accepted in the turn in which the server closes is left open by asyncio: accept no more,
        # let what was accepted begin, and only then close.
        for listening in self._server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)
        self._server.close()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)  # a connection that was accepted has to begin before it can be cut
            await self._cut()
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)  # what was aborted is closed in a later turn of the loop

    async def _cut(self) -> None:
        ways = list(self._ways)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it or it is cut."""
        way = asyncio.current_task()
        assert way is not None
        self._ways.add(way)
        writers = [writer]
        writer.transport.set_write_buffer_limits(high=0)  # so that nothing is left here when the publisher ends
        pumps: set[asyncio.Task[None]] = set()
        try:
            there, back = await self._connect()
            writers.append(back)
            self.joined += 1
            pumps = {asyncio.create_task(self._subscriptions(reader, back)), *self._messages(there, writer)}
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.CancelledError):
            pass  # nobody is there, and the client tries again; or it is cut
        finally:
            for open_writer in writers:
                open_writer.transport.abort()
            for pump in pumps:
                pump.cancel()
            self._ways.discard(way)
            closed = (open_writer.wait_closed() for open_writer in writers)
            await asyncio.gather(*pumps, *closed, return_exceptions=True)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._tcp:
            host, _, port = self._address.rpartition(":")
            return await asyncio.open_connection(host.strip("[]"), int(port), limit=CHUNK)
        return await asyncio.open_unix_connection(self._address, limit=CHUNK)

    async def _subscriptions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()

    def _messages(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> set[asyncio.Task[None]]:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING)
        return {asyncio.create_task(_take(reader, waiting)), asyncio.create_task(self._hand_on(waiting, writer))}

    async def _hand_on(self, waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            came, chunk = await waiting.get()
            if not chunk:
                return
            while (early := came + self.delay_s - time.monotonic()) > 0:
                await asyncio.sleep(early)
            await self._running.wait()
            writer.write(chunk)
            await writer.drain()


async def _take(reader: asyncio.StreamReader, waiting: asyncio.Queue[tuple[float, bytes]]) -> None:
    """Chunks with the time at which they came; an empty one at the end, after which this waits to be ended."""
    while True:
        chunk = await reader.read(CHUNK)
        await waiting.put((time.monotonic(), chunk))
        if not chunk:
            await asyncio.Event().wait()
