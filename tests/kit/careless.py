"""A publisher whose replay socket has no options, and which hands a whole answer to it at once: ``python careless.py``.

What does not fit into a client's pipe is discarded by ZeroMQ, and the publisher goes on as if nothing had happened.
Live batches wait meanwhile; it promises that they do not wait for long.
"""

from __future__ import annotations

import msgspec
import zmq

from kvwire.peers.adapter import Peer, serve
from kvwire.peers.mutant import Serving
from kvwire_reference.publisher import PublisherConfig
from kvwire_reference.replay import ReplayServer
from kvwire_reference.wire import replay_end_frames

DEFAULT_MARK = 1000


class AtOnce(ReplayServer):
    """Answers a request while it takes it in."""

    def _admit(self, identity: bytes, start: int) -> None:
        for entry in self._ring._entries:
            if entry.number >= start:
                self.router.send_multipart([identity, b"", *entry.frames])
        self.router.send_multipart([identity, *replay_end_frames()])


class Careless(Serving):
    """The publisher around it."""

    def __init__(self, config: PublisherConfig) -> None:
        limits = msgspec.structs.replace(config.replay_limits, send_mark=DEFAULT_MARK)
        super().__init__(AtOnce, msgspec.structs.replace(config, replay_limits=limits))

    def _open_replay(self) -> ReplayServer:
        server = super()._open_replay()
        server.router.set(zmq.ROUTER_MANDATORY, 0)
        return server


if __name__ == "__main__":
    serve(Peer(name="careless", make_publisher=Careless, statement={"bounds": {"live_delay_s": 0.1}}))
