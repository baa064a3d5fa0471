"""ZMTP 3.0 and 3.1 as one peer speaks it (rfc.zeromq.org/spec/23, /37): greeting, commands and messages from bytes.

Where bytes are missing, reading goes on at the next frame if its place is certain: inside of a frame whose length is
known, or where a row of messages of this protocol begins (``messages_from``).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvwire.wire.framing import END_SEQUENCE

GREETING_BYTES = 64
MESSAGE_BYTES = 256 << 20
"""The longest message that is held: what the witnesses of a run take."""
SEARCH_BYTES = 8 << 20
"""How many bytes are searched for the next message before the rest is given up …"""
ALL_SEARCH_BYTES = 64 << 20
"""… and how many are held for that in all connections together."""
ROW = 3
"""How many messages in a row, numbered without a hole, show where a message begins."""
PLACES = 1000
"""How many places are tried at most …"""
MARKS = 20_000
"""… of so many at which a number frame may stand."""
FRAMES = 1000
"""More frames than any message of the protocol has, malformed ones included."""

_MORE, _LONG, _COMMAND = 1, 2, 4


class Greeting(msgspec.Struct, frozen=True):
    """What a connection begins with."""

    major: int
    minor: int
    mechanism: str


class Command(msgspec.Struct, frozen=True):
    """A command: READY, ERROR, SUBSCRIBE, CANCEL, PING, PONG …"""

    name: str
    body: bytes

    @property
    def properties(self) -> dict[str, bytes]:
        """The properties of READY, their names in lower case; those that can be read."""
        found: dict[str, bytes] = {}
        at = 0
        while at < len(self.body):
            name = self.body[at + 1 : at + 1 + self.body[at]]
            at += 1 + len(name)
            length = int.from_bytes(self.body[at : at + 4], "big")
            found[name.decode("ascii", "replace").lower()] = self.body[at + 4 : at + 4 + length]
            at += 4 + length
        return found


class Message(msgspec.Struct, frozen=True):
    """A whole message."""

    frames: tuple[bytes, ...]


class Lost(msgspec.Struct, frozen=True):
    """Bytes of the capture are missing here, and the message in which they stood; ``exact``: that message alone."""

    exact: bool


class Foreign(msgspec.Struct, frozen=True):
    """What comes is not read; ``why`` in words, empty where it is not ZMTP at all."""

    why: str


Said = Greeting | Command | Message | Lost | Foreign


class _Header(msgspec.Struct, frozen=True, gc=False):
    flags: int
    begin: int
    end: int


def _header(data: bytes | bytearray, at: int) -> _Header | None:
    """The frame that begins at a place; None when its header is not whole.

    Raises:
        ValueError: when no frame can begin so.
    """
    if at >= len(data):
        return None
    flags = data[at]
    if flags > (_COMMAND | _LONG) or flags & (_COMMAND | _MORE) == _COMMAND | _MORE:
        raise ValueError(f"a frame with flags {flags:#04x}")
    size = 8 if flags & _LONG else 1
    if at + 1 + size > len(data):
        return None
    length = int.from_bytes(data[at + 1 : at + 1 + size], "big")
    if length > MESSAGE_BYTES:
        raise ValueError(f"a frame of {length:,} bytes")
    begin = at + 1 + size
    return _Header(flags, begin, begin + length)


class Kv(msgspec.Struct, frozen=True):
    """What the messages of a direction are known to be, for finding them: their topic, and how many show a place."""

    topic: bytes | None = None
    row: int = ROW


class Searching(msgspec.Struct):
    """How many bytes are held by all that search."""

    bytes: int = 0


class Reader:
    """What one peer says. ``start``: its bytes are seen from the first one on."""

    def __init__(self, *, start: bool, searching: Searching | None = None, known: Kv | None = None) -> None:
        self._data = bytearray()
        self._greeted = False
        self._found = start
        """Whether the place of the next frame is known."""
        self._begins = not start
        """Whether these are the first bytes that were seen, which can be a greeting all the same."""
        self._ended = False
        self._skip = 0
        """Bytes of a damaged frame that are still to come."""
        self._more = False
        """Whether that frame has more behind it."""
        self._damaged = False
        self._frames: list[bytes] = []
        self._size = 0
        self._known = known or Kv()
        self._search = _Search(self._known)
        self._searching = searching or Searching()
        self._counted = 0
        self.topic: bytes | None = None

    def feed(self, data: bytes) -> Iterator[Said]:
        """Take bytes; yield what they complete."""
        if self._ended:
            return
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
            if self._skip:
                return
            if not self._more:
                self._damaged = False
        self._data += data
        yield from self._read()

    def lost(self, count: int) -> Iterator[Said]:
        """So many bytes are missing."""
        if self._ended:
            return
        if self._found and self._greeted and self._within(count):
            yield Lost(exact=True)
            return
        self._drop()
        self._found, self._begins, self._damaged, self._skip = False, False, False, 0
        self._greeted = True
        self._search = _Search(Kv(topic=self.topic or self._known.topic, row=self._known.row))
        yield Lost(exact=False)

    def close(self) -> Iterator[Said]:
        """No more bytes come: what was searched ends here."""
        greets = self._begins and self._data[:1] == b"\xff"
        if not (self._ended or self._found or greets):
            at = self._search.place(self._data, last=True)
            if at is not None:
                yield from self._go_on(at)
        self._drop()
        self._ended = True

    def _within(self, count: int) -> bool:
        """Whether the missing bytes lie in the frame that is being read; then the rest of its message is skipped."""
        if self._skip:
            inside = count <= self._skip
            self._skip -= count if inside else 0
            if inside and not self._skip and not self._more:
                self._damaged = False
            return inside
        try:
            header = _header(self._data, 0)
        except ValueError:
            return False
        if header is None or header.flags & _COMMAND or count > header.end - len(self._data):
            return False
        self._skip = header.end - len(self._data) - count
        self._more = bool(header.flags & _MORE)
        self._damaged = self._more or self._skip > 0
        self._frames, self._size = [], 0
        self._data.clear()
        return True

    def _drop(self) -> None:
        self._data.clear()
        self._frames, self._size = [], 0
        self._searching.bytes -= self._counted
        self._counted = 0

    def _end(self, why: str) -> Foreign:
        self._drop()
        self._ended = True
        return Foreign(why)

    def _read(self) -> Iterator[Said]:
        if not self._found:
            if self._begins and self._data[:1] == b"\xff":
                if len(self._data) < 10:
                    return
                if self._data[9] == 0x7F:
                    self._found = True
            if not self._found:
                yield from self._look()
                return
        if not self._greeted:
            if len(self._data) < GREETING_BYTES:
                if self._data and not b"\xff".startswith(self._data[:1]):
                    yield self._end("")
                return
            if self._data[0] != 0xFF or self._data[9] != 0x7F:
                yield self._end("")
                return
            mechanism = bytes(self._data[12:32]).rstrip(b"\0").decode("ascii", "replace")
            greeting = Greeting(self._data[10], self._data[11], mechanism)
            yield greeting
            if greeting.major < 3:
                yield self._end(f"ZMTP {greeting.major} is spoken there, which is not read: ZMTP 3 is")
                return
            if mechanism != "NULL":
                yield self._end(f"its security is {mechanism or 'unknown'}, and what goes over it cannot be read")
                return
            del self._data[:GREETING_BYTES]
            self._greeted = True
        yield from self._frames_in()

    def _frames_in(self) -> Iterator[Said]:
        at = 0
        try:
            while (header := _header(self._data, at)) is not None and header.end <= len(self._data):
                body = bytes(self._data[header.begin : header.end])
                at = header.end
                if header.flags & _COMMAND:
                    length = body[0] if body else 0
                    yield Command(body[1 : 1 + length].decode("ascii", "replace"), body[1 + length :])
                    continue
                if self._damaged:
                    self._damaged = bool(header.flags & _MORE)
                    continue
                self._frames.append(body)
                self._size += len(body)
                if header.flags & _MORE:
                    if self._size > MESSAGE_BYTES or len(self._frames) > FRAMES:
                        raise ValueError("a message without an end")
                    continue
                frames, self._frames, self._size = tuple(self._frames), [], 0
                if len(frames) == 3:
                    self.topic = frames[0]
                yield Message(frames)
        except ValueError as error:
            yield self._end(f"what comes there is no ZMTP ({error})")
            return
        del self._data[:at]

    # finding a message again

    def _look(self) -> Iterator[Said]:
        at = self._search.place(self._data)
        if at is not None:
            yield from self._go_on(at)
            return
        self._searching.bytes += len(self._data) - self._counted
        self._counted = len(self._data)
        if self._search.given_up or self._counted > SEARCH_BYTES or self._searching.bytes > ALL_SEARCH_BYTES:
            yield self._end("no message is found again there" if not self._begins else "")

    def _go_on(self, at: int) -> Iterator[Said]:
        del self._data[:at]
        self._searching.bytes -= self._counted
        self._counted = 0
        self._found = self._greeted = True
        self._begins = False
        yield from self._frames_in()


class _Search:
    """Looks for the place at which a row of messages of the protocol begins.

    A live message is ``topic, number, payload``, one of a replay answer has an empty frame before; a payload is one
    whole msgpack value. A replay request is an empty frame and eight bytes.
    """

    def __init__(self, known: Kv) -> None:
        self._known = known
        self._from = 0
        self._marks = 0
        self._places = 0
        self._open: list[tuple[int, int]] = []
        """Places that may be one, and how many bytes it takes to tell more."""

    @property
    def given_up(self) -> bool:
        """Whether too much looks like a message and is none."""
        return self._marks > MARKS or self._places > PLACES

    def place(self, data: bytearray, *, last: bool = False) -> int | None:
        """The first place that is one; ``last``: no bytes come any more."""
        if (request := _request(data)) is not None:
            return request
        if not self.given_up:
            self._open += [(at, 0) for at in self._candidates(data)]
        open_: list[tuple[int, int]] = []
        for at, needs in self._open:
            if needs > len(data) and not last:
                open_.append((at, needs))
                continue
            shown = _row(data, at, self._known.row, last=last)
            if shown is True:
                return at
            if shown is not False:
                open_.append((at, shown))
        self._open = open_
        return None

    def _candidates(self, data: bytearray) -> Iterator[int]:
        """Places at which the head of a message stands, by its number frame: ``01 08`` behind a topic frame."""
        while (mark := data.find(b"\x01\x08", self._from)) >= 0:
            if mark + 10 > len(data):
                return
            self._from = mark + 1
            self._marks += 1
            for at in self._before(data, mark):
                self._places += 1
                yield at
            if self.given_up:
                return
        self._from = max(self._from, len(data) - 1)

    def _before(self, data: bytearray, mark: int) -> Iterator[int]:
        topic = self._known.topic
        lengths = range(256) if topic is None else (len(topic),)
        for length in lengths:
            at = mark - length - 2
            if at < 0:
                return
            if data[at] == _MORE and data[at + 1] == length and (topic is None or data[at + 2 : mark] == topic):
                if data[max(at - 2, 0) : at] == b"\x01\x00":
                    yield at - 2
                yield at


def _request(data: bytearray) -> int | None:
    """Whether all that came is one replay request."""
    return 0 if len(data) == 12 and data[:4] == b"\x01\x00\x00\x08" else None


def _row(data: bytearray, at: int, wanted: int, *, last: bool) -> bool | int:
    """Whether so many messages stand in a row from a place on; else how many bytes it takes to tell.

    At the end of all bytes a shorter row will do that ends with them.
    """
    number: int | None = None
    topic: bytes | None = None
    shape = count = 0
    while count < wanted:
        try:
            frames, end = _message(data, at)
        except ValueError:
            return False
        if frames is None:
            if last:
                return False
            return end
        if frames == ():
            at = end
            continue
        if shape not in (0, len(frames)):
            return False
        shape = len(frames)
        if len(frames) == 4 and frames[0] == b"":
            frames = frames[1:]
        if len(frames) != 3 or len(frames[1]) != 8:
            return False
        if frames[1] == END_SEQUENCE:
            at = end
            count += 1
            number = None
            continue
        here = int.from_bytes(frames[1], "big")
        if (number is not None and here != number + 1) or (topic is not None and frames[0] != topic):
            return False
        try:
            value = msgspec.msgpack.decode(frames[2])
        except (msgspec.MsgspecError, RecursionError, ValueError, TypeError):
            return False
        if not isinstance(value, list | dict):
            return False
        number, topic = here, frames[0]
        at = end
        count += 1
        if last and at == len(data) and count >= min(wanted, 2):
            return True
    return True


def _message(data: bytearray, at: int) -> tuple[tuple[bytes, ...] | None, int]:
    """The message at a place and where it ends; no frames where a command stands there; None: it takes so many bytes.

    Raises:
        ValueError: when none can stand there.
    """
    frames: list[bytes] = []
    while True:
        header = _header(data, at)
        if header is None:
            return None, len(data) + 1
        if header.end - at > SEARCH_BYTES:
            raise ValueError("longer than what is searched")
        if header.end > len(data):
            return None, header.end
        at = header.end
        if header.flags & _COMMAND:
            if frames:
                raise ValueError("a command in a message")
            return (), at
        frames.append(bytes(data[header.begin : header.end]))
        if not header.flags & _MORE:
            return tuple(frames), at
        if len(frames) > 4:
            raise ValueError("more frames than a message has")
