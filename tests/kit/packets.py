"""Packet captures made in tests: ZMTP on TCP connections, packed into IP, link layers and files.

A ``Dialogue`` is one TCP connection: what its ends say becomes segments, in the order of the wire. They can be cut,
copied, dropped and put into another order before they are packed.
"""

from __future__ import annotations

import ipaddress
import itertools
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from tests.kit.stories import number_frame

from kvwire.trace.captures.layers import ACK, FIN, RST, SYN
from kvwire.wire.framing import END_SEQUENCE

PSH = 8
T0_NS = 1_735_689_600 * 10**9
STEP_NS = 1_000_000
"""Between two packets of a capture, unless told otherwise."""
LONGEST = 60_000
"""Bytes of a segment, as they are captured where the card cuts them."""
PUBLISHER = "10.0.0.5"
SUBSCRIBER = "10.0.0.9"
LIVE_PORT, REPLAY_PORT = 5557, 5657

Link = Literal["ethernet", "vlan", "sll", "sll-vlan", "sll2", "null", "loop", "raw"]
LINKS: dict[Link, int] = {"ethernet": 1, "vlan": 1, "sll": 113, "sll-vlan": 113, "sll2": 276}
LINKS |= {"null": 0, "loop": 108, "raw": 101}


class Piece(msgspec.Struct, frozen=True):
    """One TCP segment of a dialogue; ``down``: from the end that was dialled to the one that dialled."""

    dialogue: Dialogue
    down: bool
    seq: int
    ack: int
    flags: int
    data: bytes = b""
    t_ns: int | None = None

    def cut(self, *at: int) -> list[Piece]:
        """The same bytes in several segments, cut at these places."""
        edges = [0, *sorted(at), len(self.data)]
        pieces = [(begin, self.data[begin:end]) for begin, end in itertools.pairwise(edges) if begin < end]
        return [msgspec.structs.replace(self, seq=(self.seq + begin) % 2**32, data=data) for begin, data in pieces] or [
            self
        ]


class Dialogue:
    """One TCP connection from ``dials`` to ``listens``; ``pieces`` are its segments so far."""

    def __init__(
        self,
        *,
        listens: tuple[str, int] = (PUBLISHER, LIVE_PORT),
        dials: tuple[str, int] = (SUBSCRIBER, 40000),
        isns: tuple[int, int] | None = None,
        minor: int = 1,
    ) -> None:
        self.listens = listens
        self.dials = dials
        self.minor = minor
        self.pieces: list[Piece] = []
        self._seq = list(isns or (dials[1] * listens[1], dials[1] + listens[1]))

    def _put(self, *, down: bool, flags: int, data: bytes = b"") -> Piece:
        seq, ack = self._seq[down], self._seq[not down]
        piece = Piece(self, down, seq, ack if flags & ACK else 0, flags, data)
        self._seq[down] = (seq + len(data) + bool(flags & (SYN | FIN))) % 2**32
        self.pieces.append(piece)
        return piece

    def shake(self) -> Dialogue:
        """SYN, SYN and ACK, ACK."""
        self._put(down=False, flags=SYN)
        self._put(down=True, flags=SYN | ACK)
        self._put(down=False, flags=ACK)
        return self

    def up(self, *data: bytes) -> Dialogue:
        """The end that dialled says something, the other acknowledges it."""
        return self._say(b"".join(data), down=False)

    def down(self, *data: bytes) -> Dialogue:
        """The end that was dialled says something, the other acknowledges it."""
        return self._say(b"".join(data), down=True)

    def _say(self, data: bytes, *, down: bool) -> Dialogue:
        for begin in range(0, len(data), LONGEST):
            self._put(down=down, flags=PSH | ACK, data=data[begin : begin + LONGEST])
        self._put(down=not down, flags=ACK)
        return self

    def greet(self, up: str, down: str) -> Dialogue:
        """Open the connection and shake hands with NULL; ``up`` and ``down`` are the types of the sockets."""
        self.shake().up(greeting(minor=self.minor)).down(greeting(minor=self.minor))
        return self.up(ready(up)).down(ready(down))

    def subscribed(self, topic: bytes = b"") -> Dialogue:
        """A subscriber of a PUB socket."""
        self.greet("SUB", "PUB")
        return self.up(command("SUBSCRIBE", topic) if self.minor else message(b"\x01" + topic))

    def asking(self, kind: str = "DEALER") -> Dialogue:
        """A client of a ROUTER socket."""
        return self.greet(kind, "ROUTER")

    def ask(self, start: int) -> Dialogue:
        """A replay request."""
        return self.up(message(b"", number_frame(start)))

    def answer(self, batches: Iterable[tuple[int, bytes]], topic: bytes = b"kv", *, end: bool = True) -> Dialogue:
        """The answer to one, with its end marker."""
        for number, payload in batches:
            self.down(message(b"", topic, number_frame(number), payload))
        return self.down(message(b"", b"", END_SEQUENCE, b"")) if end else self

    def close(self, *, by_dialled: bool = False) -> Dialogue:
        """FIN from one end, then from the other."""
        self._put(down=by_dialled, flags=FIN | ACK)
        self._put(down=not by_dialled, flags=FIN | ACK)
        self._put(down=by_dialled, flags=ACK)
        return self

    def reset(self, *, by_dialled: bool = True) -> Dialogue:
        """RST from one end."""
        self._put(down=by_dialled, flags=RST | ACK)
        return self


# --- ZMTP --------------------------------------------------------------------------------------------------------


def greeting(mechanism: str = "NULL", *, minor: int = 1, major: int = 3) -> bytes:
    """The first 64 bytes."""
    signature = b"\xff" + bytes(8) + b"\x7f"
    return signature + bytes([major, minor]) + mechanism.encode().ljust(20, b"\0") + bytes(32)


def frame(body: bytes, flags: int = 0, *, long: bool | None = None) -> bytes:
    """One frame; long where it has to be, unless told."""
    if long is None:
        long = len(body) > 255
    size = struct.pack(">Q", len(body)) if long else bytes([len(body)])
    return bytes([flags | (2 if long else 0)]) + size + body


def command(name: str, body: bytes = b"") -> bytes:
    """A command."""
    return frame(bytes([len(name)]) + name.encode() + body, 4)


def ready(kind: str, identity: bytes = b"") -> bytes:
    """READY with its two usual properties."""
    properties = {"Socket-Type": kind.encode(), "Identity": identity}
    body = b"".join(
        bytes([len(name)]) + name.encode() + struct.pack(">I", len(value)) + value for name, value in properties.items()
    )
    return command("READY", body)


def message(*frames: bytes) -> bytes:
    """A message of several frames."""
    return b"".join(frame(body, 1) for body in frames[:-1]) + frame(frames[-1])


def live(number: int, payload: bytes, topic: bytes = b"kv") -> bytes:
    """A live message."""
    return message(topic, number_frame(number), payload)


# --- packets -----------------------------------------------------------------------------------------------------


def tcp(piece: Piece) -> bytes:
    """The segment of a piece."""
    ends = (piece.dialogue.dials[1], piece.dialogue.listens[1])
    source, target = ends[::-1] if piece.down else ends
    return (
        struct.pack(">HHIIBBHHH", source, target, piece.seq, piece.ack, 5 << 4, piece.flags, 65535, 0, 0) + piece.data
    )


def ip(piece: Piece) -> bytes:
    """The IP packet of a piece."""
    ends = (ipaddress.ip_address(piece.dialogue.dials[0]), ipaddress.ip_address(piece.dialogue.listens[0]))
    source, target = ends[::-1] if piece.down else ends
    inner = tcp(piece)
    if source.version == 4:
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 0, 0x4000, 64, 6, 0)
    else:
        head = struct.pack(">IHBB", 6 << 28, len(inner), 6, 64)
    return head + source.packed + target.packed + inner


def framed(packet: bytes, link: Link) -> bytes:
    """A packet with its link layer, padded as Ethernet pads."""
    version = packet[0] >> 4
    kind = struct.pack(">H", 0x0800 if version == 4 else 0x86DD)
    match link:
        case "ethernet":
            return (bytes(12) + kind + packet).ljust(60, b"\0")
        case "vlan":
            return (bytes(12) + b"\x81\x00\x00\x07" + kind + packet).ljust(60, b"\0")
        case "sll":
            return bytes(14) + kind + packet
        case "sll-vlan":
            return bytes(14) + b"\x81\x00\x00\x07" + kind + packet
        case "sll2":
            return kind + bytes(18) + packet
        case "null":
            return struct.pack("<I", 2 if version == 4 else 30) + packet
        case "loop":
            return struct.pack(">I", 2 if version == 4 else 30) + packet
        case "raw":
            return packet


class Kept(msgspec.Struct, frozen=True):
    """A packet as a file keeps it."""

    t_ns: int
    data: bytes
    length: int


def kept(pieces: Sequence[Piece], link: Link = "ethernet", *, snaplen: int = 262_144) -> list[Kept]:
    """Packets with times a step apart, of which ``snaplen`` bytes are kept."""
    times = [T0_NS + at * STEP_NS if piece.t_ns is None else piece.t_ns for at, piece in enumerate(pieces)]
    whole = [framed(ip(piece), link) for piece in pieces]
    return [Kept(t_ns, data[:snaplen], len(data)) for t_ns, data in zip(times, whole, strict=True)]


def pcap(packets: Iterable[Kept], link: Link = "ethernet", *, order: str = "<", nano: bool = False) -> bytes:
    """A pcap file."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    out = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262_144, LINKS[link])]
    for packet in packets:
        seconds, rest = divmod(packet.t_ns, 10**9)
        head = (seconds, rest if nano else rest // 1000, len(packet.data), packet.length)
        out += [struct.pack(f"{order}IIII", *head), packet.data]
    return b"".join(out)


def pcapng(interfaces: Sequence[tuple[Link, Sequence[Kept]]], *, order: str = "<") -> bytes:
    """A pcapng file of several interfaces, with nanoseconds, and blocks that nobody needs."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack(f"{order}I", 12 + len(body))
        return struct.pack(f"{order}I", kind) + size + body + size

    def option(code: int, value: bytes) -> bytes:
        return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)

    out = [block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for link, _ in interfaces:
        options = option(2, b"name") + option(9, b"\x09") + option(0, b"")
        out.append(block(1, struct.pack(f"{order}HHI", LINKS[link], 0, 0) + options))
    out.append(block(4, bytes(8)))  # names of hosts
    every = [(packet, index) for index, (_, packets) in enumerate(interfaces) for packet in packets]
    for packet, index in sorted(every, key=lambda one: one[0].t_ns):
        high, low = divmod(packet.t_ns, 2**32)
        head = struct.pack(f"{order}IIIII", index, high, low, len(packet.data), packet.length)
        out.append(block(6, head + packet.data))
    out.append(block(5, struct.pack(f"{order}III", 0, 0, 0) + option(5, struct.pack(f"{order}Q", 7))))
    return b"".join(out)


def written(
    folder: Path, *dialogues: Dialogue | Sequence[Piece], link: Link = "ethernet", snaplen: int = 262_144
) -> Path:
    """A pcap file of the segments of dialogues, one dialogue behind the other."""
    pieces = [piece for one in dialogues for piece in (one.pieces if isinstance(one, Dialogue) else one)]
    path = folder / "kv.pcap"
    path.write_bytes(pcap(kept(pieces, link, snaplen=snaplen), link))
    return path
