"""The reference publisher with batches of a size: ``victim BYTES RING RATE``; ends with SIGINT, as ``kvwire serve``."""

from __future__ import annotations

import contextlib
import sys
import time

from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames


class _Large(ZmqPublisher):
    """Its payloads have something behind the batch, which its listener here does not read."""

    padding = b""

    def _frames(self, number: int, payload: bytes) -> Frames:
        topic, sequence, body = super()._frames(number, payload)
        return topic, sequence, body + self.padding


def main() -> None:
    """Publish until stopped."""
    from kvwire_reference.wire import Batch

    size, ring, rate = map(int, sys.argv[1:])
    config = PublisherConfig(
        endpoint="tcp://127.0.0.1:0",
        replay_endpoint="tcp://127.0.0.1:0",
        topic="kv-events",
        ring=ring,
        send_mark=4 * ring,
        ephemeral=True,
    )
    _Large.padding = bytes(size)
    with _Large(config) as publisher, contextlib.suppress(KeyboardInterrupt):
        print(f"kvwire check 'zmq:{publisher.endpoint}?topic=kv-events&replay={publisher.replay_endpoint}'", flush=True)
        while True:
            publisher.publish(Batch(time.time(), (), 0))
            time.sleep(1 / rate)


if __name__ == "__main__":
    main()
