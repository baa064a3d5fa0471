"""CURVE with an allow-list: who may connect, decided by the client's public key.

CURVE alone encrypts but lets in any key. What keeps strangers out is a ZAP handler (RFC 27) at
`inproc://zeromq.zap.01`, and there is one per context: a server therefore owns its context.

Keys are 32 bytes, written in the 40 printable ones of Z85 (RFC 32). Files of keys are those of `zmq.auth`
(`create_certificates`): lines `public-key = "…"` and `secret-key = "…"`. An allow-list has a public key a line; what
stands behind a `#` that begins a line, or behind a blank, is for people.
"""

import re
import struct
from pathlib import Path

import msgspec
import zmq
from zmq.utils import z85

KEY_BYTES = 32
KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()[\]{}@%$#]{40}")
FILE_BYTES = 65536
"""No file of keys is longer; an allow-list of that size has 1,500."""
ZAP_ENDPOINT = "inproc://zeromq.zap.01"
ZAP_VERSION = b"1.0"
ZAP_DOMAIN = b"kvwire"
CURVE = b"CURVE"


class CurveKeyError(ValueError):
    """A key or a file of keys cannot be used; the message names file and line, and never the key."""


class KeyPair(msgspec.Struct, frozen=True):
    """A CURVE key pair, each key in the 40 printable bytes of Z85 (RFC 32)."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r}, secret=…)"

    @classmethod
    def generate(cls) -> "KeyPair":
        """Make a fresh pair."""
        return cls(*zmq.curve_keypair())

    @classmethod
    def of_secret(cls, secret: bytes, where: str) -> "KeyPair":
        """The pair of a secret key; raises `CurveKeyError`, which begins with `where`, for what is none."""
        if not is_key(secret):
            raise CurveKeyError(f"{where}: the secret key is not 40 characters of Z85")
        return cls(zmq.curve_public(secret), secret)

    @classmethod
    def read(cls, path: Path) -> "KeyPair":
        """The pair in a file that has both keys; raises `CurveKeyError`."""
        found = _keys(path)
        if "secret" not in found:
            raise CurveKeyError(f'{path}: no line `secret-key = "…"`; the file of a pair ends in .key_secret')
        pair = cls.of_secret(found["secret"], str(path))
        if found.get("public", pair.public) != pair.public:
            raise CurveKeyError(f"{path}: the two keys are not of one pair")
        return pair


class CurveServer(msgspec.Struct, frozen=True):
    """The server's own pair and the public keys (Z85) of those who may connect; raises `CurveKeyError` for others."""

    keys: KeyPair
    allowed: frozenset[bytes]

    def __post_init__(self) -> None:
        if wrong := [key for key in self.allowed if not is_key(key)]:
            raise CurveKeyError(f"{len(wrong)} of the allowed keys are not 40 characters of Z85, of 32 bytes")


def is_key(key: bytes) -> bool:
    """Whether this is a key in Z85."""
    if KEY.fullmatch(key.decode("latin-1")) is None:
        return False
    try:
        return len(z85.decode(key)) == KEY_BYTES
    except (ValueError, struct.error):
        return False


def read_public(path: Path) -> bytes:
    """The public key in a file; raises `CurveKeyError`."""
    found = _keys(path)
    if "public" not in found or not is_key(found["public"]):
        raise CurveKeyError(f'{path}: no line `public-key = "…"` with 40 characters of Z85')
    return found["public"]


def read_allowed(path: Path) -> frozenset[bytes]:
    """The keys of an allow-list; raises `CurveKeyError` for a line that is none."""
    allowed = set()
    for number, line in enumerate(_text(path).splitlines(), 1):
        words = line.split(maxsplit=1)
        if not words or (words[0].startswith("#") and not is_key(words[0].encode())):
            continue
        if not is_key(words[0].encode()):
            raise CurveKeyError(f"{path}, line {number}: {len(words[0])} characters, a public key has 40 of Z85")
        allowed.add(words[0].encode())
    if not allowed:
        raise CurveKeyError(f"{path}: it allows nobody; write a public key a line")
    return frozenset(allowed)


def _keys(path: Path) -> dict[str, bytes]:
    pattern = re.compile(r"^\s*(public|secret)-key\s*=\s*\"([^\"]*)\"\s*$", re.MULTILINE)
    return {name: key.encode() for name, key in pattern.findall(_text(path))}


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise CurveKeyError(f"{path}: {error.strerror}") from None
    if len(raw) > FILE_BYTES:
        raise CurveKeyError(f"{path}: more than {FILE_BYTES} bytes; it is no file of keys")
    return raw.decode("ascii", "replace")


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
