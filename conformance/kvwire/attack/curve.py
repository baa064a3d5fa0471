"""Who the harness is to a publisher that asks for CURVE keys.

Keys go to children over their standard input: a command line and an environment can be read by others, and whatever
else is started inherits the latter.
"""

from __future__ import annotations

from typing import IO

import msgspec
import zmq

LINE_BYTES = 1024


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """The publisher's public key and our own pair, in Z85."""

    server: str
    public: str
    secret: str

    def __repr__(self) -> str:
        return f"Curve(server={self.server!r}, public={self.public!r}, secret=…)"

    def use(self, opened: zmq.Socket[bytes]) -> None:
        """Let a socket talk as us; before it connects."""
        opened.set(zmq.CURVE_SERVERKEY, self.server.encode())
        opened.set(zmq.CURVE_PUBLICKEY, self.public.encode())
        opened.set(zmq.CURVE_SECRETKEY, self.secret.encode())


def hand_over(curve: Curve, stdin: IO[bytes]) -> None:
    """Tell a child, first of all."""
    stdin.write(msgspec.json.encode(curve) + b"\n")
    stdin.flush()


def handed_over(stdin: IO[bytes]) -> Curve:
    """What the parent told, in the child."""
    return msgspec.json.decode(stdin.readline(LINE_BYTES), type=Curve)
