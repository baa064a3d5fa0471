"""From a packet to the TCP segment in it: link layers, IPv4 and IPv6."""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter

import msgspec

from kvwire.trace.captures.packets import Packet

FIN, SYN, RST, ACK = 1, 2, 4, 16

Address = tuple[bytes, int]
"""An IP address as it stands in packets, and a port."""

_NULL, _ETHERNET, _LOOP, _SLL, _SLL2 = 0, 1, 108, 113, 276
_RAW = frozenset({12, 14, 101, 228, 229})
LINKS = frozenset({_NULL, _ETHERNET, _LOOP, _SLL, _SLL2, *_RAW})
"""The link types that are read (tcpdump.org/linktypes.html)."""
_TYPED = {_ETHERNET: (14, 12), _SLL: (16, 14), _SLL2: (20, 0)}
"""Link layers that name the protocol they carry: how long their header is, and where in it that stands."""
_VLAN = (0x8100, 0x88A8, 0x9100)
_FAMILIES = {2: 4, 10: 6, 24: 6, 28: 6, 30: 6}
"""The version of IP by address family, as Linux, BSD and macOS number them."""
_TYPES = {0x0800: 4, 0x86DD: 6}
_TCP, _FRAGMENT, _AUTHENTICATION = 6, 44, 51
_SKIPPED = (0, 43, 60, 135, 139, 140)
"""Extension headers of IPv6 that say how long they are."""


class Segment(msgspec.Struct, frozen=True, gc=False):
    """One TCP segment: ``payload`` is what was kept of it, ``length`` how long it was; ``ack`` is None without one."""

    t_ns: int
    source: Address
    target: Address
    seq: int
    ack: int | None
    flags: int
    payload: bytes
    length: int


def shown(address: Address) -> str:
    """An address for readers and endpoints: ``10.0.0.5:5557``, ``[::1]:5557``."""
    host = ipaddress.ip_address(address[0])
    return f"[{host}]:{address[1]}" if host.version == 6 else f"{host}:{address[1]}"


class Layers:
    """Reads packets, and counts what it cannot read.

    ``cut`` counts TCP segments of which the capture kept less than there was, ``kept`` is the most that it kept of one.
    ``fragments`` are pieces of IP packets, which are not put together, ``links`` packets of other link types.
    """

    def __init__(self) -> None:
        self.cut = 0
        self.kept = 0
        self.fragments = 0
        self.links: Counter[int] = Counter()

    def segment(self, packet: Packet) -> Segment | None:
        """The TCP segment in a packet; None when there is none that can be read."""
        data, link = packet.data, packet.link
        if link in _TYPED:
            at, kind = _TYPED[link][0], _u16(data, _TYPED[link][1])
            while kind in _VLAN:  # libpcap puts the tag into the header of Linux cooked v1, too
                at, kind = at + 4, _u16(data, at + 2)
            version = _TYPES.get(kind, 0)
        elif link in _RAW:
            at, version = 0, data[0] >> 4 if data else 0
        elif link in (_NULL, _LOOP):
            # The family is in the byte order of the capturing machine; it is small.
            at, version = 4, _FAMILIES.get(max(data[:4], default=0), 0)
        else:
            self.links[link] += 1
            return None
        if version == 4:
            return self._ipv4(packet, at)
        return self._ipv6(packet, at) if version == 6 else None

    def _ipv4(self, packet: Packet, at: int) -> Segment | None:
        data = packet.data
        if len(data) < at + 20 or data[at] >> 4 != 4:
            return None
        head = (data[at] & 15) * 4
        if data[at + 9] != _TCP or head < 20:
            return None
        if _u16(data, at + 6) & 0x3FFF:
            self.fragments += 1
            return None
        # Where the card cuts segments, the length of what it is handed can be 0.
        end = at + _u16(data, at + 2) if _u16(data, at + 2) else packet.length
        return self._tcp(packet, at + head, end, data[at + 12 : at + 16], data[at + 16 : at + 20])

    def _ipv6(self, packet: Packet, at: int) -> Segment | None:
        data = packet.data
        if len(data) < at + 40 or data[at] >> 4 != 6:
            return None
        end = at + 40 + _u16(data, at + 4) if _u16(data, at + 4) else packet.length
        source, target, kind = data[at + 8 : at + 24], data[at + 24 : at + 40], data[at + 6]
        at += 40
        while kind != _TCP:
            if len(data) < at + 8:
                return None
            if kind == _FRAGMENT:
                self.fragments += _u16(data, at + 2) & 0xFFF9 != 0
                if _u16(data, at + 2) & 0xFFF9:
                    return None
                kind, at = data[at], at + 8
            elif kind in _SKIPPED:
                kind, at = data[at], at + (data[at + 1] + 1) * 8
            elif kind == _AUTHENTICATION:
                kind, at = data[at], at + (data[at + 1] + 2) * 4
            else:
                return None
        return self._tcp(packet, at, end, source, target)

    def _tcp(self, packet: Packet, at: int, end: int, source: bytes, target: bytes) -> Segment | None:
        data = packet.data
        if len(data) < at + 20:
            if end >= at + 20:
                self._short(packet)
            return None
        source_port, target_port, seq, ack, offset, flags = struct.unpack_from(">HHIIBB", data, at)
        begin = at + (offset >> 4) * 4
        if begin < at + 20 or begin > end:
            return None
        payload = data[begin:end]
        if len(payload) < end - begin:
            self._short(packet)
        return Segment(
            t_ns=packet.t_ns,
            source=(source, source_port),
            target=(target, target_port),
            seq=seq,
            ack=ack if flags & ACK else None,
            flags=flags,
            payload=payload,
            length=end - begin,
        )

    def _short(self, packet: Packet) -> None:
        self.cut += 1
        self.kept = max(self.kept, len(packet.data))


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")
