"""CURVE with an allow-list: who may connect, decided by the client's public key.

CURVE alone encrypts but lets in any key. What keeps strangers out is a ZAP handler (RFC 27) at
`inproc://zeromq.zap.01`, and there is one per context: a server therefore owns its context.
"""

import msgspec
import zmq
from zmq.utils import z85

KEY_BYTES = 32
ZAP_ENDPOINT = "inproc://zeromq.zap.01"
ZAP_VERSION = b"1.0"
ZAP_DOMAIN = b"kvwire"
CURVE = b"CURVE"


class KeyPair(msgspec.Struct, frozen=True):
    """A CURVE key pair, each key in the 40 printable bytes of Z85 (RFC 32)."""

    public: bytes
    secret: bytes

    @classmethod
    def generate(cls) -> "KeyPair":
        """Make a fresh pair."""
        return cls(*zmq.curve_keypair())


class CurveServer(msgspec.Struct, frozen=True):
    """The server's own pair and the public keys (Z85) of those who may connect."""

    keys: KeyPair
    allowed: frozenset[bytes]


def serve_curve(socket: "zmq.Socket[bytes]", server: CurveServer) -> None:
    """Make `socket` a CURVE server; call before binding."""
    socket.set(zmq.CURVE_SERVER, 1)
    socket.set(zmq.CURVE_SECRETKEY, server.keys.secret)
    socket.set(zmq.ZAP_DOMAIN, ZAP_DOMAIN)


def use_curve(socket: "zmq.Socket[bytes]", server_public: bytes, keys: KeyPair) -> None:
    """Let `socket` talk, as `keys`, to the server that owns `server_public`; before connecting."""
    socket.set(zmq.CURVE_SERVERKEY, server_public)
    socket.set(zmq.CURVE_PUBLICKEY, keys.public)
    socket.set(zmq.CURVE_SECRETKEY, keys.secret)


class Gatekeeper:
    """The ZAP handler: answers 200 to a key of the allow-list and 400 to anything else.

    It has no thread: poll `socket` for input and call `answer`. Handshakes wait meanwhile.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", allowed: frozenset[bytes]) -> None:
        self._allowed = allowed
        self.socket = context.socket(zmq.REP)
        self.socket.set(zmq.LINGER, 0)
        self.socket.bind(ZAP_ENDPOINT)

    def answer(self) -> None:
        """Answer one waiting handshake; do nothing if there is none."""
        try:
            request = self.socket.recv_multipart(zmq.DONTWAIT)
        except zmq.Again:
            return
        status, text = (b"200", b"OK") if self._admits(request) else (b"400", b"key not allowed")
        self.socket.send_multipart([ZAP_VERSION, request[1], status, text, b"", b""], zmq.DONTWAIT)

    def _admits(self, request: list[bytes]) -> bool:
        """Whether `[version, id, domain, address, identity, mechanism, key]` names an allowed key."""
        match request:
            case [version, _, domain, _, _, mechanism, key]:
                known = (version, domain, mechanism) == (ZAP_VERSION, ZAP_DOMAIN, CURVE)
                return known and len(key) == KEY_BYTES and z85.encode(key) in self._allowed
            case _:
                return False
