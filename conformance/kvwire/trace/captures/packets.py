"""The packets of a capture file, one by one: pcap in both byte orders and resolutions, and pcapng.

A file may be compressed with gzip. No packet is held longer than it takes to hand it on.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from kvwire.standard.reading import regular
from kvwire.trace.records import TraceError

PACKET_BYTES = 1 << 20
"""The longest packet that is believed: four times the longest that libpcap writes."""
BLOCK_BYTES = PACKET_BYTES + (1 << 16)
GZIP = b"\x1f\x8b"
SECTION = 0x0A0D0D0A
"""The type of the block with which a pcapng file begins, the same in both byte orders."""
_PCAP = {b"\xa1\xb2\xc3\xd4": 1000, b"\xa1\xb2\x3c\x4d": 1}
"""Nanoseconds per unit of the second half of a time, by the magic bytes in big-endian order."""
_MAGIC = {key for magic in _PCAP for key in (magic, magic[::-1])} | {SECTION.to_bytes(4, "big")}
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _STATISTICS, _PACKET = 1, 2, 3, 5, 6
_RESOLUTION, _OFFSET, _DROPPED_BY_INTERFACE, _DROPPED_BY_SYSTEM = 9, 14, 5, 7
_LINK_MASK = 0x03FFFFFF
"""Without how long the check sequence of a frame is, and whether that was told."""


class CaptureError(TraceError):
    """The file is no usable capture; the message says what is wrong and what to do."""


class Packet(msgspec.Struct, frozen=True, gc=False):
    """One packet: its time, the link type of its interface, the bytes that were kept, and how many there were."""

    t_ns: int
    link: int
    data: bytes
    length: int


def opened(path: Path) -> BinaryIO:
    """A capture file, unpacked.

    Raises:
        OSError: when it cannot be opened.
    """
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    return cast("BinaryIO", gzip.open(path)) if packed else path.open("rb")


def is_capture(path: Path) -> bool:
    """Whether a file begins like one; False when it cannot be read."""
    try:
        regular(path)
        with opened(path) as file:
            return file.read(4) in _MAGIC
    except (OSError, EOFError, zlib.error):
        return False


class _Damaged(Exception):
    """What comes next is no packet; the message says why."""


class Packets:
    """The packets of an open file, in its order.

    A file that was cut short, or is damaged after some packets, is read up to there: ``damaged`` then says so.
    ``dropped`` counts what the capturing system says that it lost, by interface.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0
        self.damaged = ""
        self._dropped: Counter[int] = Counter()

    @property
    def dropped(self) -> int:
        """Packets that the capturing system lost, as far as the file says."""
        return self._dropped.total()

    def __iter__(self) -> Iterator[Packet]:
        try:
            magic = self._file.read(4)
        except (OSError, EOFError, zlib.error) as error:
            raise CaptureError(f"it cannot be unpacked or read ({error})") from None
        if magic not in _MAGIC:
            raise CaptureError("neither pcap nor pcapng")
        found = self._pcapng(magic) if magic == SECTION.to_bytes(4, "big") else self._pcap(magic)
        try:
            for packet in found:
                self.count += 1
                yield packet
        except _Damaged as error:
            self.damaged = f"{error} behind packet {self.count}"
        except (OSError, EOFError, zlib.error) as error:
            self.damaged = f"the file cannot be unpacked or read behind packet {self.count} ({error})"

    def _exactly(self, count: int, what: str) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise _Damaged(f"the file ends in the middle of {what}")
        return data

    # pcap

    def _pcap(self, magic: bytes) -> Iterator[Packet]:
        order = ">" if magic in _PCAP else "<"
        unit = _PCAP[magic if order == ">" else magic[::-1]]
        *_, link = struct.unpack(f"{order}HHiIII", self._exactly(20, "its header"))
        link &= _LINK_MASK
        head = struct.Struct(f"{order}IIII")
        while raw := self._file.read(16):
            if len(raw) < 16:
                raise _Damaged("the file ends in the middle of a packet")
            seconds, parts, kept, length = head.unpack(raw)
            if kept > PACKET_BYTES:
                raise _Damaged(f"the file is damaged: a packet of {kept:,} bytes")
            yield Packet(seconds * 10**9 + parts * unit, link, self._exactly(kept, "a packet"), max(length, kept))

    # pcapng

    def _pcapng(self, magic: bytes) -> Iterator[Packet]:
        order = ""
        interfaces: list[_Interface] = []
        kind = magic
        while True:
            if kind == SECTION.to_bytes(4, "big"):
                order, interfaces = self._section(), []
            else:
                number, length = struct.unpack(f"{order}II", kind + self._exactly(4, "a block"))
                if length < 12:
                    raise _Damaged(f"the file is damaged: a block of {length} bytes")
                if number in (_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _STATISTICS, _PACKET):
                    if length > BLOCK_BYTES:
                        raise _Damaged(f"the file is damaged: a block of {length:,} bytes")
                    body = self._exactly(length - 8, "a block")[:-4]
                    try:
                        packet = self._block(order, number, body, interfaces)
                    except (struct.error, IndexError):
                        raise _Damaged(f"the file is damaged: a block of type {number} that is too short") from None
                    if packet is not None:
                        yield packet
                else:
                    self._skip(length - 8)
            kind = self._file.read(4)
            if not kind:
                return
            if len(kind) < 4:
                raise _Damaged("the file ends in the middle of a block")

    def _section(self) -> str:
        """Read the rest of a section header; the byte order of the section."""
        raw = self._exactly(8, "a section header")
        order = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}.get(raw[4:])
        if order is None:
            raise _Damaged("the file is damaged: a section without a byte order")
        (length,) = struct.unpack(f"{order}I", raw[:4])
        if length < 28:
            raise _Damaged(f"the file is damaged: a section header of {length} bytes")
        self._skip(length - 12)
        return order

    def _skip(self, count: int) -> None:
        while count:
            count -= len(self._exactly(min(count, 1 << 16), "a block"))

    def _block(self, order: str, kind: int, body: bytes, interfaces: list[_Interface]) -> Packet | None:
        if kind == _INTERFACE:
            interfaces.append(_Interface(order, body))
            return None
        if kind == _STATISTICS:
            (index,) = struct.unpack_from(f"{order}I", body)
            counts = (
                struct.unpack(f"{order}Q", value)[0]
                for code, value in _options(order, body, 12)
                if code in (_DROPPED_BY_INTERFACE, _DROPPED_BY_SYSTEM) and len(value) == 8
            )
            self._dropped[index] = max(self._dropped[index], sum(counts))
            return None
        if kind == _SIMPLE_PACKET:
            (length,) = struct.unpack_from(f"{order}I", body)
            interface = interfaces[0]
            kept = min(length, len(body) - 4, interface.snaplen or length)
            return Packet(0, interface.link, body[4 : 4 + kept], length)
        form = "IIIII" if kind == _PACKET else "HxxIIII"
        index, high, low, kept, length = struct.unpack_from(f"{order}{form}", body)
        interface = interfaces[index]
        if kept > len(body) - 20:
            raise _Damaged(f"the file is damaged: a packet of {kept:,} bytes in a block of {len(body):,}")
        return Packet(interface.time_ns((high << 32) | low), interface.link, body[20 : 20 + kept], max(length, kept))


class _Interface:
    """One interface of a pcapng section: its link type, how much of a packet it keeps, and its clock."""

    def __init__(self, order: str, body: bytes) -> None:
        self.link, self.snaplen = struct.unpack_from(f"{order}HxxI", body)
        self._per_second, self._offset = 10**6, 0
        for code, value in _options(order, body, 8):
            if code == _RESOLUTION and value:
                power = value[0] & 0x7F
                self._per_second = 2**power if value[0] & 0x80 else 10**power
            elif code == _OFFSET and len(value) == 8:
                (self._offset,) = struct.unpack(f"{order}q", value)

    def time_ns(self, ticks: int) -> int:
        return self._offset * 10**9 + ticks * 10**9 // self._per_second


def _options(order: str, body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, at)
        if code == 0:
            return
        yield code, body[at + 4 : at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
